# SPDX-License-Identifier: MIT
"""`deltaprof push` with files that it cannot read now: they wait, and push never says that all arrived.

    test_files.py DELTAPROF EXAMPLE
"""
import os
import resource
import signal
import subprocess
import unittest

from pushing import DELTAPROF, Pushing
from receiver import Receiver


class Files(Pushing):
    def setUp(self):
        super().setUp()
        self.failing = os.path.join(self.scratch.name, 'failing')

    def break_call(self, call):
        with open(self.failing + '.tmp', 'w') as f:
            f.write(call)
        os.rename(self.failing + '.tmp', self.failing)

    @staticmethod
    def end(pusher):
        pusher.send_signal(signal.SIGTERM)
        return pusher.wait(timeout=60)

    def start(self, receiver):
        """A pusher for which the call in the file `failing` fails as long as that file exists."""
        log = os.path.join(self.scratch.name, 'log')
        pusher = subprocess.Popen(self.command(receiver.url('pyroscope'), '--log', log),
                                  env=self.environment(LD_PRELOAD=os.environ['FAILING_FILES'], FAILING=self.failing))
        self.addCleanup(self.end, pusher)

        def said():
            if not os.path.exists(log):
                return ''
            with open(log) as f:
                return f.read()
        return pusher, said

    def test_with_any_limit_of_descriptors_the_status_is_0_only_if_all_arrived(self):
        self.write(1)
        results = set()
        for limit in range(4, 24):
            for name in os.listdir(self.dir):
                if name.startswith('.push.'):
                    os.unlink(os.path.join(self.dir, name))
            with self.subTest(limit), Receiver() as receiver:
                done = subprocess.run(self.command(receiver.url('pyroscope'), '--once', '--wait', '20ms'), text=True, capture_output=True, timeout=120,
                                      env=self.environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
                self.assertEqual(done.returncode == 0, len(receiver.taken) == 1, done.stderr)
                self.assertEqual(done.returncode == 0, done.stderr == '')
                results.add(done.returncode)
        self.assertTrue({0, 1} <= results, results)

    def test_a_directory_that_is_read_in_part_has_no_deleted_files(self):
        with Receiver() as receiver:
            receiver.plan = ['429 Retry-After: 2']
            pusher, said = self.start(receiver)
            for seq in 1, 2, 3, 4:
                self.write(seq)
            self.wait_until(lambda: 'status 429' in said())
            self.break_call('readdir 4')
            self.write(5)
            self.wait_until(lambda: 'Input/output error; trying again' in said())
            os.unlink(self.failing)
            self.wait_until(lambda: len(receiver.taken) == 5)
            self.assert_arrived(receiver, ['heap'])
            self.assertEqual(self.end(pusher), 0, said())

    def test_a_file_that_cannot_be_read_is_not_deleted(self):
        with Receiver() as receiver:
            self.break_call('fstatat server.7.0002.heap.pb.gz')
            pusher, said = self.start(receiver)
            self.write(1)
            self.wait_until(lambda: len(receiver.taken) == 1)
            self.write(2)
            self.wait_until(lambda: '1 profiles cannot be read: Input/output error; trying again' in said())
            self.write(3)
            self.wait_until(lambda: len(receiver.taken) == 2)
            os.unlink(self.failing)
            self.wait_until(lambda: len(receiver.taken) == 3)
            self.assert_arrived(receiver, ['heap'])
            self.assertEqual(self.end(pusher), 0, said())
            self.assertNotIn('deleted before they were sent', said())

    def test_a_directory_that_is_named_twice_is_sent_once(self):
        self.write(1)
        link = os.path.join(self.scratch.name, 'link')
        os.symlink(self.dir, link)
        with Receiver() as receiver:
            done = subprocess.run([DELTAPROF, 'push', self.dir, link, self.dir + '/.', '--to', receiver.url('pyroscope'), '--once'], text=True,
                                  capture_output=True, timeout=120, env=self.environment())
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assert_arrived(receiver, ['heap'])

    def test_a_journal_that_cannot_be_opened_is_named(self):
        self.write(1)
        with Receiver() as receiver:
            self.push(receiver.url('pyroscope'))
            [journal] = [os.path.join(self.dir, name) for name in os.listdir(self.dir) if name.startswith('.push.')]
            os.unlink(journal)
            os.mkdir(journal)
            self.assertEqual(self.push(receiver.url('pyroscope'), status=1), 'deltaprof push: %s: Is a directory\n' % journal)


if __name__ == '__main__':
    unittest.main()
