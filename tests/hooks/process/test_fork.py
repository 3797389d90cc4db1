# SPDX-License-Identifier: MIT
"""fork out of a process with threads, every event sampled: no child hangs, each tells of itself and of nobody else."""
import os
import re
from collections import Counter

from harness import main, new_directory, profiles, run, victim

N = int(os.environ.get('DELTAPROF_TEST_FORKS', '1000'))


def storm(n, conf, *options, out=None):
    """(the run, the parent's pid, {pid: how many children had it}): numbers may come round."""
    r = run([victim('storm'), str(n), *options], conf, out=out, timeout=150)
    m = re.fullmatch(f'{n} of {n} ended well, 0 hung; parent (\\d+), children([ \\d]+)\n', r.stdout)
    assert r.status == 0 and m, (r.stdout, r.stderr[:2000])
    return r, int(m[1]), Counter(map(int, m[2].split()))


def tellings(r, parent):
    """({child: blocks it told of}, the functions that allocated)"""
    told, names = {}, set()
    for p in profiles(r, program='victim_storm', check=False):  # one in four becomes another program
        told[p.pid] = told.get(p.pid, 0) + p.total('alloc_objects')
        names.update(n for s in p.samples if s.values['alloc_objects'] for n in s.names)
    assert told.pop(parent)
    return told, names


def that_no_child_of_a_busy_process_hangs():
    # A child that is held up has a tick for each of its blocks.
    r, parent, children = storm(N, 'heap_rate=1,interval=50ms,keep=0')
    told, names = tellings(r, parent)
    # Each tells of its ten blocks, whatever the parent had.
    assert told == {pid: 10 * n for pid, n in children.items()}, (len(told), sorted(set(told.values())), N)
    assert 'make_in_child' in names


def that_a_tick_between_two_blocks_of_a_child_loses_nothing():
    # The first block comes when a tick is due and starts the agent, which tells of it; the nine others come later.
    out = new_directory()
    r, parent, children = storm(40, 'heap_rate=1,interval=50ms,keep=0', out, out=out)
    told, _ = tellings(r, parent)
    assert told == {pid: 10 * n for pid, n in children.items()}, sorted(told.values())


def that_children_walk_by_libunwind_too():
    storm(N // 10, 'heap_rate=1,interval=50ms,keep=0,unwind=libunwind')


main(globals())
