# SPDX-License-Identifier: MIT
"""`deltaprof push` over long failures: an hour without a receiver, and a pusher that is killed at random moments while the
receiver fails in every way that it knows.

    test_outage.py DELTAPROF EXAMPLE

DELTAPROF_TEST_KILLS=N kills N times instead of 12; DELTAPROF_TEST_SEED=N chooses other random numbers.
"""
import collections
import os
import random
import re
import signal
import subprocess
import time
import unittest

from pushing import NAMES, Pushing
from receiver import Receiver, sums

N_KILLS = int(os.environ.get('DELTAPROF_TEST_KILLS', 12))
SEED = int(os.environ.get('DELTAPROF_TEST_SEED', 1))
SECOND = 10**9
WAYS = ['ok'] * 6 + ['503', '429 Retry-After: 1', 'reset', 'early', 'taken', 'half', 'cut', 'hang', '500']


class Outage(Pushing):
    def test_after_an_hour_everything_arrives_with_its_windows(self):
        """240 ticks of 15 s. The server takes windows of the last hour: older ones are cut, and say so."""
        now = time.time_ns()
        end = {seq: now - (240 - seq) * 15 * SECOND for seq in range(1, 241)}
        with Receiver() as receiver:
            receiver.fails = lambda body: True
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.PIPE, text=True, env=self.environment())
            try:
                for seq in end:
                    for kind in 'heap', 'block':
                        self.write(seq, kind, time_ns=end[seq] - 15 * SECOND, duration_ns=15 * SECOND, modified_ns=end[seq])
                self.wait_until(lambda: receiver.n_requests > 2)
                receiver.fails = None
                last = {'memory': 0, 'block': 0}

                def done():
                    for t in receiver.taken:
                        last[t.kind] = max(last[t.kind], t.profile.time_ns + t.profile.duration_ns)
                    return all(abs(at - now) < SECOND for at in last.values())
                self.wait_until(done)
            finally:
                pusher.send_signal(signal.SIGTERM)
                pusher.communicate(timeout=60)
            self.assert_arrived(receiver, ['block'])
            for kind in 'heap', 'block':
                profiles = sorted((t.profile for t in receiver.taken if t.kind == NAMES[kind]), key=lambda p: p.time_ns)
                self.assertEqual(len(profiles), 240, 'each interval is a point')
                flows = {k: v for k, v in sums(self.files(kind)).items() if not k[0].startswith('inuse')}
                self.assertEqual({k: v for k, v in sums(profiles).items() if not k[0].startswith('inuse')}, flows)
                whole = [p for p in profiles if not p.comments]
                self.assertGreater(sum(p.duration_ns for p in whole), 2900 * SECOND)
                for a, b in zip(whole, whole[1:]):
                    self.assertEqual(a.time_ns + a.duration_ns, b.time_ns, 'windows follow each other')
                cut = [c for p in profiles if p.comments for c in p.comments]
                self.assertTrue(all('the receiver takes no such time' in c for c in cut))

    def kill_at_random(self, receiver, *more):
        """Writes files while pushers are started and killed. Files of a long batch are joined, because they seem to be of
        three hours ago and another one is of now. Returns the numbers of the files, and the lines that were said."""
        rng = random.Random(SEED)
        said, seq, tails = '', 0, []

        def write(seq, **more):
            for kind in 'heap', 'block':
                values = [1 << seq % 40, seq, 0, 0] if kind == 'heap' else [1 << seq % 40, seq]
                self.write(seq, kind, rows=[(['leaf', 'main'], values, {'file': '%s%d' % (kind, seq)})], **more)

        log = os.path.join(self.scratch.name, 'log')
        command = self.command(receiver.url('pyroscope'), '--timeout', '300ms', '--log', log, *more)
        for _ in range(N_KILLS):
            receiver.plan = [rng.choice(WAYS) for _ in range(rng.randrange(8))]
            n = rng.choice((0, 1, 2, 12))
            if n == 12:
                tails.append(9000 + len(tails))  # is sent after the others
                write(tails[-1])
            for _ in range(n):
                seq += 1
                write(seq, modified_ns=time.time_ns() - (3 * 3600 - seq) * SECOND)
            pusher = subprocess.Popen(command, env=self.environment())
            time.sleep(rng.random() ** 2 * 0.6)
            pusher.kill()
            pusher.wait()
        receiver.plan = []
        self.push(receiver.url('pyroscope'), '--log', log, *more, status=None)
        with open(log) as f:
            said = f.read()
        return [*range(1, seq + 1), *tails], said

    def check(self, receiver, numbers, doubtful):
        """The values of each file, which has a label of its own, are there once; of a doubtful file once or not at all."""
        found = collections.Counter()
        for t in receiver.taken:
            for s in t.profile.samples:
                for name, value in s.values.items():
                    found[dict(s.labels)['file'], name] += value
        for seq in numbers:
            for kind, name in (('heap', 'alloc_objects'), ('block', 'contentions')):
                possible = {1 << seq % 40} | ({0} if (kind, seq) in doubtful else set())
                self.assertIn(found['%s%d' % (kind, seq), name], possible, (kind, seq))

    @staticmethod
    def doubtful(said):
        out = set()
        for seq, kind, more in re.findall(r'\.(\d{4})\.(\w+)\.pb\.gz(?: and (\d+) more)?: perhaps delivered', said):
            out.update((kind, int(seq) + i) for i in range(int(more or 0) + 1))
        return out

    def test_killed_at_random_moments_it_loses_and_doubles_nothing(self):
        with Receiver() as receiver:
            numbers, said = self.kill_at_random(receiver)
            doubtful = self.doubtful(said)
            self.check(receiver, numbers, doubtful)
            self.assertEqual(receiver.refused, [])
            print('%d files, %d kills, %d profiles taken, %d files in doubt' % (2 * len(numbers), N_KILLS, len(receiver.taken), len(doubtful)))

    def test_with_repeat_killed_at_random_moments_it_delivers_exactly_once(self):
        with Receiver(tells_duplicates=True) as receiver:
            numbers, said = self.kill_at_random(receiver, '--repeat')
            self.assertNotIn('perhaps delivered', said)
            self.check(receiver, numbers, set())


if __name__ == '__main__':
    unittest.main()
