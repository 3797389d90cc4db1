# SPDX-License-Identifier: MIT
"""Tests that `deltaprof check` finds a program that allocates a little more, and passes one that does not, at
heap_rate=512k.

    bench_budget.py BUILD

Fails if one of 20 runs with 1 % more is within a budget of 0.5 %, one of 20 with 2 % more within 1 %, or one of 100 runs
that allocate the same is over either.
"""
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')


def record(top, n_blocks, seed):
    out = os.path.join(top, f'{n_blocks}.{seed}')
    env = dict(os.environ, LD_PRELOAD=PRELOAD, DELTAPROF_CONF=f'heap_rate=512k,interval=0,exit_timeout=60s,out={out}')
    subprocess.run([os.path.join(BUILD, 'tests/leaks/leaks_budget'), str(n_blocks), str(seed)], env=env, check=True, timeout=60)
    return out


def n_over(base, runs, budget):
    over = 0
    for out in runs:
        done = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'check', '--max-growth', budget, base, out], stdout=subprocess.DEVNULL, timeout=60)
        assert done.returncode < 2, done.returncode
        over += done.returncode
    return over


def main():
    with tempfile.TemporaryDirectory(prefix='deltaprof-budget-') as top:
        base = record(top, 100000, 0)
        same = [record(top, 100000, seed) for seed in range(1, 101)]
        results = [
            ('1_percent_more_budget_0.5_over', n_over(base, [record(top, 101000, seed) for seed in range(20)], '0.5%'), 20),
            ('2_percent_more_budget_1_over', n_over(base, [record(top, 102000, seed) for seed in range(20)], '1%'), 20),
            ('same_budget_0.5_over', n_over(base, same, '0.5%'), 0),
            ('same_budget_1_over', n_over(base, same, '1%'), 0),
        ]
    for name, value, _ in results:
        print(name, value, 'runs')
    return any(value != wanted for _, value, wanted in results)


if __name__ == '__main__':
    sys.exit(main())
