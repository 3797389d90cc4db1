# SPDX-License-Identifier: MIT
"""CPU timers of 4 ms under a program that waits in every way, and under storms of calls that change threads, processes,
libraries and users.

    cpu.py BUILD CALLS SECONDS [SIGNALS [NAME ...]]      such as 1000000 600: a quarter of an hour

First blocking calls until there are CALLS: none may end early. With SIGNALS, then each of the 18 functions alone, or each NAME of them, until so
many signals have come at the return of its system call; that takes minutes of CPU time for 1000. Then each storm by turns, for SECONDS in all (0: none): each must end
by itself with status 0, in time. The last line is `N passed, N failed`; the exit status is 0 if none failed.
"""
import collections
import glob
import os
import subprocess
import sys
import tempfile
import time

build, n_calls, seconds = os.path.abspath(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
n_signals = int(sys.argv[4]) if len(sys.argv) > 4 else 0
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(build, 'tests/reader')]
import reader  # noqa: E402

HOOKS = os.path.join(build, 'tests/hooks')
CONF = 'cpu_rate=4ms,heap_rate=0,mutex_rate=0,block_rate=0,interval=0'
THREADS, ROUND_SECONDS, STORM_MS = 8, 10, 4000
THREADS_OF_ONE, ROUNDS_MOST = 128, 100
HELPERS = {'after', 'write', '__write', '__GI___write', '__libc_write', 'close', '__close', '__GI___close', '__libc_close', 'timerfd_settime', '__timerfd_settime64', 'msgsnd', '__libc_msgsnd'}  # other calls of do_NAME
results = []


def expect(truth, what, *seen):
    results.append(bool(truth))
    if not truth or not what.startswith('storm'):
        print('ok  ' if truth else 'FAIL', what, *seen, flush=True)


def is_at_return(names):
    """Whether a thread had just come back from the kernel in the function that do_NAME is about."""
    depth = next((i for i, name in enumerate(names) if name.startswith('do_')), 0)
    return 0 < depth <= 3 and not HELPERS & set(names[:depth])


def run(*command):
    """(status, lines of words, CPU samples, those at the return of a call that waits); status None: it hung."""
    with tempfile.TemporaryDirectory(prefix='deltaprof-soak-') as out:
        environment = {**os.environ, 'LD_PRELOAD': os.path.join(build, 'runtime_hooks/preload/libdeltaprof_preload.so'),
                       'DELTAPROF_CONF': f'{CONF},out={out}'}
        try:
            done = subprocess.run([os.path.join(HOOKS, command[0]), *command[1:]], env=environment, capture_output=True,
                                  text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, [], 0, 0
        samples = [s for path in glob.glob(out + '/*.cpu.pb.gz') for s in reader.load(path).samples]
        n = sum(s.values['samples'] for s in samples)
        n_at = sum(s.values['samples'] for s in samples if is_at_return(s.names))
        return done.returncode if not done.stderr else done.stderr, [line.split() for line in done.stdout.splitlines()], n, n_at


def wait_in_every_way():
    calls, early, signals, round_seconds = collections.Counter(), collections.Counter(), 0, min(ROUND_SECONDS, max(n_calls // 5000, 1))
    while sum(calls.values()) < n_calls:
        status, lines, n, _ = run('victim_eintr', str(round_seconds), str(THREADS))
        if status:
            return expect(False, 'blocking calls', status)
        signals += n
        for name, n_all, n_eintr, n_early in lines:
            calls[name] += int(n_all)
            early[name] += int(n_eintr) + int(n_early)
    expect(not +early, f'{sum(calls.values())} blocking calls under {signals} signals; ended early:', dict(+early))
    print('    ', dict(calls), flush=True)
    if n_signals:
        wait_in_each_way_alone(sys.argv[5:] or list(calls))


def wait_in_each_way_alone(names):
    calls, early, at = collections.Counter(), collections.Counter(), collections.Counter()
    for name in names:
        for _ in range(ROUNDS_MOST):
            if at[name] >= n_signals:
                break
            status, lines, _, n_at = run('victim_eintr', str(ROUND_SECONDS), str(THREADS_OF_ONE), name)
            if status:
                return expect(False, name, status)
            n_all, n_eintr, n_early = next(map(int, words[1:]) for words in lines if words[0] == name)
            calls[name] += n_all
            early[name] += n_eintr + n_early
            at[name] += n_at
        print('    ', name, calls[name], 'calls', at[name], 'signals at their return', early[name], 'ended early', flush=True)
    expect(not +early and all(at[name] >= n_signals for name in names), f'{sum(at.values())} signals at the return of calls; ended early:', dict(+early))


def storms():
    kinds = [('cancel',), ('fork',), ('exec',), ('system',), ('dlopen', os.path.join(HOOKS, 'libplugin.so')), ('setid',)]
    ms = str(int(min(STORM_MS, 1000 * seconds / len(kinds))))
    end, counts, signals = time.monotonic() + seconds, collections.Counter(), 0
    while time.monotonic() < end:
        for mode, *more in kinds:
            status, lines, n, _ = run('victim_storm_cpu', mode, ms, *more)
            expect(status == 0, f'storm {mode}', 'hung' if status is None else status)
            counts[mode] += int(lines[-1][-1]) if status == 0 else 0
            signals += n
    expect(all(counts[mode] for mode, *_ in kinds), f'all storms did their work, under {signals} signals:', dict(counts))


wait_in_every_way()
if seconds:
    storms()
print(f'{sum(results)} passed, {len(results) - sum(results)} failed')
sys.exit(not all(results))
