# SPDX-License-Identifier: MIT
"""`deltaprof run -o push=URL`: a program's profiles arrive, also after its end, and the program is not affected.

    test_beside.py DELTAPROF EXAMPLE
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import by_hand
from pushing import Pushing
from receiver import Receiver

DELTAPROF = os.path.abspath(by_hand.DELTAPROF)

# Prints the state of its process before it does anything else.
LOOK = '''
import ctypes, json, os, resource, signal
children = None
try:
    children = os.waitpid(-1, os.WNOHANG | 0x40000000)  # __WALL
except ChildProcessError:
    pass
with open('/proc/thread-self/children') as f:
    listed = f.read()
print(json.dumps({
    'children': children, 'listed': listed, 'pending': sorted(signal.sigpending()), 'descriptors': sorted(os.listdir('/proc/self/fd')),
    'group': os.getpgrp() == os.getppid() or os.getpgrp() == int(os.environ['TEST_GROUP']), 'session': os.getsid(0) == int(os.environ['TEST_SESSION']),
    'mask': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), 'directory': os.getcwd(),
    'variables': sorted(k for k in os.environ if k.startswith(('DELTAPROF', 'LD_')))}))
'''
# Allocates, so that there is a profile, and ends; its child runs for a while longer.
WORK = '''
import os, sys, time
x = [bytearray(100000) for _ in range(100)]
if os.fork() == 0:
    y = [bytearray(100000) for _ in range(100)]
    until = time.monotonic() + 100
    while not os.path.exists(sys.argv[1]) and time.monotonic() < until:
        time.sleep(0.01)
'''
# Ends when its child has written a file. The child overwrites the memory of its environment, as servers do that set their
# process title.
DAEMON = '''
import ctypes, os, sys, time
x = [bytearray(100000) for _ in range(100)]
child = os.fork()
until = time.monotonic() + 100
while child and time.monotonic() < until and not any('.%d.' % child in f for f in os.listdir(sys.argv[2])):
    time.sleep(0.01)
if child == 0:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with open('/proc/self/stat') as f:
        first, last = map(int, f.read().rsplit(')', 1)[1].split()[47:49])
    ctypes.memset(first, 0, last - first)
    y = [bytearray(100000) for _ in range(100)]
    print(os.getpid(), flush=True)
    os.close(1)
    while not os.path.exists(sys.argv[1]) and time.monotonic() < until:
        time.sleep(0.01)
'''


def pushers(directory):
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/cmdline' % pid, 'rb') as f:
                words = f.read().split(b'\0')
        except OSError:
            continue
        if words[0] == b'deltaprof push' and directory.encode() in words:
            found.append(int(pid))
    return found


class Beside(Pushing):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_pushers)

    def end_pushers(self):
        for pid in pushers(self.dir):
            os.kill(pid, signal.SIGKILL)

    def run_it(self, url, program, *arguments, conf='', **more):
        command = [DELTAPROF, 'run', '-o', 'heap_rate=1,python=off,out=%s%s%s' % (self.dir, ',push=' + url if url else '', conf), '--',
                   sys.executable, '-S', '-c', program, *arguments]
        return subprocess.run(command, text=True, capture_output=True, timeout=120,
                              env=self.environment(TEST_GROUP=str(os.getpgrp()), TEST_SESSION=str(os.getsid(0))), **more)

    def test_the_program_sees_the_same_as_without_push(self):
        with Receiver() as receiver:
            without = self.run_it(None, LOOK)
            done = self.run_it(receiver.url('pyroscope'), LOOK)
            self.assertEqual((done.returncode, done.stderr), (without.returncode, without.stderr))
            self.assertEqual(json.loads(done.stdout), json.loads(without.stdout))

    def test_signals_that_are_blocked_stay_as_they_are(self):
        with Receiver() as receiver:
            def block():
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            done = self.run_it(receiver.url('pyroscope'), LOOK, preexec_fn=block)
            self.assertEqual(json.loads(done.stdout)['pending'], [])

    def test_a_short_job_and_its_children_arrive_and_then_the_pusher_ends(self):
        end = os.path.join(self.scratch.name, 'end')
        with Receiver() as receiver:
            program = subprocess.Popen([DELTAPROF, 'run', '-o', 'heap_rate=1,python=off,interval=1h,out=%s,push=%s' % (self.dir, receiver.url('pyroscope')),
                                        '--', sys.executable, '-S', '-c', WORK, end], env=self.environment(OTEL_SERVICE_NAME='jobs'))
            self.assertEqual(program.wait(timeout=60), 0)
            self.wait_until(lambda: len(receiver.taken) >= 1)  # the job has ended
            self.assertEqual(len(pushers(self.dir)), 1)
            with open(end, 'w'):
                pass
            self.wait_until(lambda: len({t.labels['pid'] for t in receiver.taken}) == 2)
            self.wait_until(lambda: not pushers(self.dir))
            self.assert_arrived(receiver)
            self.assertEqual({t.labels['service_name'] for t in receiver.taken}, {'jobs'})
            self.assertFalse(os.path.exists(os.path.join(self.dir, 'push.log')))

    def test_a_daemon_that_overwrites_its_environment_is_waited_for(self):
        end = os.path.join(self.scratch.name, 'end')
        with Receiver() as receiver:
            program = subprocess.Popen([DELTAPROF, 'run', '-o', 'heap_rate=1,python=off,interval=100ms,out=%s,push=%s' % (self.dir, receiver.url('pyroscope')),
                                        '--', sys.executable, '-S', '-c', DAEMON, end, self.dir], env=self.environment(), stdout=subprocess.PIPE)
            pid = int(program.stdout.readline())
            self.assertEqual(program.wait(timeout=60), 0)
            program.stdout.close()
            with open('/proc/%d/environ' % pid, 'rb') as f:
                self.assertNotIn(b'DELTAPROF', f.read())
            self.wait_until(lambda: str(pid) in {t.labels['pid'] for t in receiver.taken})
            time.sleep(2)  # longer than the pusher takes to see the end of a process
            self.assertEqual(len(pushers(self.dir)), 1)
            with open(end, 'w'):
                pass
            self.wait_until(lambda: not pushers(self.dir))
            self.assert_arrived(receiver, ['block', 'mutex'])
            self.assertIn('#exit', ' '.join(c for t in receiver.taken for c in t.profile.comments if t.labels['pid'] == str(pid)))

    def test_a_signal_to_all_processes_of_a_service_does_not_lose_the_last_files(self):
        with Receiver() as receiver:
            program = subprocess.Popen([DELTAPROF, 'run', '-o', 'heap_rate=1,python=off,interval=1h,out=%s,push=%s' % (self.dir, receiver.url('pyroscope')),
                                        '--', sys.executable, '-S', '-c', 'x = bytearray(10**6)\nprint(1, flush=True)\nimport time\ntime.sleep(100)'],
                                       stdout=subprocess.PIPE, env=self.environment())
            self.assertEqual(program.stdout.readline(), b'1\n')
            self.wait_until(lambda: pushers(self.dir))
            self.wait_until(lambda: any(f.startswith('.push.') for f in os.listdir(self.dir)))
            for pid in [*pushers(self.dir), program.pid]:
                os.kill(pid, signal.SIGTERM)
            self.assertEqual(program.wait(timeout=60), -signal.SIGTERM)
            program.stdout.close()
            self.wait_until(lambda: receiver.taken)
            self.wait_until(lambda: not pushers(self.dir))
            self.assert_arrived(receiver)

    def test_wrong_settings_are_refused_before_the_program_starts(self):
        for conf, why in (('push=http://x', 'pyroscope+http://HOST:PORT'), ('push=otlp+http://x:65536', 'HOST:PORT'), ('push=otlp+http://me:secret@x', 'HOST'),
                          ('push=otlp+http://x,out=none', 'needs out=DIR'), ('push=otlp+http://x,out=%p', 'without %e and %p'),
                          ('push=otlp+http://x,out=/nowhere/at/all', 'No such file')):
            with self.subTest(conf):
                done = subprocess.run([DELTAPROF, 'run', '-o', conf, '--', 'echo', 'started'], text=True, capture_output=True, timeout=60,
                                      cwd=self.scratch.name)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, '')
                self.assertRegex(done.stderr, r'\Adeltaprof run: .*\n\Z')
                self.assertIn(why, done.stderr)

    def test_a_process_that_would_inherit_the_pusher_starts_none(self):
        reaper = 'import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])'
        done = subprocess.run([sys.executable, '-c', reaper, DELTAPROF, 'run', '-o', 'push=otlp+http://x,out=' + self.dir, '--', 'true'],
                              text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn('subreaper', done.stderr)

    @unittest.skipUnless(subprocess.run(['stat', '-f', '-c', '%T', '/dev/shm'], capture_output=True).stdout == b'tmpfs\n', 'no tmpfs at /dev/shm')
    def test_serve_sends_the_files_that_it_writes(self):
        """Once each, though the server is killed and started again; what the last ones have is sent before it ends."""
        tables = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
        self.addCleanup(shutil.rmtree, tables, ignore_errors=True)
        conf = 'heap_rate=1,python=off,out=none,log=none,tables=' + tables

        def work():
            subprocess.run([DELTAPROF, 'run', '-o', conf, '--', sys.executable, '-S', '-c', 'x = [bytearray(100000) for _ in range(9)]'],
                           check=True, timeout=60)

        def serve(url):
            server = subprocess.Popen([DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', '-o', self.dir, '--to', url, tables],
                                      env=self.environment(OTEL_SERVICE_NAME='served'), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(server.communicate)
            self.addCleanup(server.kill)
            self.assertIn(b'profiles of', server.stdout.readline())
            return server
        with Receiver() as receiver:
            server = serve(receiver.url('pyroscope'))
            work()
            self.wait_until(lambda: len({t.labels['pid'] for t in receiver.taken}) == 1)
            server.kill()
            server.wait()
            server = serve(receiver.url('pyroscope'))
            work()
            self.wait_until(lambda: len({t.labels['pid'] for t in receiver.taken}) == 2)
            work()
            server.terminate()
            self.assertEqual(server.wait(60), 0)
            self.assertEqual(len({t.labels['pid'] for t in receiver.taken}), 3)
            self.assert_arrived(receiver)
            self.wait_until(lambda: not pushers(self.dir))
        for words, what in ((['--to', 'http://here'], '--to http://here'), (['--to', 'otlp+http://h:1'], '-o DIR')):
            done = subprocess.run([DELTAPROF, 'serve', *words, tables], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr.count('\n')), (2, 1), done)
            self.assertIn(what, done.stderr)


if __name__ == '__main__':
    unittest.main()
