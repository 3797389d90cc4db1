# SPDX-License-Identifier: MIT
"""Counts the verdicts of `deltaprof leaks` on sets of short programs, half of which leak in a known function.

    bench_paced.py BUILD [load_then_idle|short_runs|linear_queues|services|CASE...] [--seed N] [--jobs N] [--rounds N] [--keep DIR]

Programs work in steps of real time and are profiled at intervals of 100 or 200 ms; some run at a time. A verdict is "leak",
"no leak" or "cannot tell"; reports count if it is "leak". A leak is found if a report has the leaking function in its stack. A
report that has no such function is a false leak. "samples" is how many blocks of the leak are sampled on average; the program
counts the bytes that it loses, and a case whose number is off by more than a quarter fails. A set's last lines count the
verdicts. --keep leaves the profiles in DIR/CASE.ROUND.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib

from paced_cases import CASES, PYTHON

STEP_MS = 20
MANY = 30  # samples with which a leak should be told


def command(build, case, seed):
    n_steps = [case.interval // STEP_MS * n for n in (case.load, case.idle)]
    n_steps[0] -= 0 if case.idle else case.interval // STEP_MS // 2  # the end of the process is the last tick
    here = os.path.dirname(os.path.abspath(__file__))
    victim = [sys.executable, os.path.join(here, 'paced_victims.py')] if case.program in PYTHON else [os.path.join(build, 'tests/leaks/leaks_paced')]
    return victim + [case.program, *map(str, n_steps), str(case.rate), str(seed), case.end]


def record(build, case, seed, out):
    """Runs the program; how many samples of its leak are expected by what it lost."""
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'LD_LIBRARY_PATH', 'MALLOC_PERTURB_')}
    env['LD_PRELOAD'] = os.path.join(build, 'runtime_hooks/preload/libdeltaprof_preload.so')
    env['DELTAPROF_CONF'] = f'heap_rate={case.rate},mutex_rate=0,block_rate=0,interval={case.interval}ms,signals=on,exit_timeout=60s,out={out}'
    if case.program in PYTHON:
        env.update(PYTHONMALLOC='malloc', PYTHONDONTWRITEBYTECODE='1')
    done = subprocess.run(command(build, case, seed), env=env, stdout=subprocess.PIPE, timeout=300)
    assert done.returncode in (0, -15), (case.name, done.returncode)
    return float(done.stdout.split()[-1])


def ask(build, out):
    """The verdict and the reports."""
    done = subprocess.run([os.path.join(build, 'src/tool/cli/deltaprof'), 'leaks', '--json', '-n0', out], stdout=subprocess.PIPE, check=True, timeout=120)
    answer = json.loads(done.stdout)
    verdict = answer.get('verdict', 'leak' if answer['leaks'] else 'no leak')
    return verdict, answer['leaks'] if verdict == 'leak' else []


def is_of(report, function):
    """Whether the function is in the stack of the report, by its name without namespace and arguments."""
    names = [report['function']] + [frame['function'] for frame in report['stack']]
    return any(name.split('(')[0].split('::')[-1].split('.')[-1] == function for name in names)


def judge(build, case, seed, out):
    expected = record(build, case, seed, out)
    if abs(expected - case.samples) > max(case.samples / 4, 1):
        raise SystemExit(f'{case.name}: {expected:.0f} samples are expected, the case says {case.samples}')
    verdict, reports = ask(build, out)
    found = case.truth and any(is_of(r, case.truth) for r in reports)
    false = [r for r in reports if not (case.truth and is_of(r, case.truth))]
    return verdict, bool(found), false


class Counts(collections.Counter):
    def add(self, case, verdict, found, false):
        self['false'] += len(false)
        self['reports'] += len(false) + found
        if not case.truth:
            self['sound'] += 1
            self['sound with a false leak'] += bool(false)
            self[f'sound: {verdict}'] += 1
            return
        self['leaks'] += 1
        self['many'] += case.samples >= MANY
        if found:
            self['found'] += 1
        else:
            self[f'missed: {verdict}'] += 1
            self['many: cannot tell'] += case.samples >= MANY and verdict == 'cannot tell'

    def print(self, name):
        print(f'{name}: {self["leaks"]} leaks: {self["found"]} found, {self["missed: no leak"]} missed as "no leak", '
              f'{self["missed: cannot tell"]} "cannot tell" ({self["many: cannot tell"]} of the {self["many"]} that have {MANY} samples or more), '
              f'{self["missed: leak"]} named elsewhere; {self["false"]} false leaks; '
              f'{self["sound"]} without a leak: {self["sound: no leak"]} "no leak", {self["sound: cannot tell"]} "cannot tell", '
              f'{self["sound: leak"]} "leak"')
        print(f'{name}: precision {(self["reports"] - self["false"]) / max(self["reports"], 1):.3f} of {self["reports"]} reports, '
              f'recall {self["found"] / max(self["leaks"], 1):.3f} of {self["leaks"]} leaks', flush=True)


def words(case, verdict, found, false):
    text = f'{case.truth or "no leak"} ({case.samples} samples): "{verdict}"'
    if case.truth and not found:
        text += ', MISSED'
    for r in false:
        text += f', FALSE {r["function"]} ({r["bytes"]} bytes, {r["confidence"]:.2f})'
    return text


def main(argv, cases=CASES):
    parser = argparse.ArgumentParser()
    parser.add_argument('build')
    parser.add_argument('chosen', nargs='*')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=6)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--keep')
    args = parser.parse_args(argv)
    args.build = os.path.abspath(args.build)
    chosen = [c for c in cases if not args.chosen or c.set in args.chosen or c.name in args.chosen]
    begin, counts = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix='deltaprof-paced-') as place, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        def run(case, n):
            return judge(args.build, case, args.seed + n + zlib.crc32(case.name.encode()) % 1000, os.path.join(args.keep or place, f'{case.name}.{n}'))
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
        runs = [(case, pool.submit(run, case, n)) for n in range(args.rounds) for case in chosen]
        for case, future in runs:
            answer = future.result()
            print(f'{case.set}/{case.name}: {words(case, *answer)}', flush=True)
            counts.setdefault(case.set, Counts()).add(case, *answer)
    for name, count in counts.items():
        count.print(name)
    total = sum(counts.values(), Counts())
    if len(counts) > 1:
        Counts(total).print('all')
    print(f'seconds {time.monotonic() - begin:.0f}')


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
