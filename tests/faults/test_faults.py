# SPDX-License-Identifier: MIT
"""Every system call that deltaprof makes fails, one by one; the host must not notice, and what was lost must be said.

    test_faults.py              each place that makes a call fails once (part of the tests)
    test_faults.py long         also each place always; some Nth calls, alone and with all after it
    test_faults.py PLAN...      plans alone, such as `place libdeltaprof.so.0 1a2b once` or `from 17`

A first run writes down the places (inject.c): a library and the address that a call returns to. The victim prints the
same and ends the same as without deltaprof, in time. If its profiles do not have all that it did, a line of the log or a
comment of a profile says so.

In the first run no thread of the profiler may open a descriptor in the host's table, where it would take the number that
the host's next one has.
"""
import collections
import concurrent.futures
import http.client
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import reader
from harness import BUILD, HOOKS, environment, new_directory

INJECT, VICTIM = (os.path.join(BUILD, 'tests/faults', name) for name in ('libinject.so', 'victim_faults'))
arguments = sys.argv[1:]
PLACE = struct.Struct('QQQQQ32s64s')
N_PLACES, HEAD = 1024, 16
SECONDS = 60  # a host that takes longer hangs
AT_ONCE = 4


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=5)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(5)
        self.sock.connect(self.path)


def ask(directory, pid):
    """Uses the endpoint and the signal, where they are; neither has to answer."""
    path = os.path.join(directory, 'socket')
    until = time.monotonic() + 2
    while time.monotonic() < until and not os.path.exists(path):
        time.sleep(0.02)
    for what in ('delta_heap', 'heap?symbolize=lines', 'mutex?debug=1', 'delta_block?cursor=a', 'symbol', ''):
        try:
            connection = Connection(path)
            connection.request('GET', '/debug/pprof/' + what)
            connection.getresponse().read()
            connection.close()
        except (OSError, http.client.HTTPException):
            pass
    with open(f'/proc/{pid}/status') as f:
        caught = int(next(line for line in f if line.startswith('SigCgt')).split()[1], 16)
    if caught >> (signal.SIGUSR2 - 1) & 1:
        os.kill(pid, signal.SIGUSR2)


class Result:
    pass


def run(plan='', preload=True, keep=0):
    """One run of the victim under a plan ('': none, but the calls are counted)."""
    r, directory = Result(), new_directory()
    book = os.path.join(directory, 'book')
    with open(book, 'wb') as f:
        f.truncate(HEAD + N_PLACES * PLACE.size)
    env = environment(f'heap_rate=1,mutex_rate=1,block_rate=1ns,interval=200ms,signal=USR2,exit_timeout={5 if plan else 60}s,'
                      f'keep={keep},listen=unix:{directory}/socket', out=directory + '/out', preload=preload, behind=[INJECT] if preload else [],
                      extra={'INJECT_FILE': book, 'INJECT': plan})
    with tempfile.TemporaryFile() as stdout:
        process = subprocess.Popen([VICTIM, os.path.join(HOOKS, 'libplugin.so')], env=env, stdin=subprocess.PIPE, stdout=stdout,
                                   stderr=subprocess.PIPE, cwd=directory)  # a few lines: less than a pipe holds
        r.pid = process.pid
        try:
            if preload:
                ask(directory, process.pid)
            process.stdin.close()
            r.status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            r.status = 'it hangs'
            process.kill()
            process.wait()
        except OSError as failure:  # it has ended already
            r.status = process.wait(SECONDS)
        stdout.seek(0)
        r.stdout, r.stderr = stdout.read().decode(), process.stderr.read().decode()
        process.stderr.close()
    r.said = [line for line in r.stderr.splitlines() if line.startswith('deltaprof[')]
    r.others = [line for line in r.stderr.splitlines() if not line.startswith('deltaprof[')]
    r.out, r.places, r.shared = directory + '/out', [], []
    with open(book, 'rb') as f:
        data = f.read()
    r.n_calls, r.n_failed = struct.unpack_from('QQ', data)
    for i in range(N_PLACES):
        key, n_calls, n_failed, n_shared, offset, function, library = PLACE.unpack_from(data, HEAD + i * PLACE.size)
        if key:
            r.places.append((library.rstrip(b'\0').decode(), offset, function.rstrip(b'\0').decode(), n_calls))
        if n_shared:
            r.shared.append(r.places[-1])
    return r


