# SPDX-License-Identifier: MIT
"""Measures the cost of the preload object in a program that is not changed. Runs with and without it alternate, and the
medians of both are printed: `name value unit`."""
import os
import sys

from alternate import BESIDE, BUILD, WITHOUT, compare


def pair(pairs, depth=1, threads=1, live=0, size=64):
    return [os.path.join(BUILD, 'tests/bench/pair')] + [str(x) for x in (pairs, depth, threads, live, size)]


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
sys.exit(0)
