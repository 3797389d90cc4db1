# SPDX-License-Identifier: MIT
"""`deltaprof rss` on a program that uses memory in known ways, with and without a profile, and on profiles alone.

    test_rss.py DELTAPROF PROGRAM
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DELTAPROF, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv.pop(2))
os.environ.pop('MALLOC_PERTURB_', None)  # it makes malloc fill blocks, so all of them would be resident


def rss(*arguments):
    """(status, answer, or the line of the error)."""
    done = subprocess.run([DELTAPROF, 'rss', '--json', *arguments], text=True, capture_output=True)
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else done.stderr


class Program:
    def __init__(self, command, **kwargs):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)
        self.knows = json.loads(self.process.stdout.readline())
        self.pid = str(self.process.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def anonymous(pid):
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith('RssAnon:'))


class Rss(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp(prefix='deltaprof-rss-')
        self.addCleanup(subprocess.run, ['rm', '-rf', self.out])

    def near(self, value, expected, share, what):
        self.assertLessEqual(abs(value - expected), share * expected, what)

    def adds_up(self, answer):
        self.assertEqual(sum(part['bytes'] for part in answer['parts']), answer['explained_bytes'])
        self.assertEqual(answer['explained_bytes'] + answer['unexplained_bytes'], answer['anonymous_bytes'])
        self.assertTrue(all(part['bytes'] > 0 for part in answer['parts']), answer)
        self.assertEqual(answer['parts'], sorted(answer['parts'], key=lambda part: -part['bytes']))
        return {part['name']: part['bytes'] for part in answer['parts']}

    def test_a_program_without_a_profiler_is_explained_by_kinds_of_mappings(self):
        with Program([PROGRAM], cwd=self.out) as program:
            status, answer = rss(program.pid)
            self.assertEqual(status, 0, answer)
            parts, knows = self.adds_up(answer), program.knows
            self.near(answer['anonymous_bytes'], anonymous(program.pid), 0.05, answer)
            self.near(parts['malloc (brk and arenas)'], knows['held'] / 3 * 4, 0.15, parts)
            self.near(parts['stacks of threads'], knows['stacks'], 0.25, parts)
            self.near(parts['private pages of files'], knows['files'], 0.5, parts)
            self.near(answer['unexplained_bytes'], knows['mapped'] + 24 * 2**20, 0.1, answer)
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            self.assertIn('explained by kinds of mappings', text)

    def profiled(self, conf, *arguments):
        return Program([DELTAPROF, 'run', '-o', f'interval=0,signal=USR2,symbolize=none,out={self.out},' + conf, '--', PROGRAM, *arguments], cwd='/')

    def tick(self, program):
        before = set(os.listdir(self.out))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(name.endswith('.heap.pb.gz') for name in set(os.listdir(self.out)) - before):
            os.kill(program.process.pid, signal.SIGUSR2)
            time.sleep(0.1)

    def check_parts(self, answer, knows, tolerance):
        parts = self.adds_up(answer)
        self.near(parts['malloc, in use'], knows['in_use'], tolerance, parts)
        held = parts['malloc, held but not in use'] + parts['malloc, in use']
        self.near(held, knows['held'] + knows['in_use'], 0.15, parts)
        self.near(parts['stacks of threads'], knows['stacks'], 0.25, parts)
        self.near(parts['private pages of files'], knows['files'], 0.5, parts)
        self.assertGreater(parts['the profiler'], 0)
        self.near(answer['unexplained_bytes'], knows['mapped'], 0.2, answer)

    def test_a_profiled_program_has_the_parts_of_malloc(self):
        with self.profiled('heap_rate=1') as program:
            self.tick(program)
            for words in ([program.pid], [program.pid, self.out], [self.out]):
                status, answer = rss(*words)
                self.assertEqual(status, 0, answer)
                self.check_parts(answer, program.knows, 0.05)
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            self.assertRegex(text, r'64(\.\d+)?MB +allocated, but never touched')

    def test_several_processes_have_the_sum_of_each_part(self):
        with self.profiled('heap_rate=1') as one, self.profiled('heap_rate=1') as other:
            self.tick(one)
            self.tick(other)
            each = []
            for program in one, other:
                [name] = [name for name in os.listdir(self.out) if f'.{program.pid}.' in name and '.heap.' in name][-1:]
                status, answer = rss(os.path.join(self.out, name))
                self.assertEqual(status, 0, answer)
                each.append(self.adds_up(answer))
            status, answer = rss(self.out)
            self.assertEqual(status, 0, answer)
            parts = self.adds_up(answer)
            self.assertEqual({name: sum(parts.get(name, 0) for parts in each) for name in {*each[0], *each[1]}}, parts)
            self.assertGreater(answer['unexplained_bytes'], 0)

    def test_mappings_are_a_part_if_they_are_recorded(self):
        with self.profiled('heap_rate=1,mmap=on') as program:
            self.tick(program)
            for words in ([program.pid], [self.out]):
                status, answer = rss(*words)
                self.assertEqual(status, 0, answer)
                parts = self.adds_up(answer)
                self.near(parts['mmap'], program.knows['mapped'], 0.02, parts)
                self.assertGreater(answer['explained_bytes'], 0.97 * answer['anonymous_bytes'], answer)

    @unittest.skipIf(os.geteuid(), 'only root may change its user')
    def test_a_process_that_changed_its_user_has_parts_too(self):
        os.chmod(self.out, 0o777)
        with self.profiled('heap_rate=1,mmap=on', 'changes-user') as program:
            self.tick(program)
            status, answer = rss(self.out)
            self.assertEqual(status, 0, answer)
            parts = self.adds_up(answer)
            self.near(parts['malloc, in use'], program.knows['in_use'], 0.05, parts)
            self.near(parts['mmap'], program.knows['mapped'], 0.02, parts)

    def test_a_forked_process_that_overwrote_its_environment_is_found(self):
        with self.profiled('heap_rate=1,mmap=on', 'titles') as program:
            pid = str(program.knows['pid'])
            self.assertNotEqual(pid, program.pid)
            deadline = time.monotonic() + 60
            while len(os.listdir(f'/proc/{pid}/task')) < 2:  # its signal handler alone measures no memory
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            while not any(f'.{pid}.' in name and name.endswith('.heap.pb.gz') for name in os.listdir(self.out)):
                self.assertLess(time.monotonic(), deadline)
                os.kill(int(pid), signal.SIGUSR2)
                time.sleep(0.1)
            with open(f'/proc/{pid}/environ') as environ:
                self.assertNotIn('DELTAPROF_CONF', environ.read())
            status, answer = rss(pid)
            self.assertEqual(status, 0, answer)
            parts = self.adds_up(answer)
            self.near(parts['malloc, in use'], program.knows['in_use'], 0.05, parts)
            self.near(parts['mmap'], program.knows['mapped'], 0.02, parts)
            self.near(answer['absent_bytes'], program.knows['untouched'], 0.05, answer)

    def test_a_profiled_process_without_a_profile_knows_the_profilers_part(self):
        with self.profiled('heap_rate=512k,signal=none') as program:
            status, answer = rss(program.pid)
            self.assertEqual(status, 0, answer)
            self.assertGreater(self.adds_up(answer)['the profiler'], 100 * 2**10)
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            self.assertIn(f'It has written no heap profile in {self.out}: ', text)

    def test_a_process_that_cannot_write_profiles_has_its_tables(self):
        with Program([DELTAPROF, 'run', '-o', 'symbolize=none,heap_rate=4k,out=/proc/nowhere', '--', sys.executable, '-c', self.GROWS % 'use(8)'],
                     cwd='/') as program:
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            in_use = re.search(r'no heap profile in /proc/nowhere: .*; malloc has (\d+)[.\d]*MB in use$', text, re.S)
            self.assertTrue(in_use, text)
            self.assertIn(int(in_use[1]), range(16, 20))

    GROWS = """if 1:
        import ctypes, sys, time
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        def use(n):
            for i in range(n):
                ctypes.memset(libc.malloc(ctypes.c_size_t(1 << 20)), 1, 1 << 20)
        use(8)
        %s
        print("{}", flush=True)
        sys.stdin.read()
        """

    def growing(self, conf, then):
        return Program([DELTAPROF, 'run', '-o', f'symbolize=none,out={self.out},{conf}', '--', sys.executable, '-c', self.GROWS % then], cwd='/')

    def test_memory_that_came_after_the_last_tick_is_explained_without_help_of_the_process(self):
        """It is stopped, so nothing can be asked of it."""
        wait = 'while not any(".heap." in n for n in os.listdir("%s")): time.sleep(.05)\n        use(64)' % self.out
        with self.growing('interval=1s,heap_rate=64k', 'os = __import__("os")\n        ' + wait) as program:
            os.kill(program.process.pid, signal.SIGSTOP)
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            status, answer = rss(program.pid)
            os.kill(program.process.pid, signal.SIGCONT)
            self.assertEqual(status, 0, answer)
        self.assertGreater(answer['explained_bytes'], 0.93 * answer['anonymous_bytes'], text)
        self.assertGreater(self.adds_up(answer)['malloc, in use'], 60 << 20, text)
        self.assertNotIn(' ago)', text)

    def test_what_only_the_process_can_count_is_asked_of_it(self):
        """By waste: no file has its columns, so an answer is one of the endpoint."""
        with open(self.out + '/token', 'w') as token:
            token.write('secret\n')
        for conf in f'listen=unix:{self.out}/socket', f'listen=127.0.0.1:7300-7390,token={self.out}/token':
            with self.growing(f'interval=1h,heap_rate=64k,{conf}', 'pass') as program:
                deadline = time.monotonic() + 60
                while (done := subprocess.run([DELTAPROF, 'waste', '--json', program.pid], text=True, capture_output=True)).returncode:
                    self.assertLess(time.monotonic(), deadline, (conf, done))  # the endpoint is not there at once
                    time.sleep(0.1)
                self.assertGreater(json.loads(done.stdout)['in_use_bytes'], 7 << 20, conf)

    def test_the_row_says_how_old_the_profile_is_and_the_rest_is_listed(self):
        wait = ('os = __import__("os")\n        while not any(".heap." in n for n in os.listdir("%s")): time.sleep(.05)\n        time.sleep(.2)\n'
                '        mmap = __import__("mmap").mmap(-1, 32 << 20, flags=0x22)\n        mmap.write(bytes(32 << 20))' % self.out)
        with self.growing('interval=1s,heap_rate=64k,tables=none', wait) as program:
            os.kill(program.process.pid, signal.SIGSTOP)
            time.sleep(3)
            text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
            os.kill(program.process.pid, signal.SIGCONT)
        self.assertRegex(text, r'malloc, in use \(sampled, \+-\S+B; as it was \S+s ago\)')
        self.assertRegex(text, r'not explained')
        self.assertIn("The largest mappings: malloc's, or the program's own, which profiles show with mmap=on", text)
        self.assertRegex(text, r'\n +32MB +[0-9a-f]+-[0-9a-f]+\n')

    def test_the_children_of_a_process_are_added(self):
        fork = 'os = __import__("os")\n        for i in 1, 2:\n            if not os.fork():\n                use(16 * i)\n                time.sleep(600)\n        time.sleep(1)'
        with self.growing('interval=200ms,heap_rate=64k', fork) as program:
            children = f'/proc/{program.pid}/task/{program.pid}/children'
            deadline = time.monotonic() + 60
            try:
                while time.monotonic() < deadline and sum(anonymous(pid) for pid in open(children).read().split()) < 64 << 20:
                    time.sleep(0.1)
                status, answer = rss(program.pid)
                self.assertEqual(status, 0, answer)
                self.adds_up(answer)
                self.assertEqual(len(answer['processes']), 3)
                self.assertEqual(str(answer['processes'][0]['pid']), program.pid)
                self.assertEqual(sum(p['anonymous_bytes'] for p in answer['processes']), answer['anonymous_bytes'])
                largest = max(p['anonymous_bytes'] for p in answer['processes'])
                self.assertGreater(largest, 32 << 20)
                self.assertGreater(answer['anonymous_bytes'], 56 << 20)
                alone = rss('--no-children', program.pid)[1]
                self.assertNotIn('processes', alone)
                self.near(alone['anonymous_bytes'], answer['processes'][0]['anonymous_bytes'], 0.1, alone)
                text = subprocess.run([DELTAPROF, 'rss', program.pid], text=True, capture_output=True, check=True).stdout
                self.assertRegex(text, r'^Anonymous resident memory of 3 processes: ')
            finally:
                for pid in open(children).read().split():
                    os.kill(int(pid), signal.SIGKILL)

    def test_sampled_parts_have_an_error_bound(self):
        with self.profiled('heap_rate=512k') as program:
            self.tick(program)
            status, answer = rss(program.pid)
            self.assertEqual(status, 0, answer)
            self.adds_up(answer)
            self.assertGreater(answer['error_bytes'], 2**20)
            parts = {part['name']: part['bytes'] for part in answer['parts']}
            self.assertLessEqual(abs(parts['malloc, in use'] - program.knows['in_use']), 6 * answer['error_bytes'], answer)

    def test_wrong_arguments_are_refused(self):
        for words, line in (
                ((), 'no PID or FILE given'), (('1', self.out, self.out), 'one process at a time'),
                (('4194999',), 'no such process'), (('4194999x',), 'No such file'), ((self.out,), 'no'),
                ((str(os.getpid()), self.out), 'no heap profile of process')):
            status, answer = rss(*words)
            self.assertIn(status, (1, 2), words)
            self.assertIn(line, answer, words)
            self.assertEqual(answer.count('\n'), 1, answer)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0]])