def lost(r):
    """What is missing from the profiles, and was not said; ''."""
    profiles = [reader.load(path) for path in reader.files(r.out, 'heap', pid=r.pid)] if os.path.isdir(r.out) else []
    comments = [c for p in profiles for c in p.comments if not c.startswith('#')]
    # By the size that faults_make alone asks for: a profile that was written in a signal handler may have no names. Of
    # the whole run: a tick may come between the two counters of an event, and its bytes are then one file ahead.
    stacks = collections.defaultdict(collections.Counter)
    for p in profiles:
        for s in p.samples:
            stacks[tuple((f.mapping, f.address) for f in s.frames)].update(n=s.values['alloc_objects'], v=s.values['alloc_space'])
    n = sum(sums['n'] for sums in stacks.values() if sums['v'] == 100 * sums['n'])
    by_file = {p.seq: [(s.values['alloc_objects'], s.values['alloc_space']) for s in p.samples if s.values['alloc_objects']]
               for p in profiles}
    expected = int(next(line for line in r.stdout.splitlines() if line.startswith('blocks')).split()[1])
    if n > expected:
        return f'{n} blocks of {expected}: {by_file}'
    return '' if n == expected or r.said or comments else f'{n} blocks of {expected}, and nothing says so: {by_file} {os.listdir(r.out)}'


def judge(plan, function, without):
    """(plan, what was wrong or ''). Old files are deleted only where that is what fails: the others must add up."""
    deletes = function.startswith('unlink')
    r = run(plan, keep=2 if deletes else 0)
    if not r.n_failed and not plan.startswith(('nth', 'from')):
        return plan, None  # this time the call was not made
    if r.status != without.status:
        return plan, f'status {r.status}, {r.stdout[-300:]!r} {r.stderr[-500:]!r}'
    if r.stdout != without.stdout:
        return plan, f'it printed {set(r.stdout.splitlines()) ^ set(without.stdout.splitlines())}; {r.said[:3]}'
    if r.others:
        return plan, f'on stderr: {r.others[:3]}'
    # Where all calls fail from some point on, the log cannot be written either.
    return plan, '' if deletes or plan.startswith('from') else lost(r)


def place_name(library, offset):
    for path in (os.path.join(BUILD, 'src', library), os.path.join(BUILD, 'src/modules', library)):
        if os.path.exists(path):
            named = subprocess.run(['addr2line', '-pfse', path, hex(offset - 1)], capture_output=True, text=True).stdout.strip()
            return named or hex(offset)
    return hex(offset)


def main():
    without = run(preload=False)
    assert without.status == 7 and without.stdout, (without.status, without.stdout, without.stderr)
    first = run(keep=2)
    assert (first.status, first.stdout, first.others) == (7, without.stdout, []), (first.status, first.stdout, first.stderr)
    said = [line for line in first.said if 'which started this one, has it' not in line]  # a child that lived for long
    assert not said, said
    shared = [f'{function} in {place_name(library, offset)}' for library, offset, function, _ in first.shared]
    assert not shared, f'in the host\'s descriptor table, by a thread of the profiler: {shared}'
    places = {(library, offset): function for library, offset, function, _ in first.places}
    names = {f'{library} {offset:x}': f'{function} in {place_name(library, offset)}' for (library, offset), function in places.items()}
    assert len(places) > 60, places
    plans = [f'place {name} once' for name in names]
    if arguments and arguments != ['long']:
        plans = arguments
    elif arguments:
        plans += [f'place {name} always' for name in names]
        plans += [f'{how} {n}' for n in range(1, first.n_calls, max(3, first.n_calls // 250)) for how in ('nth', 'from')]
    functions = {plan: names.get(' '.join(plan.split()[1:3]), '') for plan in plans}
    n_bad = n_good = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for plan, wrong in pool.map(lambda plan: judge(plan, functions[plan], without), plans):
            n_good += wrong == ''
            if wrong:
                n_bad += 1
                print('FAIL', plan, functions[plan], ':', wrong, flush=True)
    print(f'{len(places)} places, {first.n_calls} calls; {len(plans)} plans, {len(plans) - n_good - n_bad} not reached')
    print(f'{n_good} passed, {n_bad} failed')
    assert n_good > len(plans) / 2, 'most plans were not reached'
    sys.exit(n_bad != 0)


main()
