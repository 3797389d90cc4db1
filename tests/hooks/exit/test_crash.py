# SPDX-License-Identifier: MIT
"""Programs that crash end as without the profiler, and the last profile is written."""
import os
import re
import resource
import shutil
import signal

import reader
from harness import HOOKS, both, main, new_directory, profiles, run, same, skip, victim

WITH_AND_WITHOUT_AGENT = ('heap_rate=1,interval=0', 'heap_rate=1,interval=5ms')
SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGXCPU, signal.SIGSYS)


def last(loaded):
    """How many blocks of make_last are in these profiles. They are found by size: a profile of a crash has no names."""
    rows = reader.sum_profiles(loaded).values()
    return sum(row['alloc_objects'] for row in rows if row['alloc_space'] == 1234 * row['alloc_objects'])


def crashes(how, *args, status, confs=WITH_AND_WITHOUT_AGENT, kept=1):
    for conf in confs:
        r = same([victim('crash'), how, *args], conf)
        assert r.status == status, (how, conf, r.status, r.stderr)
        assert last(profiles(r)) == kept, (how, conf, last(profiles(r)))
    return r


def that_each_crash_delivers():
    crashes('abort', status=-signal.SIGABRT)
    crashes('segv', status=-signal.SIGSEGV)
    crashes('bus', status=-signal.SIGBUS)
    for number in SIGNALS:
        crashes(str(int(number)), status=-number)


def that_cpu_time_used_up_delivers():
    r = run([victim('crash'), 'burn'], 'heap_rate=1,interval=0')
    assert r.status == -signal.SIGXCPU and last(profiles(r)) == 1, (r.status, r.stderr)


def that_a_stack_overflow_delivers():
    crashes('overflow', status=-signal.SIGSEGV)
    for how in 'thread', 'at-once', 'at-once-c11':
        crashes('overflow-' + how, status=-signal.SIGSEGV)


def that_a_broken_heap_delivers():
    crashes('corrupt', status=-signal.SIGABRT)


def that_a_crash_while_threads_allocate_and_ticks_run_delivers():
    for how, number in (('abort', signal.SIGABRT), ('segv', signal.SIGSEGV)):
        crashes('busy', how, status=-number, confs=['heap_rate=1,interval=0', 'heap_rate=1,interval=1ms'])


def that_two_crashes_at_once_are_one():
    for conf in 5 * WITH_AND_WITHOUT_AGENT:
        r = run([victim('crash'), 'together'], conf)
        assert r.status in (-signal.SIGABRT, -signal.SIGSEGV) and last(profiles(r)) == 1, (conf, r.status)


def that_each_worker_that_crashes_leaves_its_profile():
    for how, n in (('workers', 200), ('threaded-workers', 40)):
        r = run([victim('crash'), how, str(n)], 'heap_rate=1,interval=0')
        assert r.status == 5, (how, r.status, r.stderr)
        by_pid = {}
        for p in profiles(r):
            by_pid.setdefault(p.pid, []).append(p)
        assert [last(p) for p in by_pid.values()] == (n + 1) * [1], (how, len(by_pid))


def that_a_crash_inside_a_tick_loses_one_profile_and_says_which():
    kinds = {'heap', 'mutex', 'block'}
    for kind in kinds:
        r = run([victim('lock_mix'), '50'], 'heap_rate=1,mutex_rate=1,block_rate=1ns,interval=0',
                behind=[os.path.join(HOOKS, 'libbreaks.so')], extra={'BREAKS': f'.{kind}.'})
        assert r.status == -signal.SIGSEGV, (kind, r.status, r.stderr)
        assert r.stderr.count(f'the last one of kind {kind} is lost') == 1, (kind, r.stderr)
        assert {k for k in kinds if profiles(r, kind=k, check=False)} == kinds - {kind}, (kind, r.out)


BREAKS_ELF = [os.path.join(HOOKS, 'libelf_breaks.so')]
MIB = 1 << 20


def held(r):
    rows = reader.sum_profiles(profiles(r, check=False)).values()
    return sum(row['alloc_space'] for row in rows)


def that_a_crash_of_the_library_that_reads_symbols_ends_no_program():
    """In the main thread at its exit, and in the background thread."""
    for conf, how in (('heap_rate=1,interval=0', ['return', 'none']), ('heap_rate=1,interval=5ms', ['leave', 'exit'])):
        without, r = both([victim('exit'), *how], conf, behind=BREAKS_ELF)
        assert r.status == without.status, (conf, r.status, r.stderr)
        assert r.stderr.count('module symbolize: its library crashed while it read the symbols of') == 1, r.stderr
        assert held(r) >= MIB, conf


