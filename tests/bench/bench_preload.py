# SPDX-License-Identifier: MIT
"""Measures the cost of the preload object in programs that are not changed. Runs with and without it alternate, and the
medians of both are printed: `name value unit`.

    bench_preload.py heap    pairs of malloc and free, and the start of a process
    bench_preload.py locks   pairs of lock and unlock without a waiter, and contended locks. Budgets: a pair costs at most
                             2 ns more in a process with threads, 0.5 ns without. A lock that is held for 2 us, with 10 us
                             in between, keeps at least 0.97 of its throughput. Tight loops have no budget."""
import os
import sys

from alternate import BESIDE, BUILD, WITHOUT, compare

THREADS = os.path.join(BUILD, 'tests/bench/threads')


def pair(pairs, depth=1, threads=1, live=0, size=64):
    return [os.path.join(BUILD, 'tests/bench/pair')] + [str(x) for x in (pairs, depth, threads, live, size)]


def heap():
    compare('malloc+free 64 B', 'ns', pair(9000000), {
        **WITHOUT, 'off': 'heap_rate=0', 'start=off': 'start=off', 'heap_rate=512k': 'heap_rate=512k'})
    compare('malloc+free 64 B, 4000 live samples', 'ns', pair(9000000, live=4000), {
        **WITHOUT, 'heap_rate=512k': 'heap_rate=512k'})
    compare('malloc+free 64 B, 2 threads', 'ns', pair(9000000, threads=2), {**WITHOUT, 'heap_rate=512k': 'heap_rate=512k'})
    compare('malloc+free 64 B, depth 5, every event', 'ns', pair(135000, depth=5), {
        **WITHOUT, 'heap_rate=1': 'heap_rate=1', **BESIDE})
    compare('malloc+free 64 B, depth 5, 2 threads, every event', 'ns', pair(135000, depth=5, threads=2), {
        **WITHOUT, 'heap_rate=1': 'heap_rate=1', **BESIDE})
    compare('500 x /bin/true, each', 'us', [os.path.join(BUILD, 'tests/bench/spawn'), '500', '/bin/true'], {
        **WITHOUT, 'never samples': 'heap_rate=512k', 'start=off': 'start=off', 'left out by exe': 'exe=nothing'}, 'SPAWN_PRELOAD')


def locks():
    default = {**WITHOUT, 'default rates': 'heap_rate=512k'}
    every = {**default, 'every wait': 'block_rate=1ns,mutex_rate=1'}
    for what in 'MUTEX', 'RWLOCK', 'SEM':
        for threads, words in (1, 'one thread'), (2, 'with threads'):
            compare(f'{what.lower()} pair, {words}', 'ns', [THREADS, 'pair', str(threads), what, '9000000'], default)
    for threads, held, between in (2, 2000, 10000), (2, 100, 100), (8, 2000, 10000):
        compare(f'{threads} threads, {held} ns held, {between} ns between', 'turns/ms',
                [THREADS, 'contended', str(threads), str(held), str(between), '500'], every)


{'heap': heap, 'locks': locks}[sys.argv[1]]()
