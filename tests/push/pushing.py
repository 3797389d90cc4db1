# SPDX-License-Identifier: MIT
"""Shared by the tests of push: makes directories of profiles as the profiler writes them, and runs the command."""
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import reader
from by_hand import DELTAPROF, profile
from random_profile import HEAP
from receiver import sums

EXAMPLE = sys.argv.pop(1) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else None
LOCK = [('contentions', 'count'), ('delay', 'nanoseconds')]
KINDS = {'cpu': [('samples', 'count'), ('cpu', 'nanoseconds')], 'heap': HEAP, 'mutex': LOCK, 'block': LOCK, 'chain': LOCK, 'events': LOCK}
NAMES = {'heap': 'memory', 'mutex': 'mutex', 'block': 'block', 'chain': 'chain'}


def stamped(data, process):
    """Adds the profiler's stamp, an extra field of the gzip header that identifies the process."""
    field = struct.pack('<QQ', 77, process)
    extra = b'DP' + struct.pack('<H', len(field)) + field
    return data[:3] + b'\x04' + data[4:10] + struct.pack('<H', len(extra)) + extra + data[10:]


class Pushing(unittest.TestCase):
    maxDiff = 3000

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix='deltaprof-push-')
        self.addCleanup(self.scratch.cleanup)
        self.dir = os.path.join(self.scratch.name, 'profiles')
        os.mkdir(self.dir)

    def write(self, seq, kind='heap', rows=None, pid=7, program='server', time_ns=None, duration_ns=10**9, process=None, modified_ns=None, **more):
        """modified_ns: the file's time, which it has before a pusher can see it."""
        rows = rows or [(['leaf%d' % i, 'main'], [seq + i] * len(KINDS[kind]), {'lock': 'mutex'} if i else {}) for i in range(3)]
        data = profile(rows, KINDS[kind], time_ns or time.time_ns() - 2 * 10**9, duration_ns, **more)
        path = os.path.join(self.dir, '%s.%d.%04d.%s.pb.gz' % (program, pid, seq, kind))
        with open(path + '.tmp', 'wb') as f:
            f.write(stamped(data, process or 1000 + pid))
        if modified_ns:
            os.utime(path + '.tmp', ns=(modified_ns, modified_ns))
        os.rename(path + '.tmp', path)
        return path

    def write_old(self, seq, kind='heap', **more):
        """A file as of three hours ago: with one of now, of the same process and kind, the pusher is hours behind."""
        return self.write(seq, kind, modified_ns=time.time_ns() - (3 * 3600 - seq) * 10**9, **more)

    def command(self, url, *more):
        return [DELTAPROF, 'push', self.dir, '--to', url, *more]

    def environment(self, **more):
        return {**{k: v for k, v in os.environ.items() if not k.startswith('OTEL_') and not k.lower().endswith('_proxy')}, **more}

    def push(self, url, *more, status=0, before=(), **environment):
        done = subprocess.run([*before, *self.command(url, '--once', *more)], text=True, capture_output=True, timeout=120,
                              env=self.environment(**environment))
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def wait_until(self, true):
        until = time.monotonic() + 100
        while not true():
            self.assertLess(time.monotonic(), until, 'waited in vain')
            time.sleep(0.01)

    def files(self, kind):
        return [reader.load(path) for path in reader.files(self.dir, kind)]

    def assert_arrived(self, receiver, kinds=('heap', 'mutex', 'block')):
        """Checks, for each kind and label, that the profiles received have the same sums as the files."""
        self.assertEqual(receiver.refused, [])
        for kind in kinds:
            with self.subTest(kind):
                got = sums(t.profile for t in receiver.taken if t.kind == NAMES[kind])
                self.assertEqual(got, sums(self.files(kind)))