def that_a_crash_of_the_profiler_says_so_and_loses_no_profile():
    r = run([victim('exit'), 'leave', 'exit'], 'heap_rate=1,interval=5ms', behind=BREAKS_ELF, extra={'BREAKS': 'libc'})
    assert r.status == -signal.SIGSEGV, (r.status, r.stderr)
    assert r.stderr.count('the profiler itself crashed, signal 11, code ') == 1 and 'libc' in r.stderr, r.stderr
    assert held(r) > 0 and 'lost' not in r.stderr, r.stderr


def that_a_crash_of_the_background_thread_says_so():
    r = run([victim('exit'), 'leave', 'exit'], 'heap_rate=1,interval=5ms', behind=[os.path.join(HOOKS, 'libbreaks.so')])
    assert r.status == -signal.SIGSEGV, (r.status, r.stderr)
    assert r.stderr.count('the profiler itself crashed, signal 11, code ') == 1 and 'libbreaks' in r.stderr, r.stderr
    assert r.stderr.count('the last one of kind heap is lost') == 1, r.stderr


def that_a_core_file_of_the_background_thread_is_where_the_programs_would_be():
    with open('/proc/sys/kernel/core_pattern') as f:
        elsewhere = f.read()[0] in '|/'
    if elsewhere or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        skip('core files go elsewhere here')
    directory = new_directory()
    never, open_end = os.pipe()  # the program waits for it, so only the background thread writes profiles
    r = run(['sh', '-c', 'ulimit -c unlimited; exec "$0" deadlock', victim('waiting')], 'heap_rate=1,interval=5ms,exe=*waiting',
            behind=[os.path.join(HOOKS, 'libbreaks.so')], cwd=directory, stdin=never)
    os.close(never)
    os.close(open_end)
    assert r.status == -signal.SIGSEGV and 'the profiler itself crashed' in r.stderr, (r.status, r.stderr)
    assert len(os.listdir(directory)) == 1, os.listdir(directory)


def that_a_signal_to_the_process_is_not_taken_by_the_background_thread():
    r = same([victim('crash'), 'waits'], 'heap_rate=1,interval=5ms')
    assert (r.status, sorted(r.stdout.split())) == (5, ['11', '6', 'taken', 'taken']), (r.status, r.stdout, r.stderr)


def that_signals_off_leaves_crashes_alone():
    crashes('segv', status=-signal.SIGSEGV, confs=['heap_rate=1,interval=0,signals=off'], kept=0)


def that_a_core_dump_shows_the_crash():
    for how in ('segv', 'bus', 'abort', str(int(signal.SIGFPE))):
        r = same([victim('crash'), 'traced', how], 'heap_rate=1,interval=0')
        assert r.status == 5 and f'in fault {int(how == "segv")}' in r.stdout, r.stdout
        assert 1 in [last([p]) for p in profiles(r)]


def that_a_handler_of_the_program_comes_first():
    r = crashes('handler', status=-signal.SIGSEGV)
    assert r.stdout == 'handled by the program\n', r.stdout


def that_the_program_sees_its_own_actions_and_stacks():
    for conf in WITH_AND_WITHOUT_AGENT:
        assert same([victim('crash'), 'show'], conf).status == 5


def that_a_crash_behind_a_seccomp_filter_is_one():
    for how, number in (('segv', signal.SIGSEGV), ('abort', signal.SIGABRT)):
        for conf in WITH_AND_WITHOUT_AGENT:
            without, with_us = both([victim('crash'), 'filtered', how], conf)
            assert without.status == with_us.status == -number, (how, conf, with_us.status, with_us.stderr)


def that_faulthandler_of_python_prints_the_same_as_without_the_profiler():
    python = shutil.which('python3')
    for code, number in (('import ctypes; ctypes.string_at(0)', signal.SIGSEGV), ('import os; os.abort()', signal.SIGABRT)):
        without, with_us = both([python, '-X', 'faulthandler', '-c', code], 'interval=0')
        assert without.status == with_us.status == -number, (without.status, with_us.status)
        told = [re.sub('0x[0-9a-f]+', 'X', r.stderr) for r in (without, with_us)]
        assert told[0] == told[1] and 'Fatal Python error' in told[0], told
        assert profiles(with_us, program='python3*', check=False), with_us.out


main(globals())
