# SPDX-License-Identifier: MIT
"""`deltaprof waits`, and pairs of waiters and holders in merged profiles.

    test_waits.py DELTAPROF
"""
import gzip
import json
import unittest

from by_hand import Case
from random_profile import MUTEX

SERVE, REPLY, CHECKPOINT = ['lock_it', 'serve', 'main'], ['reply', 'main'], ['checkpoint', 'timer']


class Waits(Case):
    def waits(self, *arguments):
        found = json.loads(self.run_it('waits', '--json', *arguments))
        self.assertEqual(found['unit'], 'nanoseconds')
        return found['total'], [(p['ns'], p['unlocks'], p['waiter'], p['holder']) for p in found['pairs']]

    def two(self):
        rows = [(SERVE, [3, 3000], {'lock': 'mutex'})]
        return [self.file('server.7.0001.block.pb.gz', rows, MUTEX, 10**18, 10, pairs=[(1, 1000, SERVE, CHECKPOINT), (2, 5000, REPLY, SERVE)]),
                self.file('server.7.0002.block.pb.gz', rows, MUTEX, 10**18 + 10, 10, pairs=[(4, 7000, SERVE, CHECKPOINT)])]

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

    def test_stacks_end_where_the_program_or_the_thread_starts(self):
        path = self.file('p', [(SERVE, [3, 3000])], MUTEX, pairs=[
            (1, 9, ['serve', 'loop', 'start_thread', '__clone3'], ['hold', 'main', '__libc_start_call_main', '_start']), (1, 5, ['_start'], ['start_thread', '_start'])])
        self.assertEqual(self.run_it('waits', path).decode().split('\n')[1:5], [
            '       9ns   64.3%        1  serve < loop', '                             held by hold < main',
            '       5ns   35.7%        1  _start', '                             held by start_thread'])

    def test_places_without_a_name_are_left_out_behind_the_leaf(self):
        path = self.file('p', [(SERVE, [3, 3000])], MUTEX, pairs=[(1, 9, ['server+0x1', 'server+0x2f', 'handle', 'server+0x3', 'main'], ['a+0xg', 'b+0x', 'c'])])
        self.assertEqual(self.run_it('waits', path).decode().split('\n')[1:3], [
            '       9ns  100.0%        1  server+0x1 < handle < main < 2 more', '                             held by a+0xg < b+0x < c'])

    def test_the_two_kinds_of_profile_are_not_added_up(self):
        self.two()
        self.file('server.7.0001.mutex.pb.gz', [(CHECKPOINT, [1, 8000])], MUTEX, 10**18, 10, pairs=[(5, 8000, SERVE, CHECKPOINT)])
        self.assertEqual(self.waits(self.dir.name), self.ALL)
        self.assertEqual(self.waits('--kind', 'mutex', self.dir.name), (8000, self.ALL[1][:1]))

    def test_filters_look_at_both_stacks(self):
        files = self.two()
        self.assertEqual(self.waits('--focus', '^timer$', *files)[1], self.ALL[1][:1])
        self.assertEqual(self.waits('--ignore', '^reply$', *files)[1], self.ALL[1][:1])
        self.assertEqual(self.waits('--focus', '^serve$', *files), self.ALL)
        self.assertEqual(self.waits('--hide', '^(serve|main)$', *files)[1],
                         [(8000, 5, ['lock_it'], CHECKPOINT), (5000, 2, ['reply'], ['lock_it'])])

    def test_merge_keeps_pairs_and_diff_leaves_them_out(self):
        files = self.two()
        merged = self.dir.name + '/merged.pb.gz'
        self.run_it('merge', *files, '-o', merged)
        self.assertEqual(self.waits(merged), self.ALL)
        self.run_it('merge', merged, files[1], '-o', merged + '2')
        self.assertEqual(self.waits(merged + '2')[1][0], (15000, 9, SERVE, CHECKPOINT))
        self.assertNotIn(b'#pair', gzip.decompress(self.run_it('diff', *files)))

    def test_pairs_of_other_locations_are_left_out(self):
        """As of a program that merges profiles and keeps their comments."""
        good = '#pair n=1 ns=5 waiter=1,2 holder=3 locations=3'
        rows = [(['a', 'b', 'c'], [1, 1])]
        self.assertEqual(self.waits(self.file('good', rows, MUTEX, comment=good)), (5, [(5, 1, ['a', 'b'], ['c'])]))
        for broken in (good.replace('=3 ', '=4 '), good[:-1] + '4', good + '0', good + ' ', good.replace('1,2', '1,,2'), good.replace('1,2', '0'),
                       good.replace('1,2', ''), good.replace('n=1', 'n=-1'), good.replace('5', '9' * 30), good[:20], '#pair ', good.replace('1,2', '1' * 40)):
            with self.subTest(broken):
                path = self.file('broken', rows, MUTEX, comment=broken)
                self.assertEqual(self.waits(path), (0, []))
                self.assertNotIn(b'#pair', gzip.decompress(self.run_it('merge', path)))

    def test_sums_stay_at_the_largest_number(self):
        most = (1 << 63) - 1
        files = [self.file(f'{i}', [(['a'], [1, 1])], MUTEX, 10**18 + i, 10, pairs=[(most, most, ['a'], ['b'])]) for i in range(2)]
        self.assertEqual(self.waits(*files), (most, [(most, most, ['a'], ['b'])]))

    def test_without_pairs_the_next_command_is_named(self):
        path = self.file('none', [(['a'], [1, 1])], MUTEX)
        text = self.run_it('waits', path).decode()
        self.assertEqual(text, f'no pairs of a waiter and a holder; where threads waited: deltaprof top --type delay {path}\n')
        self.assertEqual(self.waits('--focus', 'nothing', *self.two()), (0, []))

    def test_wrong_usage_is_one_line(self):
        path = self.file('none', [(['a'], [1, 1])], MUTEX)
        for arguments, words in ((['-n', 'x', path], '-n x is not a number'), ([], 'no file given'), (['--label', 'lock=mutex', path], 'no labels')):
            self.run_it('waits', *arguments, status=2)
            self.assertIn(words, self.error)
            self.assertEqual(self.error.count('\n'), 1)
        self.run_it('waits', self.file('h.1.0001.heap.pb.gz', [(['a'], [1, 1, 1, 1])]), status=1)

    def test_hostile_names_do_not_reach_the_terminal(self):
        path = self.file('hostile', [(['\x1b[31m'], [1, 1])], MUTEX, pairs=[(1, 5, ['\x1b[31m', 'a\u202eb'], ['c\nd'])])
        text = self.run_it('waits', path).decode()
        self.assertEqual(text.count('\n'), 3)
        self.assertFalse([c for c in text if ord(c) < 32 and c != '\n' or c == '\u202e'], text)


if __name__ == '__main__':
    unittest.main()
