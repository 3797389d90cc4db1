# SPDX-License-Identifier: MIT
"""A signal arrives in the middle of malloc: the profile that is written then takes no memory from the allocator."""
import os
import signal

import reader
from harness import HOOKS, main, profiles, run, same, victim

STRICT = os.path.join(HOOKS, 'libstrict.so')


def blocks(r, n_bytes):
    """How many blocks of this size the files hold."""
    rows = reader.sum_profiles(profiles(r, program='victim_handler')).values()
    return sum(row['alloc_objects'] for row in rows if row['alloc_space'] == n_bytes * row['alloc_objects'])


def interrupts(how, number, conf, status, last=1):
    r = run([victim('handler'), how, str(int(number))], 'heap_rate=1,' + conf, behind=[STRICT])
    assert r.status == status and r.stderr == '', (how, number, conf, r.status, r.stderr)
    assert (blocks(r, 100), blocks(r, 1234)) == (1, last), (how, number, conf, blocks(r, 100), blocks(r, 1234))


def that_a_request_inside_malloc_takes_no_memory():
    for symbolize in ('functions', 'lines'):
        interrupts('signal', signal.SIGUSR1, f'signal=USR1,interval=0,symbolize={symbolize}', 0)


def that_an_end_inside_malloc_takes_no_memory():
    for conf in ('interval=0', 'interval=0,symbolize=lines', 'interval=5ms'):
        interrupts('signal', signal.SIGTERM, conf, -signal.SIGTERM)
        interrupts('_exit', signal.SIGUSR1, conf, 5)


def that_a_crash_inside_malloc_takes_no_memory():
    for conf in ('interval=0', 'interval=5ms'):
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU):
            interrupts('signal', number, conf, -number)


def that_a_request_is_served_beside_a_handler_of_the_program():
    """The program sees only its own handler, with its flags and its mask. A signal that it ignores or waits for is no
    request."""
    for how, files in (('sigaction', 1), ('siginfo', 1), ('signal', 1), ('sysv_signal', 1), ('resethand', 1), ('changes', 2),
                       ('default', 0), ('ignore', 0), ('wait', 0)):
        r = same([victim('request'), how], 'heap_rate=1,interval=0,signal=USR2,exit_timeout=0')
        assert r.status == -signal.SIGKILL and 'plain' in r.stdout, (how, r.status, r.stdout)
        assert len(reader.files(r.out)) >= min(files, 1), (how, r.stdout, reader.files(r.out))
        assert files or not reader.files(r.out), (how, reader.files(r.out))


main(globals())
