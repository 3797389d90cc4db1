# SPDX-License-Identifier: MIT
"""
The block profile has every futex call that waited, by strace, and its time, by a clock around the call. strace sees the time
between its own two stops of a call, which lie within the time that the profile has.
"""
import ctypes
import glob
import os
import re
import subprocess

import reader
from harness import HOOKS, Run, environment, main, need, new_directory, profiles, run, skip, three_tries, unless_busy, victim
from test_futexes import ALL, parking_lot_program, rust_program

FUTEX_LOCKS = {'mutex', 'rwlock', 'once', 'cond', 'sem', 'park', 'barrier', 'futex'}
BEHIND = os.path.join(HOOKS, 'libbehind_futexes.so')
CALL = re.compile(r'\[([0-9a-f]+)\] (\w+)\((.*)\) += (.*) <([\d.]+)>$')


def place_of_syscall():
    """Where the function syscall begins in libc."""
    address = ctypes.cast(ctypes.CDLL('libc.so.6').syscall, ctypes.c_void_p).value
    with open('/proc/self/maps') as maps:
        return address - min(int(line.split('-')[0], 16) for line in maps if '/libc.so.6' in line)


def traced(argv):
    """Runs a program under strace and the profiler: its Run, and the calls, as (instruction, name, arguments, result, s)."""
    r = Run('', '', 0, new_directory())
    env, where = environment(ALL, r.out), os.path.join(new_directory(), 'calls')
    names = [x for name in ('LD_PRELOAD', 'DELTAPROF_CONF') for x in ('-E', f'{name}={env[name]}')]
    subprocess.run(['strace', '-ff', '-i', '--syscall-times=ns', '-e', 'trace=futex,openat,mmap', '-o', where, *names, *argv],
                   env=environment(preload=False), check=True, stdout=subprocess.DEVNULL, timeout=120)
    calls = []
    for path in glob.glob(where + '.*'):
        with open(path) as f:
            found = [match.groups() for match in map(CALL.match, f) if match]
        calls += [(int(at, 16), name, arguments.split(', '), result, float(s)) for at, name, arguments, result, s in found]
    return r, calls


def ranges_of(calls, library):
    """The first mapping of a library has the length of all of it."""
    ranges, fds = [], {}
    for _, name, arguments, result, _ in calls:
        if name == 'openat' and result.isdigit():
            fds[result] = arguments[1]
        elif name == 'mmap' and library in fds.get(arguments[4], '') and arguments[0] == 'NULL':
            ranges.append(range(int(result, 16), int(result, 16) + int(arguments[1])))
    return ranges


def waits_seen(calls):
    """(number, seconds) of the calls of libc's syscall that waited for a word of the program, and the number of those that
    found another value in it. Such a call counts as a wait only if a holder had paid for it."""
    own, [libc] = ranges_of(calls, '/libdeltaprof'), ranges_of(calls, '/libc.so.6')
    syscall = libc.start + place_of_syscall()
    ends = [(result, s) for at, name, arguments, result, s in calls
            if name == 'futex' and 'FUTEX_WAIT' in arguments[1] and syscall <= at < syscall + 64
            and not any(int(arguments[0], 16) in r for r in own)]
    times = [s for result, s in ends if result == '0' or 'ETIMEDOUT' in result or 'EINTR' in result]
    return len(times), sum(times), sum('EAGAIN' in result for result, _ in ends)


def counted(r):
    """(number, seconds) of the waits for futexes in the block profile."""
    rows = [row for (_, labels), row in reader.sum_profiles(profiles(r, kind='block')).items() if dict(labels)['lock'] in FUTEX_LOCKS]
    return sum(row['contentions'] for row in rows), sum(row['delay'] for row in rows) / 1e9


def clocked(argv):
    """Runs a program under the profiler, and behind it a library that takes the time of each call."""
    where = os.path.join(new_directory(), 'waits')
    r = run(argv, ALL, behind=[BEHIND], extra={'BEHIND_FUTEXES': where})
    assert r.status == 0, r.stderr
    with open(where) as f:
        n, ns = map(int, f.read().split())
    return r, n, ns / 1e9


def agrees(argv):
    """Numbers must agree in each run. A busy machine may keep threads from waiting, or stop one between the two clocks."""
    agrees_with_clock(argv)
    agrees_with_strace(argv)


@three_tries
def agrees_with_clock(argv):
    """strace slows each call down, so the time is compared in a run of its own, with the library. A slow call that finds
    another value may have been paid for, so there may be more waits than strace saw; the library's run has the exact number."""
    name = os.path.basename(argv[0])
    r, n, seconds = clocked(argv)
    n_counted, in_profile = counted(r)
    print(f'{name}: clock {n} waits, {seconds:.4f} s; profile {n_counted}, {in_profile:.4f} s ({100 * in_profile / seconds - 100:+.2f} %)')
    assert 0.99 * n <= n_counted <= 1.01 * n, (n, n_counted)
    unless_busy(n > 30 and abs(in_profile - seconds) < 0.02 * seconds, n, seconds, in_profile)


@three_tries
def agrees_with_strace(argv):
    name = os.path.basename(argv[0])
    r, calls = traced(argv)
    n, seconds, n_again = waits_seen(calls)
    n_counted, in_profile = counted(r)
    print(f'{name}: strace {n} waits, {seconds:.3f} s; profile {n_counted}, {in_profile:.3f} s ({1e6 * (in_profile - seconds) / n:+.0f} us a call)')
    assert 0.99 * n <= n_counted <= 1.01 * n + n_again, (n, n_again, n_counted)
    assert in_profile > 0.99 * seconds, (seconds, in_profile)
    unless_busy(n > 30, n)


def that_every_wait_of_rust_is_counted():
    program = rust_program()
    agrees([program])


def that_every_wait_of_parking_lot_is_counted():
    program = parking_lot_program()
    agrees([program])


def that_every_wait_of_cxx20_is_counted():
    if os.path.exists(victim('cxx20_waits')):
        agrees([victim('cxx20_waits')])


def that_every_wait_of_abseil_is_counted():
    if os.path.exists(victim('abseil')):
        agrees([victim('abseil')])


def that_every_wait_of_a_lock_of_its_own_is_counted():
    agrees([victim('futexes'), 'lock'])


if __name__ == '__main__':
    need('strace')
    if subprocess.run(['strace', '-o', '/dev/null', 'true'], capture_output=True).returncode:
        skip('this process may not trace others')
    main(globals())
