# SPDX-License-Identifier: MIT
"""Shared by the tests under preload: runs a program with and without the profiler, and reads its profiles.

    r = run([victim('exact'), '1'], 'heap_rate=1,interval=50ms')     # r.stdout r.stderr r.status r.out (directory)
    profiles(r)                                                      # loaded, checked, in order
    main(globals())                                                  # unittest runs every function whose name begins with `that_`
"""
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import check_profile
import reader

BUILD = os.environ['DELTAPROF_BUILD']
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
HOOKS = os.path.join(BUILD, 'tests/hooks')
scratch = tempfile.TemporaryDirectory(prefix='deltaprof-test-')
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:  # as in a shell's background jobs; programs would inherit it
        signal.signal(number, signal.SIG_DFL)


class Run:
    """stdout, stderr (text), status as in subprocess, out: the directory of the profiles."""

    def __init__(self, stdout, stderr, status, out):
        self.stdout, self.stderr, self.status, self.out = stdout, stderr, status, out


def victim(name):
    return os.path.join(HOOKS, 'victim_' + name)


def new_directory():
    return tempfile.mkdtemp(dir=scratch.name)


def environment(conf='', out=None, preload=True, behind=(), extra=None):
    """The environment that `deltaprof run` would set. behind: libraries preloaded behind the profiler."""
    env = dict(os.environ)
    for name in ('PYTHONPATH', 'LD_LIBRARY_PATH', 'MALLOC_PERTURB_'):
        env.pop(name, None)
    libraries = ([PRELOAD] if preload else []) + list(behind)
    env.pop('LD_PRELOAD', None)
    if libraries:
        env['LD_PRELOAD'] = ' '.join(libraries)
    if preload:
        # A long exit_timeout, so that a slow disk does not make a test lose the last delta; conf may set another one.
        env['DELTAPROF_CONF'] = ','.join(x for x in ('exit_timeout=60s', conf, f'out={out}' if out else '') if x)
    env.update(extra or {})
    return env


def share(n):
    """How often a test repeats something: fewer times in a guest, where each takes long."""
    return max(min(n, 2), n * int(os.environ.get('DELTAPROF_TEST_PERCENT', '100')) // 100)


def run(argv, conf='', preload=True, behind=(), timeout=180, extra=None, cwd=None, stdin=None, text=True, out=None):
    out = out or new_directory()
    timeout *= int(os.environ.get('DELTAPROF_TEST_SLOWER', '1'))
    done = subprocess.run(argv, env=environment(conf, out, preload, behind, extra), timeout=timeout, cwd=cwd,
                          stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text)
    return Run(done.stdout, done.stderr, done.returncode, out)


def both(argv, conf='', **kwargs):
    """The run without the profiler, and the run with it."""
    return run(argv, preload=False, **kwargs), run(argv, conf, **kwargs)


def same(argv, conf='', **kwargs):
    """Runs a program with and without the profiler: output and status must be equal. Returns the run with it."""
    without, with_us = both(argv, conf, **kwargs)
    assert with_us.status == without.status, (with_us.status, without.status, with_us.stderr)
    assert with_us.stdout == without.stdout, difference(without.stdout, with_us.stdout)
    assert with_us.stderr == without.stderr, difference(without.stderr, with_us.stderr)
    return with_us


def difference(a, b):
    import difflib
    if isinstance(a, bytes):
        a, b = a.decode(errors='replace'), b.decode(errors='replace')
    return '\n'.join(list(difflib.unified_diff(a.splitlines(), b.splitlines(), 'without us', 'with us', lineterm=''))[:40])


def is_of_peak(profile):
    return any(c.startswith('#PeakAt=') for c in profile.comments)


def without_level(profile):
    """A profile of a peak without what was in use then, so that sums over all profiles have what is in use at the end."""
    if is_of_peak(profile):
        for sample in profile.samples:
            sample.values.update({name: 0 for name in sample.values if name.startswith('inuse_')})
    return profile


def profiles(r, program='*', pid='*', kind='heap', check=True, peaks=False):
    """All profiles, the oldest first. peaks: those of a peak have what was in use at the peak, instead of nothing."""
    paths = reader.files(r.out, kind, program, pid)
    if check:
        for path in paths:
            check_profile.check(path)
    return [reader.load(path) if peaks else without_level(reader.load(path)) for path in paths]


def wait_until(true, seconds=60):
    """Calls true() until its result is true, and returns that. An OSError, as of a server that is not there yet, counts as
    false."""
    until = time.monotonic() + seconds
    while True:
        answer = 'timed out'
        try:
            if answer := true():
                return answer
        except OSError as failure:
            answer = failure
        assert time.monotonic() < until, answer
        time.sleep(0.01)


class Busy(AssertionError):
    """What was seen may come from a machine that kept threads from running, and not from the profiler."""


def unless_busy(is_true, *seen):
    if not is_true:
        raise Busy(*seen)


def three_tries(test):
    """For tests with shares of times, or with an order of events that no victim can force: one run of three must have what
    `unless_busy` demands. All other assertions must hold in every run."""
    @functools.wraps(test)
    def tries(*args):
        for left in 2, 1, 0:
            try:
                return test(*args)
            except Busy as busy:
                print('    busy:', str(busy)[:400])
                if not left:
                    raise
    return tries


def names_in(r, **kwargs):
    """Every function name in every profile of a run."""
    return {name for p in profiles(r, **kwargs) for s in p.samples for name in s.names}


claims = []


def free_port():
    """A port that stays reserved while this process lives: the kernel gives it to no other process, but a server with
    SO_REUSEADDR, as all have, can bind it."""
    claim = socket.socket()
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    claim.bind(('127.0.0.1', 0))
    claims.append(claim)
    return claim.getsockname()[1]


def wait_for_server(port, process):
    def listens():
        assert process.poll() is None, f'ended with {process.returncode}'
        socket.create_connection(('127.0.0.1', port), 60).close()
        return True
    wait_until(listens)


is_running = False  # main runs the tests


def skip(*why):
    """Skips the test that calls it; at the top of a file, all of its tests."""
    if is_running:
        raise unittest.SkipTest(' '.join(map(str, why)))
    print('skipped:', *why)
    sys.exit(77)


def need(*programs):
    """Skips if a program is not installed."""
    for program in programs:
        if not shutil.which(program):
            skip('no', program)


def redis_release():
    """The major version of redis-server: from 8 on its threads use pipes instead of locks."""
    return int(subprocess.run(['redis-server', '--version'], capture_output=True, text=True).stdout.split(' v=')[1].split('.')[0])


def reachable_by(user):
    """Whether a program that runs as user can read the libraries in the build directory."""
    return subprocess.run(['setpriv', '--reuid', user, '--regid', user, '--clear-groups', 'test', '-r',
                           os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')]).returncode == 0


def main(tests):
    """Runs the functions whose names begin with `that_`, or those that the command line names. Exit status 77: each was skipped."""
    global is_running
    wanted, suite = sys.argv[1:], unittest.TestSuite()
    for name, test in list(tests.items()):
        if name.startswith('that_') and callable(test) and (not wanted or name in wanted):
            suite.addTest(unittest.FunctionTestCase(test))
    is_running = True
    result = unittest.TextTestRunner(sys.stdout, descriptions=False, verbosity=2).run(suite)
    failed = not result.testsRun or not result.wasSuccessful()
    sys.exit(1 if failed else 77 if len(result.skipped) == result.testsRun else 0)
