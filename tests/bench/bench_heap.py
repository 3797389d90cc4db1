# SPDX-License-Identifier: MIT
"""Measures the cost of the preload object in a program with a heap of realistic size: a step frees a random one of n
live blocks and allocates another. For comparison: no interposer, one that does nothing, and heaptrack. Then the same
with other allocators, which are preloaded behind the interposer."""
import ctypes.util
import os
import sys

from alternate import BESIDE, BUILD, TRIVIAL, WITHOUT, compare


def heap(live, size=32, depth=1, threads=1, steps=2000000):
    return [os.path.join(BUILD, 'tests/bench/heap'), 'malloc'] + [str(x) for x in (live, size, depth, threads, steps)]


SAMPLED = {**WITHOUT, **TRIVIAL, 'off': 'heap_rate=0,mutex_rate=0,block_rate=0', 'heap_rate=512k': 'heap_rate=512k'}
EVERY = {**WITHOUT, 'heap_rate=1': 'heap_rate=1,memory=1G', **BESIDE}

which = sys.argv[1:] or ['sampled', 'every', 'cxx', 'threads', 'behind']
if 'sampled' in which:
    compare('4,096 live of random size, depth 3', 'ns', heap(4096, -512, 3, steps=9000000), SAMPLED)
    for n in 10000, 1000000, 10000000:
        compare(f'{n:,} live of 32 B', 'ns', heap(n, steps=9000000 if n < 100000 else 3000000), SAMPLED)
if 'threads' in which:
    for threads in 2, 4, 8:
        compare(f'10,000 live of 32 B each, {threads} threads', 'ns', heap(10000, threads=threads, steps=2000000), SAMPLED)
if 'cxx' in which:
    compare('new+delete, 1,000 live of 32 B', 'ns', [os.path.join(BUILD, 'tests/bench/pair_cxx'), '9000000', '1000'], SAMPLED)
if 'every' in which:
    for n in 10000, 1000000:
        compare(f'{n:,} live of 32 B, every event', 'ns', heap(n, depth=5, steps=900000), EVERY)
if 'behind' in which:
    for name in 'jemalloc', 'tcmalloc_minimal':
        library = ctypes.util.find_library(name)
        for n in (10000, 1000000) if library else ():
            compare(f'{n:,} live of 32 B, {name}', 'ns', heap(n, steps=3000000), SAMPLED, behind=[library])
