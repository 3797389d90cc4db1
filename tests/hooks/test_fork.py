# SPDX-License-Identifier: MIT
"""fork out of a process with threads, every event sampled: no child hangs, each tells of itself and of nobody else."""
import os

from harness import main, profiles, run, victim

N = int(os.environ.get('DELTAPROF_TEST_FORKS', '1000'))


def storm(n, conf):
    r = run([victim('storm'), str(n)], conf, timeout=150)
    assert r.status == 0 and r.stdout.startswith(f'{n} of {n} ended well, 0 hung; parent '), (r.stdout, r.stderr[:2000])
    return r, int(r.stdout.split()[-1])


def that_no_child_of_a_busy_process_hangs():
    r, parent = storm(N, 'heap_rate=1,interval=50ms,keep=4')
    told, names = {}, set()
    for p in profiles(r, check=False):
        told[p.pid] = told.get(p.pid, 0) + p.total('alloc_objects')
        names.update(n for s in p.samples if s.values['alloc_objects'] for n in s.names)
    told.pop(max(told, key=told.get))  # the parent, whose threads never rest
    # One in four becomes another program; the others tell of ten blocks each, whatever the parent had.
    assert set(told.values()) <= {0, 10}, sorted(set(told.values()))
    assert sum(n == 10 for n in told.values()) == N - N // 4, (len(told), N)
    assert 'make_in_child' in names


def that_children_walk_by_libunwind_too():
    storm(N // 10, 'heap_rate=1,interval=50ms,keep=4,unwind=libunwind')


main(globals())
