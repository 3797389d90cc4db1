# SPDX-License-Identifier: MIT
"""Programs that time themselves and print one number, with and without the preload object, alternating in one run."""
import os
import shutil
import statistics
import subprocess
import tempfile

BUILD = os.environ['DELTAPROF_BUILD']
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
ROUNDS = int(os.environ.get('DP_BENCH_ROUNDS', '7'))
out = tempfile.TemporaryDirectory(prefix='deltaprof-bench-')


def once(argv, conf, variable, behind):
    if conf is HEAPTRACK:
        argv = ['heaptrack', '-o', os.path.join(out.name, 'heaptrack'), *argv]
        conf = None
    trivial = conf is TRIVIALLY
    if trivial:
        conf = None
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}
    libraries = list(behind)
    if conf is not None:
        libraries.insert(0, PRELOAD)
        env['DELTAPROF_CONF'] = f'{conf},out={out.name}'
    if trivial:
        libraries.insert(0, os.path.join(BUILD, 'tests/bench/libtrivial.so'))
    if libraries:
        env[variable] = ':'.join(libraries)
    quiet = subprocess.DEVNULL if argv[0] == 'heaptrack' else None
    lines = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, stderr=quiet, text=True).stdout.splitlines()
    return float(next(line for line in lines if line[:1].isdigit()))  # heaptrack prints other lines


def compare(name, unit, argv, confs, variable='LD_PRELOAD', behind=()):
    """confs: {name: conf, None, TRIVIALLY or HEAPTRACK}; the first one is the run without an interposer. behind: libraries
    that are preloaded in every run, behind the interposer."""
    values = {c: [] for c in confs}
    for _ in range(ROUNDS):
        for c, conf in confs.items():
            values[c].append(once(argv, conf, variable, behind))
    base = None
    for c, v in values.items():
        median = statistics.median(v)
        base = median if base is None else base
        print(f'{name} {c}: {median:.2f} {unit} ({median - base:+.2f}; {min(v):.2f} to {max(v):.2f})', flush=True)


WITHOUT = {'without us': None}
TRIVIALLY = 'trivial'  # an interposer that does nothing, instead of the profiler
TRIVIAL = {'trivial interposer': TRIVIALLY}
HEAPTRACK = 'heaptrack'  # another profiler, for comparison: it records every event
BESIDE = {'heaptrack': HEAPTRACK} if shutil.which('heaptrack') else {}
