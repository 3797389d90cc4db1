# SPDX-License-Identifier: MIT
"""Frees that are not looked up, by their address or their page: each block is as the program asked for it, and no free
of a sample is missed."""
import ctypes.util
import os

import reader
from harness import main, profiles, run, same, victim

STEPS = os.environ.get('DELTAPROF_TEST_PAGES_STEPS', '15000')
RATES = '256k', '64k', '1'


def is_freed(function, r):
    total = reader.sum_profiles(profiles(r))
    made, left = (reader.by_function(total, t, {function}).get(function, 0) for t in ('alloc_objects', 'inuse_objects'))
    assert made > 0 and left == 0, (function, made, left)


def that_blocks_are_right_and_every_sample_is_freed():
    for rate in RATES:
        r = same([victim('pages'), STEPS], f'heap_rate={rate},interval=0')
        is_freed('allocate', r)
        is_freed('resize', r)


def rates_change(**kwargs):
    r = run([victim('pages'), STEPS, 'switch'], 'heap_rate=512k,interval=0', **kwargs)
    assert r.status == 0 and r.stdout == 'all blocks were right\n', (r.status, r.stdout, r.stderr)
    is_freed('allocate', r)
    is_freed('resize', r)


def that_rates_change_while_blocks_live():
    for _ in range(2):
        rates_change()


def that_other_allocators_free_every_sample():
    """They give no pages: only a block's page tells that its free need not be looked up. (Not mimalloc: with version 2.0 the
    program sometimes fails without the profiler.)"""
    found = [path for path in map(ctypes.util.find_library, ('jemalloc', 'tcmalloc_minimal')) if path]
    assert found, 'no such library is installed'
    for allocator in found:
        r = same([victim('pages'), STEPS], 'heap_rate=256k,interval=0', behind=[allocator], extra={'PAGES_ERRNO': 'any'})
        assert r.status == 0, (allocator, r.stderr)
        is_freed('allocate', r)
        is_freed('resize', r)
        rates_change(behind=[allocator], extra={'PAGES_ERRNO': 'any'})


def that_new_and_delete_behave_as_without_the_profiler():
    for name in 'new', 'new_replaced':
        for rate in RATES + ('0',):
            r = same([victim(name)], f'heap_rate={rate}')
            assert r.stdout.count('bad_alloc') == 2, r.stdout
            own = [int(w.strip(',')) for w in r.stdout.splitlines()[-1].split() if w.strip(',').isdigit()]
            assert (own[0] > 50000) == (name == 'new_replaced'), r.stdout
            if rate != '0' and name == 'new':
                is_freed('make', r)


main(globals())
