# SPDX-License-Identifier: MIT
"""Runs `soak` for a time with everything on, reads all that comes out of it, and judges the whole.

    soak.py BUILD SECONDS [CSV]        SECONDS such as 7200; about a sixth of one processor

While it runs: profile files are checked, added up and deleted; one cursor of the endpoint is asked for ever, others come
and go, some clients leave in the middle of a reply. CSV gets a line a minute (more often in short runs): what the
program did and how fast, what the profiler says of itself, and what the kernel says of the process. The last line is
`N passed, N failed`; the exit status is 0 if none failed.
"""
import collections
import glob
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time

build, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(build, 'tests/reader')]
import check_profile  # noqa: E402
import reader  # noqa: E402

PERIOD = 60 if seconds >= 600 else max(2, seconds / 10)
INTERVAL = 5 if seconds >= 600 else 0.5
MEMORY = 64 << 20
STATS = ['samples', 'records', 'live', 'memory_bytes', 'ticks', 'overflow', 'live_full', 'stacks_cut', 'stacks_none',
         'locks_full', 'write_errors', 'frames_full', 'stacks_deep']
COLUMNS = ['seconds', 'objects', 'bytes', 'objects_per_cpu_second', 'forks', 'opens', *STATS,
           'rss_kb', 'threads', 'descriptors', 'files', 'replies', 'refused']
out = tempfile.mkdtemp(prefix='deltaprof-soak-')
results = []


def expect(truth, what, *seen):
    results.append(bool(truth))
    print('ok  ' if truth else 'FAIL', what, *(seen if not truth else ()), flush=True)


class Sums:
    """Adds up the deltas of one consumer, and keeps what is in use by its newest."""

    def __init__(self):
        self.named, self.other = collections.Counter(), collections.Counter()
        self.in_use, self.delay = 0, collections.Counter()

    def add(self, profile, kind):
        in_use = 0
        for sample in profile.samples:
            named = 'soak_make' in sample.names
            if kind == 'mutex' or 'contend' in sample.names:  # the main thread also waits for the workers' ends
                self.delay[kind] += sample.values.get('delay', 0)
            if kind == 'heap':
                bucket = self.named if named else self.other if sample.names[-1] == '[overflow]' else None
                if bucket is not None:
                    bucket.update({t: v for t, v in sample.values.items() if t.startswith('alloc_')})
                in_use += sample.values['inuse_space'] if named else 0
        if kind == 'heap':
            self.in_use = in_use

    def holds(self, objects, n_bytes):
        """Whether the functions' own rows, with [overflow] where the table was full, are what the program counted."""
        return all(self.named[t] == n if not self.other[t] else self.named[t] <= n <= self.named[t] + self.other[t]
                   for t, n in (('alloc_objects', objects), ('alloc_space', n_bytes)))


