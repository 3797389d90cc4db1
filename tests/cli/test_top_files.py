# SPDX-License-Identifier: MIT
"""`deltaprof top` over several files: which files are read, and which of them say what is in use.

    test_top_files.py DELTAPROF
"""
import gzip
import os
import shutil
import struct
import subprocess
import sys
import unittest

from by_hand import DELTAPROF, TopCase, profile
from random_profile import MUTEX


class TopFiles(TopCase):
    def test_over_files_flows_are_summed_and_the_newest_of_each_process_is_in_use(self):
        paths = self.files_of_two_processes()
        for order in paths, paths[::-1]:
            self.assertEqual(self.names('--type', 'alloc_space', *order), {'f': ('100B', '100B')})
            self.assertIn('Type: alloc_space, summed over 4 files', self.head)
            self.assertEqual(self.names('--type', 'inuse_objects', *order), {'f': ('7', '7')})
            self.assertIn('Type: inuse_objects, in use by 2 processes, from the newest file of each (of 4 files)', self.head)

    def test_a_file_counts_once_however_many_paths_name_it(self):
        path = self.file('server.7.0001.heap.pb.gz', [(['f'], [1, 10, 1, 4])])
        directory, link = os.path.dirname(path), path + '.link'
        os.symlink(path, link)
        for paths in (path, path), (directory, path), (directory, directory + '/.'), (link, path):
            for type_name, value in ('alloc_space', '10B'), ('inuse_space', '4B'):
                self.assertEqual(self.names('--type', type_name, *paths), {'f': (value, value)}, paths)

    def without(self, path, *arguments):
        """Runs deltaprof; what it lists is there, but path is gone when it is opened. Its status and errors."""
        gone = 'inject=openat,access,faccessat,faccessat2:error=ENOENT'
        done = subprocess.run(['strace', '-o', '/dev/null', '-P', path, '-e', gone, DELTAPROF, *arguments], timeout=60,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return done.returncode, ''.join(line for line in done.stderr.splitlines(True) if not line.startswith('strace: '))

    @unittest.skipUnless(shutil.which('strace'), 'strace is not installed')
    def test_a_file_that_is_deleted_during_the_read_is_no_error(self):
        """A process deletes its old files while they are read."""
        paths = self.process(7, 10, 20, 30, ended=False)
        directory = os.path.dirname(paths[0])
        for path in paths[:2]:
            for verb in ('top',), ('tree',), ('leaks',), ('growth',), ('merge', '-o', '/dev/null'), ('view', '-o', '/dev/null'):
                status, errors = self.without(path, *verb, directory)
                self.assertEqual((status, 'No such' in errors), (0, False), (verb, errors))
        missing = 'deltaprof top: %s: No such file or directory\n' % paths[0]
        self.assertEqual(self.without(paths[0], 'top', *paths),  # named, not found in a directory
                         (1, missing + 'deltaprof top: 1 file is left out, see above\n'))
        for path in paths[1:]:
            os.unlink(path)
        self.assertEqual(self.without(paths[0], 'top', directory)[0], 1)

    def test_builds_without_a_build_id_keep_their_names_at_one_place(self):
        alpha = self.file('server.7.0001.heap.pb.gz', [(['alpha', 'main'], [1, 10, 1, 10])])
        beta = self.file('server.8.0001.heap.pb.gz', [(['beta', 'main'], [1, 30, 1, 30])])
        merged = self.file('merged', self.run_it('merge', alpha, beta))
        for paths in (alpha, beta), (beta, alpha), (merged,):
            self.assertEqual(self.names(*paths), {'alpha': ('10B', '10B'), 'beta': ('30B', '30B'), 'main': ('0', '40B')})
            tree = self.run_it('tree', *paths).decode()
            self.assertRegex(tree, r'10B +25.0% +alpha\n')
            self.assertRegex(tree, r'30B +75.0% +beta\n')
        difference = self.file('difference', self.run_it('diff', '--negative=keep', alpha, beta))
        self.assertEqual(self.in_use('--type', 'alloc_space', difference), {'beta': '30B', 'alpha': '-10B', 'main': '0'})

    def process(self, pid, *ticks, ended):
        """Writes one file a tick, with what is in use; the last one may say that the process ended."""
        return [self.file('server.%d.%04d.heap.pb.gz' % (pid, i + 1), [(['f'], [1, 10, 1, n_bytes])], time_ns=i,
                          comment='#ended' if ended and i == len(ticks) - 1 else None)
                for i, n_bytes in enumerate(ticks)]

    def in_use(self, *arguments):
        return {name: flat for name, (flat, _) in self.names(*arguments).items()}

    def test_memory_of_an_ended_process_is_not_in_use(self):
        files = self.process(7, 1000, 30, ended=True) + self.process(8, 4, ended=False) + self.process(9, 5, ended=False)
        for order in files, files[::-1]:
            self.assertEqual(self.in_use(*order), {'f': '9B'})
            self.assertIn('Type: inuse_space, in use by 2 processes, from the newest file of each (of 4 files; '
                          '1 process ended)', self.head)
            self.assertEqual(self.in_use('--type', 'alloc_space', *order), {'f': '40B'})

    def ticks(self, pid, *ticks, start=0, ended=True, marks=None):
        """One file a second; the last one says that the process ended, after its destructors, unless marks say otherwise."""
        marks = marks or [None] * (len(ticks) - ended) + ['#ended'] * ended
        return [self.file('server.%d.%04d.heap.pb.gz' % (pid, i + 1), [(['f'], [1, 10, 1, n_bytes])], time_ns=(start + i) * 10**9 + 10**18,
                          duration_ns=10**9, comment=mark) for i, (n_bytes, mark) in enumerate(zip(ticks, marks))]

    def test_of_ended_processes_the_peak_of_their_sum_is_in_use(self):
        files = self.ticks(7, 10, 90, 20, 0) + self.ticks(8, 1, 2, 100, 0, start=1)  # 10, 91, 22, 100, 0
        for order in files, files[::-1]:
            self.assertEqual(self.in_use(*order), {'f': '100B'})
            self.assertIn('Type: inuse_space, in use by 2 processes at the peak of the sum, 2001-09-09 01:46:44 UTC (of 8 files; '
                          'all have ended, each with at most 100B in use)', self.head)
            self.assertEqual(self.in_use('--at', 'peak', *order), {'f': '100B'})
            self.assertEqual(self.in_use('--at', 'end', *order), {'f': '22B'})
            self.assertEqual(self.in_use('--at', 'last', *order), {})
            self.assertEqual(self.names('--type', 'alloc_space', *order), {'f': ('80B', '80B')})
            self.assertIn('Type: alloc_space, summed over 8 files', self.head)

    def test_the_last_file_of_a_killed_process_is_a_tick_as_others_are(self):
        for i, mark in enumerate((['#ended', '#killed', '#tables'], ['#ended', '#exit'])):  # by a signal that no handler sees, and by another
            files = self.ticks(20 + i, 10, 90, 4, 190, marks=[None, None, None, mark])
            for order in files, files[::-1]:
                self.assertEqual(self.in_use(*order), {'f': '190B'})
                self.assertIn('it has ended, with 190B in use)', self.head[1])
                self.assertEqual(self.in_use('--at', 'end', *order), {'f': '190B'})
                self.assertIn('10B -> 190B in all', self.run_it('growth', *order).decode())
                self.assertIn('190B in use, 4 files', self.run_it('leaks', *order).decode())

    def test_two_runs_one_after_the_other_are_never_added(self):
        files = self.ticks(7, 10, 40, 30, 1) + self.ticks(8, 30, 35, 32, 2, start=4)
        for order in files, files[::-1]:
            self.assertEqual(self.in_use(*order), {'f': '40B'})
            self.assertIn('all have ended, each with at most 32B in use)', self.head[1])
            self.assertEqual(self.in_use('--at', 'end', *order), {'f': '32B'})
            self.assertEqual(self.in_use('--at', 'last', *order), {'f': '2B'})

    def test_of_living_processes_the_newest_file_is_in_use(self):
        files = self.ticks(7, 10, 90, 20, 0) + self.ticks(8, 60, 5, 6, ended=False)
        self.assertEqual(self.in_use(*files), {'f': '6B'})
        self.assertEqual(self.in_use('--at', 'peak', *files), {'f': '95B'})

    def test_a_process_that_was_killed_has_ended(self):
        """Its files do not say so; but on this machine no such process is left."""
        here = subprocess.run([DELTAPROF, 'run', '-o', f'heap_rate=1,interval=50ms,out={self.dir.name}', '--', sys.executable, '-c',
                               'import os, time\nfor i in range(60): x = bytearray(1 << 16 << i % 5); time.sleep(.01)\nos.kill(os.getpid(), 9)'])
        self.assertEqual(here.returncode, -9)
        self.top(self.dir.name)
        self.assertRegex(self.head[1], 'in use by 1 process at its peak, .* ended, with ')

    def test_ticks_while_destructors_run_are_not_the_end(self):
        comments = None, '#exit', None, None, '#ended'
        for base in 'server.7.%04d.heap.pb.gz', 'other%d':
            files = [self.file(base % (i + 1), [(['f'], [1, 10, 1, n])], time_ns=i, comment=comment)
                     for i, (n, comment) in enumerate(zip((99, 90, 60, 20, 1), comments))]
            for order in files, files[::-1], files[2:] + files[:2]:
                self.assertEqual(self.in_use(*order), {'f': '99B'})
                self.assertEqual(self.in_use('--at', 'end', *order), {'f': '90B'})
                self.assertEqual(self.in_use('--at', 'last', *order), {'f': '1B'})
        for comments, at_end in ((None, '#exit'), '20B'), ((None, '#ended'), '10B'), (('#exit', '#ended'), '10B'), ((None, None), '20B'):
            files = [self.file('s.7.%04d.heap.pb.gz' % (i + 1), [(['f'], [1, 10, 1, 10 * (i + 1)])], time_ns=i, comment=c) for i, c in enumerate(comments)]
            self.assertEqual(self.in_use('--at', 'end', *files), {'f': at_end}, comments)

    def test_files_of_other_names_may_say_that_their_process_ended(self):
        a = self.file('a', [(['f'], [1, 10, 1, 7])], time_ns=5)
        b = self.file('b', [(['f'], [1, 10, 1, 1])], time_ns=9, comment='#ended')
        c = self.file('c', [(['f'], [1, 10, 1, 100])], time_ns=1, program='/usr/bin/other')
        for order in [a, b, c], [c, b, a]:
            self.assertEqual(self.in_use(*order), {'f': '100B'})
        for order in [a, b], [b, a]:
            self.assertEqual(self.in_use(*order), {'f': '7B'})
        self.assertEqual(self.in_use(b), {'f': '1B'})

    def test_inherited_memory_counts_once(self):
        def rows(own):
            return [(['f'], [1, own, 1, own]), (['f'], [0, 0, 1, 1000], {'fork': 'inherited'})]
        parent = self.file('server.1.0001.heap.pb.gz', [(['f'], [1, 1000, 1, 1000])])
        children = [self.file('server.%d.0001.heap.pb.gz' % pid, rows(pid)) for pid in (2, 3)]
        files = [parent, *children]
        self.assertEqual(self.in_use(*files), {'f': '1005B'})
        self.assertIn('Left out: what 2 of them inherited at a fork (--inherited counts it)', self.head)
        self.assertEqual(self.in_use('--inherited', *files), {'f': '2.93kB'})
        self.assertEqual(self.in_use('--label', 'fork=inherited', *files), {'f': '1.95kB'})
        self.assertEqual(self.in_use(children[0]), {'f': '1002B'})
        merged = self.file('merged', self.run_it('merge', *files))
        self.assertEqual(self.in_use(merged), {'f': '1005B'})
        merged = self.file('merged', self.run_it('merge', '--inherited', *files))
        self.assertEqual(self.in_use(merged), {'f': '2.93kB'})

    def test_a_merged_profile_has_ended_if_all_have(self):
        ended, going_on = self.process(7, 3, ended=True), self.process(8, 4, ended=False)
        for files, says in (ended, True), (going_on, False), (ended + going_on, False):
            self.assertEqual(b'#ended' in gzip.decompress(self.run_it('merge', *files)), says)

    def test_files_with_other_names_are_ordered_by_time_and_program(self):
        a = self.file('a', [(['f'], [1, 10, 1, 7])], time_ns=5)
        b = self.file('b', [(['f'], [1, 10, 1, 1])], time_ns=9)
        c = self.file('c', [(['f'], [1, 10, 1, 100])], time_ns=1, program='/usr/bin/other')
        for order in [a, b, c], [c, b, a]:
            self.assertEqual(self.names(*order), {'f': ('101B', '101B')})
            self.assertEqual(self.names('--type', 'alloc_space', *order), {'f': ('30B', '30B')})

    def test_every_program_is_named(self):
        files = [self.file('p%d' % i, [(['f'], [1, 1, 1, 1])], program='/bin/p%d' % (i // 2)) for i in range(20)]
        for n, line in {1: 'Program: p0', 2: 'Program: p0', 3: 'Programs: p0, p1',
                        16: 'Programs: p0, p1, p2, p3, p4, p5, p6, p7',
                        17: 'Programs: p0, p1, p2, p3, p4, p5, p6 and 2 more'}.items():
            self.top(*files[:n])
            self.assertEqual(self.head[0], line)

    def test_a_program_has_the_name_in_its_files_names(self):
        self.top(self.file('redis-server.7.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])], program='/usr/bin/redis-check-rdb'))
        self.assertEqual(self.head[0], 'Program: redis-server')
        self.top(self.file('redis-server.x.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])], program='/usr/bin/redis-check-rdb'))
        self.assertEqual(self.head[0], 'Program: redis-check-rdb')

    def test_of_directories_and_globs_one_kind_is_taken(self):
        self.files_of_two_processes()
        self.file('server.8.0001.block.pb.gz', [(['w'], [1, 9])], MUTEX)
        self.file('server.8.0001.mutex.pb.gz', [(['h'], [1, 9])], MUTEX)
        self.file('merged.pb.gz', [(['f'], [100, 100, 100, 100])])
        self.file('server.8.0002.heap.pb.gz.123.tmp', b'half')
        for path in self.dir.name, self.dir.name + '/', self.dir.name + '/server.*.pb.gz':
            self.assertEqual(self.names('--type', 'alloc_space', path), {'f': ('100B', '100B')})
            self.assertIn('There are other profiles too: --kind block, mutex', self.head)
            self.assertEqual(self.names('--type', 'delay', path), {'w': ('9ns', '9ns')})
            self.assertEqual(self.names('--kind', 'mutex', path), {'h': ('9ns', '9ns')})
        self.run_it('top', '--kind', 'events', self.dir.name, status=1)
        self.assertEqual(self.error, f'deltaprof top: {self.dir.name}: no events profile; there are: heap, block, mutex\n')
        os.mkdir(self.dir.name + '/none')
        self.run_it('top', self.dir.name + '/none', status=1)
        self.assertIn('/none: no profile in this directory', self.error)
        self.run_it('top', self.dir.name + '/x*', status=1)
        self.assertIn('/x*: no such file', self.error)

    def test_values_are_counted_by_process(self):
        for pid, n in (7, 10), (8, 30), (9, 60):
            for i in 1, 2:
                self.file(f'worker.{pid}.{i:04}.heap.pb.gz', [(['f', 'main'], [1, 1000, n, n * 1000 * i]), (['g', 'main'], [1, pid, 0, 0])],
                          time_ns=10**18 + i * 10**9)
        self.assertEqual(self.names('--by', 'process', self.dir.name),
                         {f'worker {pid}': (f'{v}kB', f'{v}kB') for pid, v in ((7, '19.53'), (8, '58.59'), (9, '117.19'))})
        self.assertIn('Showing 3 of 3 processes: ', ' '.join(self.head))
        self.names('--by', 'process', '--label', 'process=worker 8', self.dir.name)
        self.assertIn('Showing 1 of 1 process: ', ' '.join(self.head))
        self.assertEqual(self.names('--by', 'process', '--type', 'alloc_space', self.dir.name),
                         {f'worker {pid}': (f'{v}kB',) * 2 for pid, v in ((7, '1.97'), (8, '1.97'), (9, '1.97'))})
        self.assertEqual(self.names('--label', 'process=worker 8', '--type', 'alloc_space', self.dir.name), {'f': ('1.95kB', '1.95kB'), 'g': ('16B', '16B'), 'main': ('0', '1.97kB')})
        text = self.run_it('growth', '--by', 'process', self.dir.name).decode()
        self.assertRegex(text, r'\+58.59kB  58.59kB -> 117.19kB.*\n +worker 9\n')
        self.assertEqual(text.count('worker '), 3)
        self.run_it('growth', '--by', 'line', self.dir.name, status=2)
        self.run_it('top', '--label', 'process=worker 1', self.dir.name, status=1)
        self.assertIn('there are: process=worker 7, process=worker 8', self.error)

    def test_two_containers_with_one_pid_in_a_directory_are_two_processes(self):
        """Files say in their gzip header who wrote them (src/pprof/stamp.h)."""
        for seq, (stamp, n) in enumerate(((0x1234abcd, 1000), (0x99990007, 300), (0x1234abcd, 2000), (0x99990007, 700)), 1):
            plain = profile([(['f', 'main'], [1, 1, 1, n])], time_ns=10**18 + seq * 10**9)
            field = b'DP\x10\0' + struct.pack('<QQ', 1, stamp)
            self.file(f'server.1.{seq:04}.heap.pb.gz', plain[:3] + b'\4' + plain[4:10] + struct.pack('<H', len(field)) + field + plain[10:])
        self.file('server.2.0001.heap.pb.gz', [(['f', 'main'], [1, 1, 1, 50])], time_ns=10**18 + 4 * 10**9)
        sizes = {'server 1/abcd': '1.95kB', 'server 1/0007': '700B', 'server 2': '50B'}
        self.assertEqual(self.names('--by', 'process', self.dir.name), {name: (size, size) for name, size in sizes.items()})
        self.names('--label', 'process=server 1/0007', self.dir.name)
        self.assertIn('Showing 2 of 2 functions: 700B of 700B', ' '.join(self.head))
        text = self.run_it('growth', '--by', 'process', self.dir.name).decode()
        self.assertRegex(text, r'\+1000B  1000B -> 1.95kB.*\n +server 1/abcd\n')
        self.assertRegex(text, r'\+400B  300B -> 700B.*\n +server 1/0007\n')

    def test_the_kind_of_a_file_with_another_name_is_that_of_its_content(self):
        heap = self.file('heap-of-block', [(['f'], [1, 1, 1, 7])])
        lock = self.file('other.pb.gz', [(['w'], [1, 9])], MUTEX)
        for order in [heap, lock], [lock, heap]:
            self.assertEqual(self.in_use(*order), {'f': '7B'})
            self.assertIn('There are other profiles too: --kind lock', self.head)
            for kind in 'block', 'mutex', 'lock':
                self.assertEqual(self.in_use('--kind', kind, *order), {'w': '9ns'})
            self.assertEqual(self.in_use('--kind', 'heap', *order), {'f': '7B'})
        self.assertEqual(self.in_use('--kind', 'heap', heap), {'f': '7B'})
        self.run_it('top', '--kind', 'heap', lock, status=1)
        self.assertEqual(self.error, f'deltaprof top: {lock}: no heap profile; there are: lock\n')

    def test_at_chooses_the_files_of_that_time(self):
        def one(name, inuse, time, **more):
            return self.file(name, [(['f'], [1, 1, 1, inuse])], time_ns=(10**9 + time) * 10**9, **more)
        one('a.1.0001.heap.pb.gz', 10, 1, comment='5 stacks were cut short')
        one('a.1.0002.heap.pb.gz', 90, 2)
        one('a.1.0003.heap.pb.gz', 20, 3)
        one('b.2.0001.heap.pb.gz', 1, 0)
        one('b.2.0002.heap.pb.gz', 50, 3)
        for when, sum in {'peak': '91B', 'last': '70B', '2001-09-09 01:46:41': '11B', '01:46:42': '91B', '01:47': '70B'}.items():
            self.assertEqual(self.names('--at', when, self.dir.name), {'f': (sum, sum)}, when)
        for when, is_lost in {'01:46:41': True, '01:46:42': False}.items():
            self.assertEqual(b'Lost: 5 stacks' in self.run_it('top', '--at', when, self.dir.name), is_lost, when)
        self.run_it('top', '--at', 'exit', self.dir.name, status=2)
        self.run_it('top', '--at', '2000-01-01 00:00', self.dir.name, status=1)
        self.assertIn('no process has a file of that time', self.error)
        self.assertIn('the first is later', self.error)
        one('a.1.0004.heap.pb.gz', 20, 4, comment='#ended')
        one('b.2.0003.heap.pb.gz', 20, 4, comment='#ended')
        self.assertEqual(self.names('--at', '01:46:44', self.dir.name), {'f': ('40B', '40B')})  # the second of the ends
        for when in '01:46:45', '2001-09-10 01:00', '9999-12-31 23:59:59':
            self.run_it('top', '--at', when, self.dir.name, status=1)
            self.assertIn('all had ended', self.error)
        for when in 'noon', '2001-02-30 10:00', '2001-09-31 10:00':
            self.run_it('top', '--at', when, self.dir.name, status=2)

    def test_a_file_that_is_not_there_has_no_kind(self):
        self.run_it('top', '--kind', 'block', self.dir.name + '/nothing', status=1)
        self.assertEqual(self.error, 'deltaprof top: %s/nothing: No such file or directory\n' % self.dir.name)

    def test_commands_to_copy_have_their_path_in_quotes(self):
        for name, shown in {'plain.d': 'plain.d', 'two words': "'two words'", "it's": "'it'\\''s'",
                            'x\x1b[31m\u202ey': "'x?[31m???y'"}.items():
            os.mkdir(os.path.join(self.dir.name, name))
            self.file(name + '/a.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
            directory = os.path.join(self.dir.name, name)
            for verb in ('growth',):
                shown_path = os.path.join(self.dir.name, shown) if shown == name else "'" + self.dir.name + '/' + shown[1:]
                self.assertIn(shown_path + '\n', self.run_it(verb, directory).decode())


if __name__ == '__main__':
    unittest.main()
