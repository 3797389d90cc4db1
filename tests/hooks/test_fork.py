# SPDX-License-Identifier: MIT
"""fork out of a process with threads, every event sampled: no child hangs, each tells of itself and of nobody else."""
import os

import reader
from harness import main, profiles, run, victim

N = int(os.environ.get('DELTAPROF_TEST_FORKS', '1000'))


def storm(n, conf):
    r = run([victim('storm'), str(n)], conf, timeout=150)
    assert r.status == 0 and r.stdout == f'{n} of {n} ended well, 0 hung\n', (r.stdout, r.stderr[:2000])
    return r


def that_no_child_of_a_busy_process_hangs():
    r = storm(N, 'heap_rate=1,interval=50ms,keep=4')
    alone = [reader.load(p) for p in reader.files(r.out)]
    children = {}
    for p in alone:
        own = reader.by_function(reader.sum_profiles([p]), 'alloc_objects', {'make_in_child'}).get('make_in_child', 0)
        children[p.pid] = children.get(p.pid, 0) + own
    parent = min(children)
    assert children.pop(parent) == 0
    # One in four becomes another program; the others tell of ten blocks each, whatever the parent had.
    told = [n for n in children.values() if n]
    assert set(told) == {10}, sorted(set(told))
    assert len(told) >= N * 3 // 4, (len(told), N)


def that_children_walk_by_libunwind_too():
    storm(N // 10, 'heap_rate=1,interval=50ms,keep=4,unwind=libunwind')


main(globals())
