# SPDX-License-Identifier: MIT
"""malloc and its family give the same results and the same errno with and without the profiler, at every rate. Every
other hooked function leaves the same errno as without the profiler."""
import os

import reader
from harness import BUILD, main, profiles, same, victim


def check_counted(r):
    """Calls that failed are not in the exact total."""
    counted = [int(c.split()[1]) for p in profiles(r) for c in p.comments if c.startswith('#allocated ')]
    assert counted and max(counted) < 2**40, counted


def that_corner_cases_are_the_same_unsampled():
    check_counted(same([victim('family')], 'heap_rate=512k'))


def that_corner_cases_are_the_same_with_every_event_sampled():
    r = same([victim('family')], 'heap_rate=1')
    check_counted(r)
    total = reader.sum_profiles(profiles(r))
    assert not [names for names, _ in total if 'fails' in names]
    made, left = (reader.by_function(total, f'{when}_objects', {'to_nothing'}) for when in ('alloc', 'inuse'))
    assert made['to_nothing'] == 10 and left['to_nothing'] == 0, (made, left)


def that_corner_cases_are_the_same_with_the_heap_off():
    same([victim('family')], 'heap_rate=0')


def that_corner_cases_are_the_same_in_a_tiny_memory():
    same([victim('family')], 'heap_rate=1,memory=4M')


def that_processes_that_fork_write_all_in_a_tiny_memory():
    """The child may have no names: there is no room for those that processes share."""
    written = profiles(same([victim('forks')], 'heap_rate=1,cpu_rate=10ms,memory=4M,interval=0'))
    made = sum(p.total('alloc_space') for p in written)
    assert 9000 * 3000 <= made < 9000 * 3000 + 100000, made  # and what libc allocates for a thread


def that_errno_is_kept_whatever_is_recorded():
    argv = [victim('errno')] + [os.path.join(BUILD, 'tests/hooks', f'lib{name}.so') for name in ('plugin', 'plugin_other')]
    for conf in ('heap_rate=1,block_rate=1ns,interval=20ms,signal=URG', 'heap_rate=0,block_rate=0,mutex_rate=0,signal=URG', 'heap_rate=1,interval=0,signal=URG'):
        r = same(argv, conf)
        assert 'pthread_cond_wait' in r.stdout and 'dlclose' in r.stdout, r.stdout


main(globals())
