# SPDX-License-Identifier: MIT
"""`deltaprof waits`, and chains of waiters and holders in merged profiles.

    test_waits.py DELTAPROF
"""
import json
import os
import shutil
import subprocess
import unittest

from by_hand import Case, chain
from random_profile import MUTEX

SERVE, REPLY, CHECKPOINT = ['lock_it', 'serve', 'main'], ['reply', 'main'], ['checkpoint', 'timer']


class Waits(Case):
    def waits(self, *arguments):
        found = json.loads(self.run_it('waits', '--json', *arguments))
        self.assertEqual(found['unit'], 'nanoseconds')
        return found['total'], [(p['ns'], p['unlocks'], p['waiter'], p['holder']) for p in found['pairs']]

    def two(self):
        return [self.file('server.7.0001.chain.pb.gz', [chain(1, 1000, SERVE, CHECKPOINT, lock='mutex'), chain(2, 5000, REPLY, SERVE, lock='gil')], MUTEX, 10**18, 10),
                self.file('server.7.0002.chain.pb.gz', [chain(4, 7000, SERVE, CHECKPOINT, lock='mutex')], MUTEX, 10**18 + 10, 10)]

    def one(self, *rows):
        return self.file('one.chain.pb.gz', rows, MUTEX, comment='Type: chain: who waited for whom')

    ALL = 13000, [(8000, 5, SERVE, CHECKPOINT), (5000, 2, REPLY, SERVE)]

    def test_pairs_are_summed_over_files(self):
        files = self.two()
        self.assertEqual(self.waits(*files), self.ALL)
        self.assertEqual(self.waits(self.dir.name), self.ALL)
        self.assertEqual(self.waits('-n1', *files), (13000, self.ALL[1][:1]))

    def test_the_text_names_the_waiter_and_below_it_the_holder(self):
        self.assertEqual(self.run_it('waits', *self.two()).decode(), '''\
     delay   share  unlocks
       8us   61.5%        5  lock_it < serve < main
                             held by checkpoint < timer
       5us   38.5%        2  reply < main
                             held by lock_it < serve < main
''')

    def test_a_pair_has_the_lock_of_its_longest_row(self):
        path = self.one(chain(1, 9, SERVE, CHECKPOINT, lock='mutex', lock_at='cache_lock'), chain(1, 8, SERVE, CHECKPOINT, lock='mutex', lock_at='table_lock'),
                        chain(1, 5, REPLY, CHECKPOINT, lock='mutex', lock_at='several locks, the longest wait for parts'), chain(1, 4, REPLY, SERVE, lock='mutex'))
        self.assertEqual([line.strip() for line in self.run_it('waits', path).decode().split('\n') if 'lock: ' in line],
                         ['lock: cache_lock, and others', 'lock: several locks, the longest wait for parts'])
        self.assertEqual([p['lock_at'] for p in json.loads(self.run_it('waits', '--json', path))['pairs']],
                         ['cache_lock', 'several locks, the longest wait for parts', ''])

    def test_stacks_end_where_the_program_or_the_thread_starts(self):
        path = self.one(chain(1, 9, ['serve', 'loop', 'start_thread', '__clone3'], ['hold', 'main', '__libc_start_call_main', '_start']),
                        chain(1, 5, ['_start'], ['start_thread', '_start']))
        self.assertEqual(self.run_it('waits', path).decode().split('\n')[1:5], [
            '       9ns   64.3%        1  serve < loop', '                             held by hold < main',
            '       5ns   35.7%        1  _start', '                             held by start_thread'])

    def test_places_without_a_name_are_left_out_behind_the_leaf(self):
        path = self.one(chain(1, 9, ['server+0x1', 'server+0x2f', 'handle', 'server+0x3', 'main'], ['a+0xg', 'b+0x', 'c']))
        self.assertEqual(self.run_it('waits', path).decode().split('\n')[1:3], [
            '       9ns  100.0%        1  server+0x1 < handle < main < 2 more', '                             held by a+0xg < b+0x < c'])

    def test_what_was_inlined_at_a_holder_stands_before_its_function(self):
        path = self.one(chain(1, 9, [('inlined', 'serve'), 'main'], [('store', 'slow', 'work'), 'start']))
        self.assertEqual(self.waits(path), (9, [(9, 1, ['inlined', 'serve', 'main'], ['store', 'slow', 'work', 'start'])]))
        self.assertRegex(self.run_it('tree', path).decode(), r'main\s+serve\s+inlined\s+\[held by\]\s+store\s+slow\s+work\s+start\n')

    def test_only_chains_are_read(self):
        self.two()
        self.file('server.7.0001.mutex.pb.gz', [(CHECKPOINT, [1, 8000])], MUTEX, 10**18, 10)
        self.file('server.7.0001.block.pb.gz', [(SERVE, [1, 8000])], MUTEX, 10**18, 10)
        self.assertEqual(self.waits(self.dir.name), self.ALL)
        self.run_it('waits', '--kind', 'mutex', self.dir.name, status=2)
        self.assertIn('no --kind: waits shows chain profiles', self.error)

    def test_labels_are_those_of_the_waiter_and_of_the_lock(self):
        self.assertEqual(self.waits('--label', 'lock=gil', *self.two())[1], self.ALL[1][1:])

    def test_a_hand_over_has_no_holder_and_an_overflow_is_no_pair(self):
        path = self.one(chain(1, 9, SERVE, ['[hand-over]']), (['[overflow]'], [3, 70]), chain(2, 8, ['[unknown waiter]'], CHECKPOINT))
        self.assertEqual(self.waits(path), (17, [(9, 1, SERVE, ['[hand-over]']), (8, 2, ['[unknown waiter]'], CHECKPOINT)]))

    def test_filters_look_at_both_stacks(self):
        files = self.two()
        self.assertEqual(self.waits('--focus', '^timer$', *files)[1], self.ALL[1][:1])
        self.assertEqual(self.waits('--ignore', '^reply$', *files)[1], self.ALL[1][:1])
        self.assertEqual(self.waits('--focus', '^serve$', *files), self.ALL)
        self.assertEqual(self.waits('--hide', '^(serve|main)$', *files)[1],
                         [(8000, 5, ['lock_it'], CHECKPOINT), (5000, 2, ['reply'], ['lock_it'])])

    def test_merges_of_merges_and_differences_keep_the_chains(self):
        files = self.two()
        merged = self.dir.name + '/merged.pb.gz'
        self.run_it('merge', *files, '-o', merged)
        self.assertEqual(self.waits(merged), self.ALL)
        self.run_it('merge', merged, files[1], '-o', merged + '2')
        self.assertEqual(self.waits(merged + '2')[1][0], (15000, 9, SERVE, CHECKPOINT))
        with open(merged + '3', 'wb') as f:
            f.write(self.run_it('diff', files[0], merged))
        self.assertEqual(self.waits(merged + '3')[1], [(7000, 4, SERVE, CHECKPOINT)])

    @unittest.skipUnless(shutil.which('go'), 'no go')
    def test_go_tool_pprof_may_renumber_them(self):
        files = self.two()
        path = os.path.join(self.dir.name, 'renumbered')
        subprocess.run(['go', 'tool', 'pprof', '-proto', f'-output={path}', *files], check=True, capture_output=True, timeout=60,
                       env=dict(os.environ, PPROF_TMPDIR=self.dir.name))
        self.assertEqual(self.waits(path), self.ALL)

    def test_sums_stay_at_the_largest_number(self):
        most = (1 << 63) - 1
        files = [self.file(f'a.1.{i:04}.chain.pb.gz', [chain(most, most, ['a'], ['b'])], MUTEX, 10**18 + i, 10) for i in range(2)]
        self.assertEqual(self.waits(*files), (most, [(most, most, ['a'], ['b'])]))

    def test_without_pairs_the_next_command_is_named(self):
        files = self.two()
        text = self.run_it('waits', '--focus', 'nothing', *files).decode()
        self.assertEqual(text, f'no pairs of a waiter and a holder; where threads waited: deltaprof top --type delay {files[0]}\n')
        self.assertEqual(self.waits('--focus', 'nothing', *files), (0, []))

    def test_wrong_usage_is_one_line(self):
        path = self.file('none', [(['a'], [1, 1])], MUTEX)
        for arguments, words in ((['-n', 'x', path], '-n x is not a number'), ([], 'no file given')):
            self.run_it('waits', *arguments, status=2)
            self.assertIn(words, self.error)
            self.assertEqual(self.error.count('\n'), 1)
        for path in path, self.file('h.1.0001.heap.pb.gz', [(['a'], [1, 1, 1, 1])]):
            self.run_it('waits', path, status=1)
            self.assertIn('no chain profile; there are: ', self.error)

    def test_hostile_names_do_not_reach_the_terminal(self):
        path = self.one(chain(1, 5, ['\x1b[31m', 'a\u202eb'], ['c\nd']))
        text = self.run_it('waits', path).decode()
        self.assertEqual(text.count('\n'), 3)
        self.assertFalse([c for c in text if ord(c) < 32 and c != '\n' or c == '\u202e'], text)


if __name__ == '__main__':
    unittest.main()
