# SPDX-License-Identifier: MIT
"""Measures what the preload object costs the programs of mimalloc-bench (github.com/daanx/mimalloc-bench), by which
allocators are compared. DP_MIMALLOC_BENCH is the directory where `cmake` and `make` built its folder `bench`; that folder
lies beside it as `bench`, or where DP_MIMALLOC_SOURCE says. Runs alternate. A ratio is that of the lower quartiles of
the rounds: other programs on the machine only ever add time. What is compared is processor time, or processor time an
operation where a program works for a fixed time. A name on the command line selects programs."""
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from alternate import BUILD, PRELOAD, ROUNDS

WHERE = os.environ.get('DP_MIMALLOC_BENCH', '')
SOURCE = os.environ.get('DP_MIMALLOC_SOURCE', os.path.join(os.path.dirname(WHERE), 'bench'))
N = str(len(os.sched_getaffinity(0)))
OFF = 'heap_rate=0,mutex_rate=0,block_rate=0'
CONFS = {'interposer that does nothing': 'trivial', 'off': OFF, 'heap_rate=512k': 'heap_rate=512k',
         'every event': 'heap_rate=1,memory=1G'}

# rptest mostly sleeps, and says itself how many operations took a second of processor time.
A_CPU_SECOND = r'(\d+) memory ops/CPU second'

# name: (arguments, where the program prints the number of operations; None: their number is fixed)
PROGRAMS = {
    'cfrac': (['17545186520507317056371138836327483792789528'], None),
    'espresso': ([os.path.join(SOURCE, 'espresso/largest.espresso')], None),
    'barnes': ([], None),
    'alloc-test': (['1'], None),
    'larson': (['2', '8', '1000', '5000', '100', '4141', N], r'Throughput = +(\d+)'),
    'larson-sized': (['2', '8', '1000', '5000', '100', '4141', N], r'Throughput = +(\d+)'),
    'mstress': ([N, '50', '25'], None),
    'rptest': ([N, '0', '1', '2', '500', '1000', '100', '8', '16000'], A_CPU_SECOND),
    'xmalloc-test': (['-w', N, '-t', '2', '-s', '64'], r'free/sec: ([\d.]+)'),
    'cache-scratch': ([N, '1000', '1', '2000000', N], None),
    'cache-thrash': ([N, '1000', '1', '2000000', N], None),
    'malloc-large': ([], None),
    'mleak': (['5'], None),
    'glibc-simple': ([], None),
    'glibc-thread': ([N], r'(\d+) iterations'),
}


def once(name, conf, out):
    """Processor time, or processor time an operation: the unit cancels out in a ratio."""
    argv, counted = PROGRAMS[name]
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}
    if conf == 'trivial':
        env['LD_PRELOAD'] = os.path.join(BUILD, 'tests/bench/libtrivial.so')
    elif conf:
        env.update(LD_PRELOAD=PRELOAD, DELTAPROF_CONF=f'{conf},out={out}')
    source = os.path.join(SOURCE, name, 'input')
    with open(source if os.path.exists(source) else os.devnull) as given, tempfile.TemporaryFile('w+') as printed:
        process = subprocess.Popen([os.path.join(WHERE, name), *argv], env=env, stdin=given, stdout=printed, cwd=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f'{name} ended with {process.returncode} under {conf}')
        printed.seek(0)
        n = float(re.search(counted, printed.read()).group(1)) if counted else 1
    return 1 / n if counted is A_CPU_SECOND else (used.ru_utime + used.ru_stime) / n


def lower_quartile(values):
    return sorted(values)[len(values) // 4]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


names = [n for n in PROGRAMS if (n in sys.argv[1:] or not sys.argv[1:]) and shutil.which(os.path.join(WHERE, n))]
if not WHERE or not names:
    print('skipped: DP_MIMALLOC_BENCH names no directory with the programs of mimalloc-bench')
    sys.exit(77)
ratios = {c: [] for c in CONFS}
with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as out:
    for name in names:
        alone, rounds = [], {c: [] for c in CONFS}
        for _ in range(ROUNDS):
            alone.append(once(name, None, out))
            for c, conf in CONFS.items():
                rounds[c].append(once(name, conf, out))
        for c, values in rounds.items():
            ratios[c].append(lower_quartile(values) / lower_quartile(alone))
        print(name, *(f'{c} {r[-1]:.3f}' for c, r in ratios.items()), sep=', ', flush=True)
for c, values in ratios.items():
    print(f'geometric mean, {c}: {geometric_mean(values):.3f}, largest {max(values):.3f}')
