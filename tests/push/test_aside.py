# SPDX-License-Identifier: MIT
"""`deltaprof push` with profiles on which the receiver fails: they are set aside, each is named with time and reason, also
by --status and after a restart, and no part of one is sent twice. What was deleted before it was sent is counted by file.

    test_aside.py DELTAPROF EXAMPLE
"""
import base64
import glob
import gzip
import json
import os
import re
import signal
import subprocess
import time
import unittest
import zlib

import profile_pb2
import pyroscope_pb2
from pushing import DELTAPROF, NAMES, Pushing
from receiver import Receiver, sums

UTC = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ'


def types_of(parca_body):
    profile = profile_pb2.Profile.FromString(gzip.decompress(base64.b64decode(json.loads(parca_body)['series'][0]['samples'][0]['rawProfile'])))
    return [profile.string_table[t.type] for t in profile.sample_type]


class Aside(Pushing):
    def status(self, *dirs, status=0):
        done = subprocess.run([DELTAPROF, 'push', '--status', *(dirs or [self.dir])], text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def read(self, path):
        with open(path, 'rb') as f:
            return f.read()

    def age(self, seconds):
        """Makes all that was set aside that much older in the journal."""
        [path] = glob.glob(self.dir + '/.push.*')
        lines = []
        for line in self.read(path).decode().split('\n')[:-1]:
            words = line[9:].split(' ')
            if words[0] == 'aside':
                words[1:3] = (str(int(t) - seconds) for t in words[1:3])
            text = ' '.join(words)
            lines.append('%08x %s\n' % (zlib.crc32(text.encode()), text))
        with open(path, 'w') as f:
            f.writelines(lines)

    def push_until(self, url, words):
        """Pushes for a short time, again and again, until the status has those words. Returns what the last push said."""
        said = ''

        def done():
            nonlocal said
            said = self.push(url, '--wait', '2s', status=None)
            if words in self.status():
                return True
            self.age(3600)
        self.wait_until(done)
        return said

    def test_a_reason_of_several_files_is_said_once(self):
        for seq in range(1, 5):
            self.write(seq)
        poison = [self.read(os.path.join(self.dir, f'server.7.000{seq}.heap.pb.gz')) for seq in (2, 3)]
        with Receiver() as receiver:
            receiver.fails = lambda body: body in poison
            self.push_until(receiver.url('pprof'), ' 2 waiting, 2 of them set aside')
            line, named = self.status().splitlines()
            self.assertRegex(named, r'\A  2 files, the first of them server\.7\.000[23]\.heap\.pb\.gz: set aside at %s, tried at %s: status 500: as planned\Z' % (UTC, UTC))

    def test_the_next_pusher_knows_what_is_set_aside_and_why(self):
        for seq in range(1, 4):
            self.write(seq)
        poison = self.read(os.path.join(self.dir, 'server.7.0002.heap.pb.gz'))
        bodies = []
        with Receiver() as receiver:
            receiver.fails = lambda body: bodies.append(body) or body == poison
            said = self.push_until(receiver.url('pprof'), ' 2 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 1 waiting, 1 of them set aside')
            self.assertIn('1 waiting, some of them set aside', said)
            line, named = self.status().splitlines()
            self.assertEqual(line, self.dir + ' to http://127.0.0.1:%d/v1/pprof: 2 files accepted, 0 perhaps delivered, 0 refused, '
                             '0 deleted before they were sent, 1 waiting, 1 of them set aside' % receiver.port)
            self.assertRegex(named, r'\A  server\.7\.0002\.heap\.pb\.gz: set aside at %s, tried at %s: status 500: as planned\Z' % (UTC, UTC))
            bodies.clear()
            for seq in range(4, 8):
                self.write(seq)
            said = self.push(receiver.url('pprof'), '--wait', '10s', status=1)
            self.assertNotIn(poison, bodies[:4])
            self.assertIn('4 files accepted', said)
            self.assertIn('1 of them set aside', self.status())
            receiver.fails = None
            self.age(3600)
            self.assertEqual(self.push(receiver.url('pprof')), '')
            self.assertIn(' 7 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 0 waiting, 0 of them set aside\n', self.status())
            self.assertEqual(len(receiver.taken), 7)

    def test_after_a_day_it_is_refused_if_others_were_accepted(self):
        for seq in range(1, 3):
            self.write(seq)
        poison = self.read(os.path.join(self.dir, 'server.7.0001.heap.pb.gz'))
        with Receiver() as receiver:
            receiver.fails = lambda body: True
            self.push_until(receiver.url('pprof'), 'heap.pb.gz: set aside at ')
            receiver.fails = lambda body: body == poison
            self.age(86000)
            said = self.push(receiver.url('pprof'), '--wait', '10s', status=1)
            self.assertIn('1 files accepted', said)
            self.assertIn('1 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 1 waiting, 1 of them set aside', self.status())
            self.age(500)
            said = self.push(receiver.url('pprof'), status=1)
            self.assertRegex(said, r'0001\.heap\.pb\.gz: refused, since http://\S+ has failed on it for a day and has accepted others: status 500')
            self.assertIn(' 1 refused, 0 deleted before they were sent, 0 waiting, 0 of them set aside\n', self.status())
            n = receiver.n_requests
            self.assertEqual(self.push(receiver.url('pprof')), '')
            self.assertEqual(receiver.n_requests, n)

    def test_a_receiver_that_fails_on_everything_for_a_day_loses_nothing(self):
        self.write(1)
        with Receiver() as receiver:
            receiver.fails = lambda body: True
            for _ in range(2):
                self.push_until(receiver.url('pprof'), ' 1 waiting, 1 of them set aside')
                self.age(90000)
            self.assertIn('0 refused, 0 deleted before they were sent, 1 waiting, 1 of them set aside', self.status())
            receiver.fails = None
            self.assertEqual(self.push(receiver.url('pprof')), '')
            self.assert_arrived(receiver, ['heap'])

    def test_a_profile_in_parts_is_set_aside_between_them(self):
        """Parca takes the allocations and fails on the memory in use, which is the second part."""
        for seq in 1, 2:
            self.write(seq)
            self.write(seq, 'block')
        with Receiver() as receiver:
            receiver.fails = lambda body: 'inuse_space' in types_of(body)
            self.push_until(receiver.url('parca'), '2 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 2 waiting, 2 of them set aside')
            self.assertEqual(len(re.findall(r'heap\.pb\.gz: set aside at .*, 1 parts of it settled: status 500', self.status())), 2)
            receiver.fails = None
            self.age(3600)
            self.assertEqual(self.push(receiver.url('parca')), '')
            self.assert_arrived(receiver, ['heap', 'block'])
            self.assertIn('4 files accepted', self.status())

    def test_joined_files_are_set_aside_one_by_one(self):
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 11):
            self.write_old(seq, time_ns=t + seq * 10**9, rows=[(['leaf', 'main'], [seq] * 4, {'what': 'poison' if seq == 4 else 'leaf'})])
        self.write(11)
        with Receiver() as receiver:
            receiver.fails = lambda body: b'poison' in gzip.decompress(pyroscope_pb2.PushRequest.FromString(body).series[0].samples[0].raw_profile)
            self.push_until(receiver.url('pyroscope'), ' 10 files accepted')
            self.assertRegex(self.status(), r' 10 files accepted, .* 1 waiting, 1 of them set aside\n  server\.7\.0004\.heap\.pb\.gz: ')

    def test_joined_files_of_which_a_part_was_accepted_are_set_aside_as_one(self):
        """Ten files have more rows than Pyroscope takes, so they are sent in two parts. It fails on the second one."""
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 11):
            rows = [(['leaf%d.%d' % (seq, i)], [seq, 2, 0, 0], {}) for i in range(1800)] + [(['poison'], [1, 1, 0, 0], {})] * (seq == 10)
            self.write_old(seq, time_ns=t + seq * 10**9, rows=rows)
        self.write(11)
        with Receiver() as receiver:
            receiver.fails = lambda body: b'poison' in gzip.decompress(pyroscope_pb2.PushRequest.FromString(body).series[0].samples[0].raw_profile)
            self.push_until(receiver.url('pyroscope'), '0 deleted before they were sent, 10 waiting, 10 of them set aside')
            self.assertEqual(len(receiver.taken), 2)
            self.assertEqual(len(re.findall(r'heap\.pb\.gz: set aside at .*, 1 parts of it settled: status 500', self.status())), 10)
            receiver.fails = None
            self.age(3600)
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assertEqual(len(receiver.taken), 3)
            self.assert_arrived(receiver, ['heap'])

    def test_files_deleted_while_a_unit_waits_are_counted_one_by_one(self):
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 31):
            self.write_old(seq, time_ns=t + seq * 10**9)
        self.write(31)
        with Receiver() as receiver:
            failed = []
            receiver.fails = lambda body: failed.append(body) or True
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.PIPE, text=True, env=self.environment())
            try:
                self.wait_until(lambda: len(failed) >= 2)  # a unit of twenty is under way, and none of it will be accepted yet
                for seq in 1, 2, 29:
                    os.remove(os.path.join(self.dir, 'server.7.%04d.heap.pb.gz' % seq))
                self.write(32)  # so that it looks
                receiver.fails = None
                self.wait_until(lambda: '29 files accepted, 0 perhaps delivered, 0 refused, 3 deleted before they were sent, 0 waiting' in self.status())
            finally:
                pusher.send_signal(signal.SIGTERM)
                pusher.communicate(timeout=60)
            flows = {k: v for k, v in sums(self.files('heap')).items() if k[0].startswith('alloc')}
            self.assertEqual({k: v for k, v in sums(t.profile for t in receiver.taken).items() if k[0].startswith('alloc')}, flows)
            self.assertEqual({t.kind for t in receiver.taken}, {NAMES['heap']})

    def test_status_needs_no_receiver_and_changes_nothing(self):
        self.assertEqual(self.status(), self.dir + ': no journal\n')
        self.assertIn('No such file', self.status('/nowhere', status=1))
        self.write(1)
        with Receiver() as one, Receiver() as other:
            self.push(one.url('pyroscope'))
            self.push(other.url('otlp'))
            self.write(2)
            self.write(2, 'events', [(['leaf'], [1, 1], {'end_timestamp_ns': 10**18, 'thread id': 5})])
            before = {path: self.read(path) for path in glob.glob(self.dir + '/.push.*')}
            lines = sorted(self.status().splitlines(), key=lambda line: 'otlp' not in line and 'v1development' not in line)
            self.assertIn('/v1development/profiles: 1 files accepted', lines[0])
            self.assertIn('2 waiting', lines[0])
            self.assertIn('1 waiting', lines[1])  # Pyroscope takes no events
            self.assertEqual({path: self.read(path) for path in glob.glob(self.dir + '/.push.*')}, before)
        done = subprocess.run([DELTAPROF, 'push', '--status', self.dir, '--to', 'otlp+http://x'], text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr.count('\n')), (2, 1))


if __name__ == '__main__':
    unittest.main()
