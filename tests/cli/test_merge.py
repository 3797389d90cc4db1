# SPDX-License-Identifier: MIT
"""`deltaprof merge`: merging merged files gives what merging their sources gives, wherever they are cut.

    test_merge.py DELTAPROF
"""
import os
import random
import unittest

import check_profile
from by_hand import Case
from random_profile import HEAP, MUTEX, meaning

CPU = [('samples', 'count'), ('cpu', 'nanoseconds')]
WALL = [('samples', 'count'), ('wall', 'nanoseconds')]
WASTE = [*HEAP, ('resident_space', 'bytes'), ('idle_space', 'bytes')]
EVENTS = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('contentions', 'count'), ('delay', 'nanoseconds')]
KINDS = {'heap': HEAP, 'block': MUTEX, 'mutex': MUTEX, 'chain': MUTEX, 'cpu': CPU, 'wall': WALL, 'waste': WASTE, 'events': EVENTS}
TITLES = {'mutex': 'Type: mutex: who made others wait', 'block': 'Type: block: where threads waited', 'chain': 'Type: chain: who waited for whom'}


class Merge(Case):
    def sources(self, rng, kind='heap'):
        """Files of some processes that live one after the other, or at the same time; some end, some are children."""
        types = KINDS[kind]
        paths = []
        for pid in range(7, 7 + rng.randrange(1, 4)):
            start, n = rng.randrange(6), rng.randrange(1, 7)
            for i in range(n):
                rows = [(['f%d' % i for i in range(5)], [0] * len(types))]  # so that a function has the same address in all files
                rows += [([('f%d' % rng.randrange(5)) for _ in range(rng.randrange(1, 4))],
                         [rng.choice([0, 0, 5, 300, 40000]) if i % 2 else rng.randrange(5) for i in range(len(types))],
                         rng.choice([{}, {}, {'fork': 'inherited'} if kind in ('heap', 'waste') else {'lock': 'mutex'},
                                     {'end_timestamp_ns': 10**18 + rng.randrange(5)} if kind == 'events' else {'k': 'v', 'n': 5}])) for _ in range(rng.randrange(6))]
                marks = [None, '#exit', '#ended'] if i == n - 1 else [None, None, None, '#exit']
                paths.append(self.file('server.%d.%04d.%s.pb.gz' % (pid, i + 1, 'heap' if kind == 'waste' else kind), rows, types, 10**18 + (start + i) * 10**9, 10**9,
                                       comment=[c for c in (TITLES.get(kind), rng.choice(marks)) if c]))
        return paths

    def merged(self, name, paths, *options):
        out = os.path.join(self.dir.name, name)
        self.run_it('merge', *options, *paths, '-o', out)
        return out

    def of(self, path):
        with open(path, 'rb') as f:
            return meaning(f.read())

    def check_cuts(self, rng, kind, choices):
        paths = self.sources(rng, kind)
        rng.shuffle(paths)
        options = rng.choice(choices)
        whole = self.of(self.merged('whole', paths, *options))
        cuts = sorted(rng.randrange(len(paths) + 1) for _ in range(rng.randrange(1, 4)))
        parts = [p for a, b in zip([0, *cuts], [*cuts, len(paths)]) if (p := paths[a:b])]
        merged = [self.merged('part%d' % i, part, *rng.choice(choices[:1] + [c for c in choices if 'peak' in c])) if rng.random() < .8 or len(part) > 1 else part[0]
                  for i, part in enumerate(parts)]
        rng.shuffle(merged)
        self.assertEqual(self.of(self.merged('again', merged, *options)), whole, (options, parts))
        for path in paths:
            os.unlink(path)

    def test_merged_files_can_be_merged_at_every_cut(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                self.check_cuts(random.Random(seed), 'heap', [[], [], ['--inherited'], ['--at', 'peak'], ['--at', 'end'], ['--at', 'last']])

    def test_so_can_those_of_every_other_kind(self):
        for kind in KINDS:
            for seed in range(0 if kind == 'heap' else 4):
                with self.subTest(kind=kind, seed=seed):
                    self.check_cuts(random.Random(seed), kind, [[], ['--at', 'peak']] if kind == 'waste' else [[]])

    def test_of_a_process_whose_parts_are_merged_the_newest_counts(self):
        """The last file is after the destructors, and says that the process ended."""
        files = [self.file('server.7.%04d.heap.pb.gz' % (i + 1), [(['f'], [1, 10, 1, n << 20])], time_ns=10**18 + i, comment=c)
                 for i, (n, c) in enumerate(((5, None), (10, None), (20, None), (30, None), (1, '#ended')))]
        for cut in range(1, 5):
            a, b = self.merged('g1', files[:cut]), self.merged('g2', files[cut:])
            for paths in (a, b), (b, a), (a, *files[cut:]), (*files[:cut], b):
                self.assertIn('30MB of 30MB', self.run_it('top', *paths).decode(), (cut, paths))

    def test_a_merged_file_says_of_which_time_its_memory_in_use_is(self):
        def one(pid, seq, n, comment=None):
            return self.file('server.%d.%04d.heap.pb.gz' % (pid, seq), [(['f'], [1, 10, 1, n])], time_ns=10**18 + seq * 10**9, comment=comment)
        files = [one(7, 1, 5), one(7, 2, 50), one(8, 2, 4), one(7, 3, 1, '#ended'), one(8, 3, 1, '#ended')]
        for paths, comment, line in (
                (files, '#in-use-at 1000000002000000000, the peak of 2 processes', 'in use at the peak of 2 processes, 2001-09-09 01:46:42 UTC'),
                (files[:2], '#in-use-at 1000000002000000000, the newest profile of 1 process', 'in use at the newest profile of 1 process, 2001-09-09 01:46:42 UTC')):
            out = self.merged('out', paths)
            self.assertIn(comment, check_profile.reader.Profile(*check_profile.reader.read(out)[::2]).comments)
            self.assertIn('Type: inuse_space, ' + line, self.run_it('top', out).decode())

    def test_other_readers_skip_the_states_of_other_times(self):
        files = [self.file('server.7.%04d.heap.pb.gz' % (i + 1), [(['f', 'main'], [1, 10, 1, i + 1])], time_ns=10**18 + i) for i in range(3)]
        out = self.merged('out', files)
        self.assertEqual(check_profile.go_sums([out]) or {'alloc_objects': 3, 'alloc_space': 30, 'inuse_objects': 1, 'inuse_space': 3},
                         {'alloc_objects': 3, 'alloc_space': 30, 'inuse_objects': 1, 'inuse_space': 3})
        for path in self.merged('again', [out]), os.path.join(self.dir.name, 'converted.pb.gz'):
            if not os.path.exists(path):
                self.run_it('convert', out, '-o', path)
            self.assertEqual(self.of(path), self.of(out))

    def test_a_file_that_cannot_be_made_is_said_in_one_line(self):
        path = self.file('server.7.0001.heap.pb.gz', [(['f', 'main'], [1, 10, 1, 10])])
        for verb in (['merge'], ['diff', path]):
            for out, why in (('/nonexistent/out', 'No such file or directory'), (self.dir.name, 'Is a directory')):
                self.run_it(*verb, path, '-o', out, status=1)
                self.assertEqual(self.error, f'deltaprof {verb[0]}: {out}: {why}\n')
        self.assertEqual(os.listdir(self.dir.name), ['server.7.0001.heap.pb.gz'])


if __name__ == '__main__':
    unittest.main()
