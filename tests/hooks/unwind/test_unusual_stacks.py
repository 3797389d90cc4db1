# SPDX-License-Identifier: MIT
"""Events on stacks other than the thread's, and in signal handlers that interrupt a hook, are counted."""
import os
import shutil

import reader
from harness import HOOKS, main, profiles, run, skip, victim

TYPES = ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')
CONFS = ('heap_rate=1', 'heap_rate=1,interval=10ms', 'heap_rate=1,unwind=fp', 'heap_rate=1,unwind=libunwind')


def counted(how, program='unusual_stacks', confs=CONFS, **kwargs):
    for conf in confs:
        r = run([victim(program), how], conf, **kwargs)
        assert r.status == 0 and r.stderr == '', (how, conf, r.status, r.stderr)
        book = {f: tuple(map(int, values)) for _, f, *values in (line.split() for line in r.stdout.splitlines())}
        total = reader.sum_profiles(profiles(r, check=how in ('altstack', 'clone')))
        for f, values in book.items():
            seen = tuple(reader.by_function(total, t, set(book)).get(f, 0) for t in TYPES)
            if any(values):
                assert seen == values, (how, conf, f, seen, values)


def that_fibers_are_counted():
    counted('fibers')


def that_a_stack_of_makecontext_is_whole():
    """Its outermost frame is a return address that no call left behind."""
    r = run([victim('unusual_stacks'), 'fibers'], 'heap_rate=1')
    stacks = [[f.function for f in s.frames] for p in profiles(r, check=False) for s in p.samples]
    fibers = [names for names in stacks if 'make_in_fiber' in names]
    assert fibers and not any('[truncated]' in names for names in fibers), fibers[:1]


def that_a_stack_of_one_page_suffices():
    """Signal stacks are often not larger, behind the registers that the kernel saves there."""
    counted('small_fibers', confs=CONFS[:3])


def that_events_on_a_signal_stack_are_counted():
    counted('altstack')


def that_a_thread_unknown_to_libc_is_counted():
    counted('clone')


def that_code_without_unwind_data_does_no_harm():
    counted('jit')


def that_a_handler_may_allocate_in_the_middle_of_a_hook():
    counted('interrupted', behind=[os.path.join(HOOKS, 'libbump.so')])


def that_walks_stop_at_every_edge():
    """Deep stacks, huge frames, a first thread without a limit, tiny threads, unmapped stacks, jumps, wrong data."""
    for how in 'far', 'unlimited', 'tiny', 'come_and_go', 'jump', 'lie':
        counted(how, 'edges')


def that_valgrind_has_nothing_to_say_about_walks():
    """It writes a line about a system call that it does not like; a walk of an unusual stack asks for each page."""
    if not shutil.which('valgrind'):
        skip('no valgrind here')
    r = run(['valgrind', '-q', '--tool=none', victim('edges'), 'come_and_go'], 'heap_rate=1')
    assert r.status == 0 and 'sigprocmask' not in r.stderr, r.stderr[:400]


main(globals())
