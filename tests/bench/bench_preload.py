# SPDX-License-Identifier: MIT
"""What the preload object costs a program that knows nothing of it. Every figure stands beside the one without us;
the two alternate within one run, and the medians are printed: `name value unit`."""
import os
import statistics
import subprocess
import sys
import tempfile

BUILD = os.environ['DELTAPROF_BUILD']
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
ROUNDS = int(os.environ.get('DELTAPROF_BENCH_ROUNDS', '7'))
out = tempfile.TemporaryDirectory(prefix='deltaprof-bench-')


def once(argv, conf, variable):
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}
    if conf is not None:
        env[variable] = PRELOAD
        env['DELTAPROF_CONF'] = f'{conf},out={out.name}'
    return float(subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(name, unit, argv, confs, variable='LD_PRELOAD'):
    """confs: {name: conf or None}; the first is the one without us."""
    values = {c: [] for c in confs}
    for _ in range(ROUNDS):
        for c, conf in confs.items():
            values[c].append(once(argv, conf, variable))
    base = None
    for c, v in values.items():
        median = statistics.median(v)
        base = median if base is None else base
        print(f'{name} {c}: {median:.2f} {unit} (+{median - base:.2f}; {min(v):.2f} to {max(v):.2f})', flush=True)


def pair(pairs, depth=1, threads=1, live=0, size=64):
    return [os.path.join(BUILD, 'tests/bench/pair')] + [str(x) for x in (pairs, depth, threads, live, size)]


WITHOUT = {'without us': None}
compare('malloc+free 64 B', 'ns', pair(9000000), {
    **WITHOUT, 'off': 'heap_rate=0', 'heap_rate=512k': 'heap_rate=512k'})
compare('malloc+free 64 B, 4000 live samples', 'ns', pair(9000000, live=4000), {
    **WITHOUT, 'heap_rate=512k': 'heap_rate=512k'})
compare('malloc+free 64 B, 2 threads', 'ns', pair(9000000, threads=2), {**WITHOUT, 'heap_rate=512k': 'heap_rate=512k'})
compare('malloc+free 64 B, depth 5, every event', 'ns', pair(900000, depth=5), {**WITHOUT, 'heap_rate=1': 'heap_rate=1'})
compare('malloc+free 64 B, depth 5, 2 threads, every event', 'ns', pair(900000, depth=5, threads=2), {
    **WITHOUT, 'heap_rate=1': 'heap_rate=1'})
compare('500 x /bin/true, each', 'us', [os.path.join(BUILD, 'tests/bench/spawn'), '500', '/bin/true'], {
    **WITHOUT, 'never samples': 'heap_rate=512k', 'left out by exe': 'exe=nothing'}, 'SPAWN_PRELOAD')
sys.exit(0)
