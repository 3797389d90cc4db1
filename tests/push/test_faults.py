# SPDX-License-Identifier: MIT
"""`deltaprof push` with failures: whatever the receiver, the network, the disk or a kill does, no profile is lost or
counted twice. If no answer to a profile came, push names that profile and does not send it again.

    test_faults.py DELTAPROF EXAMPLE
"""
import email.utils
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from pushing import DELTAPROF, NAMES, Pushing
from receiver import Receiver, sums

QUICK = ('--timeout', '6s', '--wait', '100s')  # a busy machine answers within it


class Faults(Pushing):
    def write_some(self, n=4):
        for seq in range(1, n + 1):
            self.write(seq)
            self.write(seq, 'block')

    def test_a_profile_that_was_certainly_not_accepted_is_sent_again(self):
        self.write_some()
        with Receiver() as receiver:
            receiver.plan = ['503', '500', 'ok', '429 Retry-After: 1', 'ok', '502', '401', 'ok', '504']
            said = self.push(receiver.url('pyroscope'), '--wait', '100s')
            self.assert_arrived(receiver, ['heap', 'block'])
            self.assertEqual(receiver.n_requests, 6 + 8)
            for words in 'status 503: as planned; trying again', 'status 401', 'status 429':
                self.assertIn(words, said)

    def test_a_pause_that_the_receiver_asks_for_is_kept_however_long(self):
        self.write(1)
        hour = email.utils.formatdate(time.time() + 3600, usegmt=True)
        for pause in '100000', '9223372036854775808', '9' * 30, '9' * 400, hour:
            with self.subTest(pause), Receiver() as receiver:
                receiver.plan = ['429 Retry-After: ' + pause]
                self.assertIn('1 waiting', self.push(receiver.url('pyroscope'), '--wait', '1s', status=1))
                self.assertEqual(receiver.n_requests, 1)

    def test_a_request_that_broke_off_before_its_end_is_sent_again(self):
        text = random.Random(1).randbytes(4 << 20).hex()  # more than fits into the buffers of a connection
        self.write(1, rows=[(['leaf'], [1, 2, 3, 4], {'text': text})])
        with Receiver() as receiver:
            receiver.plan = ['crawl']
            said = self.push(receiver.url('pprof'), '--timeout', '1s', '--wait', '20ms', status=1)
            self.assertIn('0 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 1 waiting', said)
            receiver.plan = ['early', 'early']
            self.assertIn('trying again', self.push(receiver.url('pprof')))
            self.assertEqual(receiver.n_requests, 4)
            self.assert_arrived(receiver, ['heap'])

    def test_an_answer_with_a_status_line_is_complete(self):
        self.write_some(1)
        with Receiver() as receiver:
            receiver.plan = ['cut', 'cut']
            self.assertEqual(self.push(receiver.url('pyroscope'), *QUICK), '')
            self.assert_arrived(receiver, ['heap', 'block'])

    def test_a_profile_without_an_answer_is_counted_and_not_sent_again(self):
        for way in 'taken', 'reset', 'half', 'slow', 'hang':
            with self.subTest(way), Receiver() as receiver:
                self.write_some(3)
                receiver.plan = ['ok', way]
                said = self.push(receiver.url('pyroscope'), *QUICK, status=1)
                self.assertEqual(len(re.findall('perhaps delivered to', said)), 1)
                self.assertIn('5 files accepted, 1 perhaps delivered, 0 refused', said)
                self.assertEqual(receiver.n_requests, 6)
                self.assertEqual(len(receiver.taken), 5 if way == 'reset' else 6)

    def test_with_repeat_it_is_sent_again_under_the_same_id(self):
        self.write_some(3)
        with Receiver(tells_duplicates=True) as receiver:
            receiver.plan = ['taken', 'reset', 'half', 'ok', 'hang', 'slow']
            self.push(receiver.url('pyroscope'), '--repeat', *QUICK)
            self.assert_arrived(receiver, ['heap', 'block'])
            self.assertEqual(receiver.n_requests, 6 + 5)

    def test_files_that_the_receiver_cannot_answer_do_not_stop_the_others(self):
        self.write_some(3)
        poisons, bodies = ('server.7.0001.heap.pb.gz', 'server.7.0002.block.pb.gz'), []
        for name in poisons:
            with open(os.path.join(self.dir, name), 'rb') as f:
                bodies.append(f.read())
        with Receiver() as receiver:
            receiver.fails = lambda body: any(poison in body for poison in bodies)
            said = self.push(receiver.url('pprof'), '--wait', '12s', status=1)  # set aside after 6 and 3 s
            for name in poisons:
                self.assertEqual(len(re.findall(name + ': set aside', said)), 1, said)
            self.assertIn('4 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 2 waiting', said)
            receiver.fails = None
            self.assertEqual(self.push(receiver.url('pprof'), '--wait', '8s'), '')  # tried again after 4 s
            self.assertEqual(len(receiver.taken), 6)

    def test_a_directory_that_fails_leaves_turns_to_the_others(self):
        self.write_some(2)
        failing, self.dir = self.dir, os.path.join(self.scratch.name, 'second')
        os.mkdir(self.dir)
        self.write(1, pid=8)
        with open(os.path.join(self.dir, 'server.8.0001.heap.pb.gz'), 'rb') as f:
            good = f.read()
        with Receiver() as receiver:
            receiver.fails = lambda body: good not in body
            done = subprocess.run([DELTAPROF, 'push', failing, self.dir, '--to', receiver.url('pprof'), '--once', '--wait', '5s'], text=True, capture_output=True,
                                  env=self.environment())
            self.assertIn('1 files accepted, 0 perhaps delivered, 0 refused, 0 deleted before they were sent, 4 waiting', done.stderr)

    def test_refused_files_are_named_and_do_not_stop_the_others(self):
        self.write_some(2)
        with Receiver() as receiver:
            receiver.plan = ['400', 'ok', '413', '422']
            said = self.push(receiver.url('pyroscope'), status=1)
            self.assertIn('1 files accepted, 0 perhaps delivered, 3 refused', said)
            self.assertEqual(len(receiver.taken), 1)

    def test_a_receiver_that_is_killed_and_started_again(self):
        with Receiver() as receiver:
            url = receiver.url('pyroscope')
            pusher = subprocess.Popen(self.command(url), stderr=subprocess.PIPE, text=True, env=self.environment())
            try:
                self.write(1)
                self.wait_until(lambda: receiver.taken)
                receiver.stop()
                for seq in 2, 3, 4:
                    self.write(seq)
                receiver.start()
                self.wait_until(lambda: len(receiver.taken) == 4)
            finally:
                pusher.send_signal(signal.SIGTERM)
                pusher.communicate(timeout=60)
            self.assert_arrived(receiver, ['heap'])

    def test_a_receiver_that_is_not_there_keeps_the_files(self):
        self.write_some(1)
        with Receiver() as receiver:
            url = receiver.url('pyroscope')
            receiver.stop()
            self.assertIn('2 waiting', self.push(url, '--wait', '20ms', status=1))
            receiver.start()
            self.assertEqual(self.push(url), '')
            self.assert_arrived(receiver, ['heap', 'block'])

    @unittest.skipUnless(shutil.which('openssl'), 'no openssl')
    def test_certificates_are_verified(self):
        self.write(1)
        pem = os.path.join(self.scratch.name, 'cert.pem')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', pem + '.key', '-out', pem + '.crt',
                        '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
                       check=True, capture_output=True)
        with open(pem, 'w') as f:
            for part in '.key', '.crt':
                with open(pem + part) as g:
                    f.write(g.read())
        with Receiver(certificate=pem) as receiver:
            url = receiver.url('pyroscope', 'localhost')
            self.assertRegex(self.push(url, '--wait', '20ms', status=1), '(?i)certificate')
            self.assertRegex(self.push(receiver.url('pyroscope', '127.0.0.1'), '--wait', '20ms', '--ca', pem + '.crt', status=1),
                             '(?i)certificate|name|match')
            self.assertEqual(receiver.taken, [])
            self.assertEqual(self.push(url, '--ca', pem + '.crt'), '')
            self.assert_arrived(receiver, ['heap'])

    @unittest.skipUnless(shutil.which('cc'), 'no compiler')
    def test_names_that_are_never_resolved_do_not_delay_the_end(self):
        self.write(1)
        library = os.path.join(self.scratch.name, 'never.so')
        source = '#include <unistd.h>\nint getaddrinfo(const char *a, const char *b, const void *c, void **d)\n{ for (;;) pause(); }\n'
        subprocess.run(['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o', library], input=source, text=True, check=True)
        said = self.push('pyroscope+http://receiver.example:4040', *QUICK[:2], '--wait', '20ms', status=1, LD_PRELOAD=library)
        self.assertRegex(said, '(?i)resolv.*timed out|timed out.*resolv|timeout')
        self.assertIn('1 waiting', said)

    def test_a_proxy_of_the_environment_is_used(self):
        self.write(1)
        with Receiver() as proxy:
            self.push('pyroscope+http://receiver.example:4040', '--wait', '20ms', status=1, http_proxy='http://127.0.0.1:%d' % proxy.port)
            self.assertGreater(proxy.n_requests, 0)

    # ---- kills ----------------------------------------------------------------------------------------------------

    def calls_of(self, url, *more):
        """The number of system calls of one push, and where it is killed: strace counts."""
        with tempfile.NamedTemporaryFile() as log:
            self.push(url, *more, before=['strace', '-f', '-o', log.name])
            return sum(1 for line in log if b'resumed>' not in line)

    def kill_and_start_again(self, rng, receiver, n_kills, *more):
        """Pushes with a kill -9 at a random system call each time, then once without. Returns the lines about doubtful
        profiles."""
        url = receiver.url('pyroscope')
        self.write(1)
        n_calls = self.calls_of(url, *more)
        said = ''
        for seq in range(2, n_kills + 2):
            for kind in 'heap', 'mutex', 'block':
                self.write(seq, kind)
            at = rng.randrange(n_calls // 4, n_calls * 2)
            said += self.push(url, *more, status=None, before=['strace', '-f', '-o', '/dev/null', '-e', 'inject=all:signal=KILL:when=%d' % at])
        said += self.push(url, *more, status=None)
        return said

    @unittest.skipUnless(shutil.which('strace'), 'no strace')
    def test_a_pusher_killed_anywhere_loses_nothing_and_doubles_nothing(self):
        rng = random.Random(17)
        with Receiver() as receiver:
            said = self.kill_and_start_again(rng, receiver, 25)
            doubtful = {os.path.basename(name) for name in re.findall(r'(\S+\.pb\.gz): perhaps delivered to', said)}
            ids = [t.id for t in receiver.taken]
            self.assertEqual(len(ids), len(set(ids)), 'doubled')
            self.assertEqual(receiver.refused, [])
            for kind in 'heap', 'mutex', 'block':
                for file in self.files(kind):
                    same = [t for t in receiver.taken if t.kind == NAMES[kind] and t.profile.time_ns == file.time_ns]
                    name = os.path.basename(file.path)
                    self.assertIn(len(same), (0, 1) if name in doubtful else (1,), name)
                    self.assertTrue(all(sums([t.profile]) == sums([file]) for t in same))

    @unittest.skipUnless(shutil.which('strace'), 'no strace')
    def test_with_repeat_a_pusher_killed_anywhere_delivers_exactly_once(self):
        rng = random.Random(18)
        with Receiver(tells_duplicates=True) as receiver:
            self.kill_and_start_again(rng, receiver, 12, '--repeat')
            self.assert_arrived(receiver)

    def test_a_pusher_killed_before_the_answer_leaves_the_profile_in_doubt(self):
        self.write(1)
        with Receiver() as receiver:
            receiver.plan = ['hang']
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.DEVNULL, env=self.environment())
            self.wait_until(lambda: receiver.taken)
            pusher.kill()
            pusher.wait(60)
            self.write(2)
            said = self.push(receiver.url('pyroscope'), status=None)
            self.assertRegex(said, r'0001\.heap\.pb\.gz: perhaps delivered to \S+ before the last pusher was killed, not sent again')
            self.assertEqual(len(receiver.taken), 2)
            self.assert_arrived(receiver, ['heap'])

    def push_and_read_journal(self, url):
        """The path of the journal after a push, and its content."""
        self.push(url)
        [name] = [f for f in os.listdir(self.dir) if f.startswith('.push.')]
        with open(os.path.join(self.dir, name), 'rb') as f:
            return f.name, f.read()

    def test_a_journal_cut_at_any_byte_is_read(self):
        self.write_some(2)
        with Receiver() as receiver:
            url = receiver.url('pyroscope')
            path, whole = self.push_and_read_journal(url)
            sends = [m.end() for m in re.finditer(rb'send \d+\n', whole)]
            self.assertEqual(len(sends), 4)
            for at in sorted({0, 1, 9, len(whole) - 1, *sends, *(n - 1 for n in sends), *random.Random(1).sample(range(len(whole)), 12)}):
                with open(path, 'wb') as f:
                    f.write(whole[:at])
                before = len(receiver.taken)
                said = self.push(url, status=None)
                lines = whole[:at].split(b'\n')[:-1]
                n_settled = sum(b' part ' in line for line in lines)
                n_doubt = int(bool(lines) and b' send ' in lines[-1])  # the line of its answer was cut off
                self.assertEqual(len(receiver.taken) - before, 4 - n_settled - n_doubt, (at, said))
                self.assertEqual(len(re.findall('before the last pusher was killed', said)), n_doubt, (at, said))

    def test_a_broken_journal_puts_the_files_before_its_end_in_doubt(self):
        """Whatever line was garbled: no file is sent twice, and the log says which may be lost."""
        self.write_some(2)
        with Receiver() as receiver:
            url = receiver.url('pyroscope')
            path, whole = self.push_and_read_journal(url)
            lines = whole.splitlines(keepends=True)
            for i in range(1, len(lines)):
                n = len(receiver.taken)
                with open(path, 'wb') as f:
                    f.writelines([*lines[:i], b'\0' * (len(lines[i]) - 1) + b'\n', *lines[i + 1:]])
                said = self.push(url, status=None)
                self.assertIn('%s: 1 lines are broken' % os.path.basename(path), said)
                self.assertEqual(len(receiver.taken), n, lines[i])
                self.assertEqual(self.push(url), '', 'said once')
            with open(path, 'wb') as f:
                f.write(b'x' * 50 + b'\n' + b'y' * 50 + b'\n')
            self.write(3)
            said = self.push(url, status=1)
            self.assertIn('2 lines are broken; 4 files were perhaps delivered', said)
            self.assertIn('1 files accepted, 4 perhaps delivered, 0 refused', said)
            self.assert_arrived(receiver, ['heap', 'block'])

    def test_a_broken_journal_and_repeat_sends_again(self):
        self.write_some(2)
        with Receiver(tells_duplicates=True) as receiver:
            url = receiver.url('pyroscope')
            path, _ = self.push_and_read_journal(url)
            with open(path, 'wb') as f:
                f.write(b'x' * 50 + b'\n')
            self.assertIn('1 lines are broken', self.push(url, '--repeat'))
            self.assertEqual(receiver.n_requests, 8)
            self.assert_arrived(receiver, ['heap', 'block'])

    def is_settled(self):
        """Whether a journal says that a unit was accepted."""
        for path in glob.glob(self.dir + '/.push.*'):
            with open(path) as f:
                if ' done 0\n' in f.read():
                    return True
        return False

    def test_a_directory_that_is_removed_and_made_again_is_watched(self):
        with Receiver() as receiver:
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.PIPE, text=True, env=self.environment())
            try:
                for n in 1, 2:
                    self.write(n)
                    self.wait_until(lambda: len(receiver.taken) == n)
                    self.wait_until(self.is_settled)
                    shutil.rmtree(self.dir)
                    os.mkdir(self.dir)
            finally:
                pusher.send_signal(signal.SIGTERM)
                said = pusher.communicate(timeout=60)[1]
            self.assertIn('removed or replaced, with 0 files', said)
            self.assertEqual(pusher.returncode, 0, said)

    def test_a_shortage_of_memory_refuses_nothing(self):
        self.write(1, rows=[(['leaf'], [1, 2, 3, 4], {'text': '0' * (200 << 20)})])
        with Receiver() as receiver:
            url = receiver.url('pprof')
            said = self.push(url, '--wait', '20ms', status=1, before=['prlimit', '--as=%d' % (300 << 20)])
            self.assertIn('heap.pb.gz: Cannot allocate memory; trying again', said)
            self.assertIn('0 refused, 0 deleted before they were sent, 1 waiting', said)
            self.assertEqual(self.push(url), '')
            self.assertEqual(len(receiver.taken), 1)

    def test_with_a_full_disk_only_profiles_in_the_journal_are_sent(self):
        self.write_some(2)
        with Receiver() as receiver:
            url = receiver.url('pyroscope')
            self.push(url)
            n = len(receiver.taken)
            self.write(3)
            said = self.push(url, '--wait', '20ms', status=1, before=['prlimit', '--fsize=100'])
            self.assertIn('File too large', said)
            self.assertEqual(len(receiver.taken), n)
            self.assertEqual(self.push(url), '')
            self.assert_arrived(receiver, ['heap', 'block'])


if __name__ == '__main__':
    unittest.main()
