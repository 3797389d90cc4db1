# SPDX-License-Identifier: MIT
"""Programs that switch stacks do not crash, and every event is counted for its function and its callers."""
import os

import reader
from harness import HOOKS, main, profiles, run, skip, victim

TYPES = ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')
CONFS = ('heap_rate=1', 'heap_rate=1,unwind=fp', 'heap_rate=1,unwind=libunwind')


def counted(program, how, conf):
    r = run([victim(program), how], conf)
    if r.status == 77:
        return None
    assert r.status == 0 and r.stderr == '', (program, how, conf, r.status, r.stderr)
    lines = [line.split() for line in r.stdout.splitlines()]
    book = {line[-5]: tuple(map(int, line[-4:])) for line in lines}
    total = reader.sum_profiles(profiles(r, check=False))
    for function, values in book.items():
        seen = tuple(reader.by_function(total, t, set(book)).get(function, 0) for t in TYPES)
        assert seen == values, (program, how, conf, function, seen, values)
    return total


def that_a_fiber_that_moves_to_another_thread_in_malloc_leaves_no_guard():
    for how in 'above', 'below':
        for rate, functions in ('1', ('fiber', 'first', 'second')), ('64k', ('first', 'second')):
            r = run([victim('moves'), how], 'heap_rate=' + rate, behind=[os.path.join(HOOKS, 'libbehind.so')])
            assert r.status == 0 and r.stderr == '', (how, rate, r.status, r.stderr)
            book = {line.split()[1]: int(line.split()[2]) for line in r.stdout.splitlines()}
            seen = reader.by_function(reader.sum_profiles(profiles(r, check=False)), 'alloc_objects', set(book))
            for function in functions:  # at 64k a block of 1 MiB is missed once in 9 million
                assert seen.get('make_in_' + function, 0) == book['make_in_' + function], (how, rate, function, seen, book)


def that_stacks_below_that_of_the_thread_may_be_unmapped():
    for program in 'switches', 'switches_fp':
        for how in 'across', 'fibers', 'hand':
            for conf in CONFS:
                counted(program, how, conf)


def that_coroutines_are_counted():
    if not os.path.exists(victim('coroutines')):
        skip('no C++20')
    for how in 'stackless', 'context':
        for conf in CONFS:
            if counted('coroutines', how, conf) is None:
                skip('no boost.context')


def that_the_mark_of_a_signal_frame_does_not_end_a_stack():
    for program in 'switches', 'switches_fp':
        total = counted(program, 'marked', 'heap_rate=1')
        for names, _ in total:
            if 'make_below_trampoline' in names:
                at = names.index('make_below_trampoline')
                assert names[at + 1:at + 5] == ('below_trampoline', 'call_marked', 'calls_trampoline', 'in_thread'), names


main(globals())