class Endpoint:
    """Counts the replies; a 503 says that all is taken, and is an answer. Anything else that is no 200 is kept."""

    def __init__(self, port):
        self.port, self.replies, self.refused, self.wrong, self.n_names = port, 0, 0, [], 0

    def ask(self, path, timeout=60):
        try:
            client = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
            client.request('GET', '/debug/pprof/' + path)
            reply = client.getresponse()
            body = reply.read()
            client.close()
        except OSError as failure:
            self.wrong.append((path, repr(failure)))
            return None
        self.replies += 1
        if reply.status == 503:
            self.refused += 1
        elif reply.status != 200:
            self.wrong.append((path, reply.status, body[:200]))
        return body if reply.status == 200 else None

    def wait(self):
        """It listens a second after the start, or later where processors are rare."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                return socket.create_connection(('127.0.0.1', self.port), 60).close()
            except OSError:
                time.sleep(0.1)

    def come_and_go(self):
        """Two new cursors, each asked twice; a window; a client that does not wait for the answer."""
        for _ in range(2):
            self.n_names += 1
            for kind in ('heap', 'mutex'):
                body = self.ask(f'delta_{kind}?cursor=soak{self.n_names}')
                if body:
                    check_profile.check(body)
        body = self.ask('heap?seconds=1')
        if body:
            check_profile.check(body)
        with socket.create_connection(('127.0.0.1', self.port), 60) as gone:
            gone.sendall(b'GET /debug/pprof/block?seconds=20 HTTP/1.1\r\nHost: localhost\r\n\r\n')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def of_kernel(pid):
    status = dict(line.split(':\t', 1) for line in open(f'/proc/{pid}/status') if ':\t' in line)
    return [int(status['VmRSS'].split()[0]), int(status['Threads']), len(os.listdir(f'/proc/{pid}/fd'))]


n_files, broken = 0, []


def read_files(pid, sums):
    """Takes in the files that are there: the process's own into sums, the others' are checked."""
    global n_files
    for kind in ('heap', 'mutex', 'block', 'chain'):
        for path in reader.files(out, kind):
            try:
                profile = check_profile.check(path)
            except check_profile.Broken as failure:
                broken.append(str(failure))
                profile = reader.load(path)
            if profile.pid == pid:
                sums.add(profile, kind)
            n_files += 1
            os.unlink(path)


def main():
    port = free_port()
    conf = (f'heap_rate=1,mutex_rate=1,block_rate=1ns,interval={int(INTERVAL * 1000)}ms,memory={MEMORY},out={out},keep=0,'
            f'listen=127.0.0.1:{port},cursor_ttl={max(60, int(PERIOD * 3))}s,exit_timeout=60s,log=info')
    env = dict(os.environ, LD_PRELOAD=os.path.join(build, 'runtime_hooks/preload/libdeltaprof_preload.so'), DELTAPROF_CONF=conf)
    log = tempfile.TemporaryFile('w+')
    global program
    program = subprocess.Popen([os.path.join(build, 'tests/soak/soak'), os.path.join(build, 'tests/hooks/libplugin.so'),
                                str(seconds), str(int(PERIOD * 1000)), '15'],
                               env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    endpoint, by_files, by_cursor, rows = Endpoint(port), Sums(), Sums(), []
    csv = open(sys.argv[3], 'w') if len(sys.argv) > 3 else None
    print(*COLUMNS, sep=',', file=csv, flush=True)

    def steady():
        """The cursor that is asked for ever."""
        body = endpoint.ask('delta_heap?cursor=steady')
        if body:
            by_cursor.add(check_profile.check(body), 'heap')

    last = None
    for line in program.stdout:
        quiet, fields = line.startswith('quiet,'), line.strip().removeprefix('quiet,').split(',')
        last = dict(zip(COLUMNS, [float(fields[0])] + [int(x) for x in fields[1:]]))
        if not rows:
            endpoint.wait()
        endpoint.come_and_go()
        steady()
        read_files(program.pid, by_files)
        row = {**last, **dict(zip(COLUMNS[-6:-3], of_kernel(program.pid))),
               'files': n_files, 'replies': endpoint.replies, 'refused': endpoint.refused}
        rows.append(row)
        print(*(row[c] for c in COLUMNS), sep=',', file=csv, flush=True)
        if quiet:
            break
    expect(last is not None, 'the program ran')
    steady()
    program.stdin.close()
    status = program.wait(120)
    read_files(program.pid, by_files)
    log.seek(0)
    said = [line for line in log.read().splitlines() if not line.startswith('deltaprof[')]
    objects, n_bytes = last['objects'], last['bytes']
    warm = [r for r in rows if r['seconds'] >= min(120, seconds / 3)]
    early, late = warm[:max(1, len(warm) // 4)], warm[-max(1, len(warm) // 4):]

    expect(status == 0 and not said, 'the program ended well', status, said[:5])
    expect(not broken, 'every file is a good profile, no value negative', broken[:3])
    expect(not endpoint.wrong, 'every reply of the endpoint is one', endpoint.wrong[:5])
    expect(endpoint.replies > 2 * len(rows) - 6, 'the endpoint answered', endpoint.replies)
    expect(endpoint.refused == 0, 'the endpoint refused none', endpoint.refused)
    expect(by_files.holds(objects, n_bytes), 'the files add up to what the program did', objects, n_bytes, by_files.named, by_files.other)
    expect(by_cursor.holds(objects, n_bytes), 'the replies of one cursor do', objects, n_bytes, by_cursor.named, by_cursor.other)
    expect(by_files.in_use == 0, 'nothing is in use when all was freed', by_files.in_use)
    expect(by_files.delay['mutex'] == by_files.delay['block'] > 0, 'mutex total = block total', by_files.delay)
    expect(all(r['memory_bytes'] <= MEMORY for r in rows), 'the profiler stays within `memory`', max(r['memory_bytes'] for r in rows))
    expect(max(r['rss_kb'] for r in rows) <= (MEMORY >> 10) + 64 * 1024, 'the process stays small', max(r['rss_kb'] for r in rows))
    expect(max(r['threads'] for r in late) <= max(r['threads'] for r in early) + 8, 'threads do not pile up', early[-1], late[-1])
    expect(max(r['descriptors'] for r in late) <= max(r['descriptors'] for r in early) + 8, 'descriptors do not pile up', early[-1],
           late[-1])
    expect(all(last[loss] == 0 for loss in ('live_full', 'stacks_cut', 'stacks_none', 'locks_full', 'write_errors', 'frames_full')),
           'nothing was lost', last)
    leftover = glob.glob(out + '/*') + glob.glob(out + '/.*')
    expect(not leftover, 'no other file was left', leftover[:5])

    def middle(of):
        return sorted(r['objects_per_cpu_second'] for r in of)[len(of) // 2]
    print(f'{len(rows)} lines; {objects} objects, {last["records"]} records, {last["memory_bytes"] >> 20} MiB of the profiler, '
          f'{n_files} files, {endpoint.replies} replies; objects a CPU second: {middle(early)} early, {middle(late)} late; '
          f'overflow {last["overflow"]}')


began, program = time.monotonic(), None
try:
    main()
except Exception as failure:  # said in the last line like the others
    expect(False, f'the run was read ({time.monotonic() - began:.0f} s)', repr(failure))
finally:
    if program:
        program.kill()
if os.path.isdir(out) and not os.listdir(out):
    os.rmdir(out)
print(f'{sum(results)} passed, {len(results) - sum(results)} failed')
sys.exit(not all(results))
