# SPDX-License-Identifier: MIT
"""fork in a process with threads, every event sampled: no child hangs, and each reports its own events only."""
import os
import re
from collections import Counter

from harness import main, new_directory, profiles, run, share, victim

N = int(os.environ.get('DELTAPROF_TEST_FORKS', '1000'))


def storm(n, conf, *options, out=None):
    """(the run, the parent's pid, {pid: how many children had it}): the kernel may use a pid again."""
    r = run([victim('storm'), str(n), *options], conf, out=out, timeout=150)
    m = re.fullmatch(f'{n} of {n} ended well, 0 hung; parent (\\d+), children([ \\d]+)\n', r.stdout)
    assert r.status == 0 and m, (r.stdout, r.stderr[:2000])
    return r, int(m[1]), Counter(map(int, m[2].split()))


def reported(r, parent):
    """({child: blocks that it reported}, the functions that allocated)"""
    blocks, names = {}, set()
    for p in profiles(r, program='victim_storm', check=False):  # one child in four becomes another program
        blocks[p.pid] = blocks.get(p.pid, 0) + p.total('alloc_objects')
        names.update(n for s in p.samples if s.values['alloc_objects'] for n in s.names)
    assert blocks.pop(parent)
    return blocks, names


def that_no_child_of_a_busy_process_hangs():
    # A child that is delayed has one tick for each of its blocks.
    r, parent, children = storm(N, 'heap_rate=1,interval=50ms,keep=0')
    blocks, names = reported(r, parent)
    # Each child reports its ten blocks, and none of the parent's.
    assert blocks == {pid: 10 * n for pid, n in children.items()}, (len(blocks), sorted(set(blocks.values())), N)
    assert 'make_in_child' in names


def that_a_tick_between_two_blocks_of_a_child_loses_nothing():
    # The first block is made when a tick is due: it starts the agent, which reports it. The nine others come later.
    out = new_directory()
    r, parent, children = storm(share(40), 'heap_rate=1,interval=50ms,keep=0', out, out=out)
    blocks, _ = reported(r, parent)
    assert blocks == {pid: 10 * n for pid, n in children.items()}, sorted(blocks.values())


def that_children_walk_stacks_by_libunwind_too():
    storm(N // 10, 'heap_rate=1,interval=50ms,keep=0,unwind=libunwind')


main(globals())
