# SPDX-License-Identifier: MIT
"""`deltaprof growth` and `deltaprof check` on profiles made by hand.

    test_growth.py DELTAPROF
"""
import gzip
import json
import random
import unittest

from by_hand import Case, profile
from random_profile import MUTEX, chunk, number, parse


class Growth(Case):
    def growth(self, *arguments):
        return json.loads(self.run_it('growth', '--json', *arguments))

    def pair(self):
        return (self.file('old', [(['a', 'main'], [1, 5, 1, 100]), (['b', 'main'], [1, 5, 1, 50]), (['same'], [1, 1, 1, 7])]),
                self.file('new', [(['a', 'main'], [1, 9, 1, 400]), (['c', 'main'], [1, 5, 1, 10]), (['same'], [1, 1, 1, 7])],
                          program='/usr/bin/other-build'))

    def test_two_profiles_are_compared_by_the_names_of_their_functions(self):
        old, new = self.pair()
        found = self.growth(old, new)
        self.assertEqual((found['unit'], found['total'], found['before'], found['after']), ('bytes', 260, 157, 417))
        self.assertEqual([(row['name'], row['before'], row['after'], row['growth'], row['stack']) for row in found['rows']],
                         [('a', 100, 400, 300, ['a', 'main']), ('b', 50, 0, -50, ['b', 'main']), ('c', 0, 10, 10, ['c', 'main'])])
        self.assertEqual([row['growth'] for row in self.growth('--type', 'alloc_space', old, new)['rows']], [5, -5, 4])
        self.assertEqual([row['name'] for row in self.growth('--ignore', '^a$', '-n1', old, new)['rows']], ['b'])

    def test_numbers_in_the_text_have_signs(self):
        self.assertEqual(self.run_it('growth', *self.pair()).decode(), '''\
From %s to %s (inuse_space)
     +260B  157B -> 417B in all

     +300B  100B -> 400B
            a
            main
      -50B  50B -> 0
            b
            main
      +10B  0 -> 10B
            c
            main
''' % tuple(self.dir.name + '/' + name for name in ('old', 'new')))

    def ticks(self, name, curves, start=10**9):
        for i in range(len(next(iter(curves.values())))):
            self.file('%s.%04d.heap.pb.gz' % (name, i + 1), [([f, 'main'], [1, 1, 1, values[i]]) for f, values in curves.items() if values[i]],
                      time_ns=(start + 60 * i) * 10**9)

    def test_a_directory_has_a_slope_and_its_steadiness(self):
        self.ticks('a.1', {'up': [100 * i for i in range(1, 62)], 'jumps': [1000 + 500 * (i % 2) for i in range(61)], 'flat': [9] * 61})
        rows = {row['name']: row for row in self.growth(self.dir.name)['rows']}
        self.assertEqual(set(rows), {'up'})
        self.assertEqual((rows['up']['before'], rows['up']['after'], rows['up']['steadiness']), (100, 6100, 1))
        self.assertAlmostEqual(rows['up']['per_hour'], 6000, delta=60)

    def test_one_tick_cannot_be_compared(self):
        self.ticks('a.1', {'f': [1]})
        self.assertEqual(self.run_it('growth', self.dir.name).decode(), f'''\
In use (inuse_space): 1 file, nothing to compare
No process has two ticks. A shorter interval makes more:
deltaprof run -o interval=10ms -- COMMAND
What is there: deltaprof top {self.dir.name}
''')

    def test_filters_that_leave_nothing_are_named(self):
        self.ticks('a.1', {'up': [100 * i for i in range(1, 9)]})
        for verb in 'growth', 'leaks':
            self.assertRegex(self.run_it(verb, '--focus', 'nosuch', self.dir.name).decode(), '--label, --focus, --ignore or --hide leave')
            self.assertNotIn('--focus', self.run_it(verb, self.dir.name).decode())

    def test_another_type_or_kind_of_a_directory_is_refused(self):
        self.ticks('a.1', {'f': [1, 2]})
        for words in (('--type', 'alloc_space'), ('--kind', 'block'), ('--at', 'peak')):
            self.run_it('growth', *words, self.dir.name, status=2)
            self.assertIn('OLD NEW', self.error)

    def test_processes_are_summed(self):
        self.ticks('a.1', {'f': [10, 20, 30]})
        self.ticks('a.2', {'f': [1, 2, 3]})
        self.assertEqual([(row['before'], row['after']) for row in self.growth(self.dir.name)['rows']], [(11, 33)])

    def test_kinds_that_have_nothing_in_common_are_refused(self):
        self.run_it('growth', self.pair()[0], self.file('m', [(['f'], [1, 1])], MUTEX), status=1)
        self.assertEqual(self.error.count('\n'), 1)


class Check(Case):
    def with_total(self, name, rows, total, period=524288):
        data = gzip.decompress(profile(rows))
        data += chunk(6, b'#allocated %d' % total) + number(13, len(parse(data).string_table)) + number(12, period)
        return self.file(name, gzip.compress(data))

    def test_more_than_the_budget_is_status_1_with_three_stacks(self):
        old = self.file('old', [(['f%d' % i, 'main'], [1, 1000, 0, 0]) for i in range(9)])
        new = self.file('new', [(['f%d' % i, 'main'], [1, 1000 + 10 * i, 0, 0]) for i in range(9)])
        out = self.run_it('check', '--max-growth', '3%', old, new, status=1).decode()
        self.assertEqual(out.splitlines()[0], 'alloc_space: 8.79kB -> 9.14kB, +4.00%, budget 3%: over budget')
        self.assertEqual([line.split()[0] for line in out.splitlines()[1:] if line.startswith('    ')],
                         ['+80B', 'f8', 'main', '+70B', 'f7', 'main', '+60B', 'f6', 'main'])
        self.run_it('check', '--max-growth', '5', old, new)
        self.run_it('check', '--max-growth', '0', new, old)
        self.run_it('check', '--max-growth', '0', old, old)

    def test_input_that_cannot_be_read_is_status_2(self):
        old = self.file('old', [(['f'], [1, 1, 1, 1])])
        for arguments in ['1%', old, old + 'x'], ['1%', old, self.file('broken', b'x')], ['1%', old], ['x', old, old], ['-1%', old, old]:
            self.run_it('check', '--max-growth', *arguments, status=2)
            self.assertRegex(self.error, r'\Adeltaprof check: .*\n\Z')
        self.run_it('check', old, old, status=2)
        for arguments in (['--max', '100M'], ['--max', '100x', old], ['--max', '1%', old], ['--max', '=1M', old], ['--max', 'cpu=0.2', old], ['--max', 'delay=5M', old], ['--max', 'inuse_space=5s', old], ['--max', 'nope=1M', old], ['--max', '9223372036854775808', old], ['--max', '99999999999G', old],
                          ['--max', '1M', old, old, old], ['--max-growth', 'leaks=1%', old, old]):
            self.run_it('check', *arguments, status=2)
            self.assertRegex(self.error, r'\Adeltaprof check: .*\n\Z', arguments)

    def ended(self, name, peak, left=0):
        """A process that frees all before it ends."""
        for i, n in enumerate((1, peak, left), 1):
            self.file(f'{name}/server.7.{i:04}.heap.pb.gz', [(['f', 'main'], [1, 100, 1, n])], time_ns=10**18 + i * 10**9, comment='#ended' if i == 3 else None)
        return f'{self.dir.name}/{name}'

    def test_memory_in_use_is_compared_at_the_peaks(self):
        old, new, none = self.ended('old', 1000), self.ended('new', 1500), self.ended('none', 0)
        out = self.run_it('check', '--max-growth', '5%', '--type', 'inuse_space', old, new, status=1).decode()
        self.assertEqual(out.splitlines()[0], 'inuse_space: 1000B -> 1.46kB, +50.00%, budget 5%: over budget')
        self.run_it('check', '--max-growth', 'inuse_space=60%', old, new)
        self.run_it('check', '--max', '2k', new)
        self.assertEqual(self.run_it('check', '--max', '1k', new, status=1), b'inuse_space: 1.46kB, at most 1kB: over budget\n')

    def test_nothing_against_nothing_is_status_2(self):
        one = self.file('one', [(['f'], [1, 1, 0, 0])])
        for arguments in ['--max-growth', 'inuse_space=5%', one, one], ['--max', '1M', self.file('empty', [])]:
            self.run_it('check', *arguments, status=2)
            self.assertIn('nothing to compare', self.error)

    def test_growth_that_chance_may_explain_is_status_3_unless_lenient(self):
        def rated(name, n):
            return self.file(name, gzip.compress(gzip.decompress(profile([(['f', 'main'], [0, 0, n, 4096 * n])])) + number(12, 524288)))
        old, new = rated('old', 10000), rated('new', 15500)
        out = self.run_it('check', '--max-growth', 'inuse_space=5%', old, new, status=3).decode()
        self.assertRegex(out, r'\Ainuse_space: .*, \+55.00%, budget 5%: not sure\nSampling alone makes up to \d+.\d+% of difference')
        self.run_it('check', '--lenient', '--max-growth', 'inuse_space=5%', old, new)
        self.run_it('check', '--max', '60M', new, status=3)
        self.run_it('check', '--max', '20M', new, status=1)

    def test_several_budgets_and_json(self):
        directory = self.ended('d', 5000)
        self.file('d/server.7.0001.block.pb.gz', [(['w'], [3, 5_000_000])], MUTEX)
        out = json.loads(self.run_it('check', '--json', '--max', '4k', '--max', '10ms', '--max', 'alloc_space=1k', '--max', 'leaks=0', directory, status=1))
        self.assertEqual([(b['type'], b['unit'], b['status']) for b in out['budgets']],
                         [('inuse_space', 'bytes', 1), ('delay', 'nanoseconds', 0), ('alloc_space', 'bytes', 0), ('leaks', 'bytes', 3)])
        self.assertEqual(out['status'], 1)
        self.assertEqual(out['budgets'][1]['value'], 5_000_000)
        both = json.loads(self.run_it('check', '--json', '--max-growth', '1%', '--max', '8k', directory, directory))
        self.assertEqual((both['status'], both['budgets'][0]['growth_percent']), (0, 0))
        refused = json.loads(self.run_it('check', '--json', '--max', '1ms', '--max', 'nope=1', directory, status=2))
        self.assertEqual(refused['status'], 2)
        self.assertEqual([b for b in refused['budgets'] if not b.get('unit', 'unknown') or not b.get('type', 'unknown')], [])
        self.assertEqual({'value', 'noise', 'unit'} & set(refused['budgets'][1]), set())

    def test_cores_are_of_the_time_and_not_of_its_sum_over_processes(self):
        for pid in 7, 8, 9:
            self.file(f'c/server.{pid}.0001.cpu.pb.gz', [(['f', 'main'], [100, 10**10 // 2])], [('samples', 'count'), ('cpu', 'nanoseconds')],
                      time_ns=10**18, duration_ns=10**10)
        self.assertIn(b'cores: 1.5, at most 1: over budget', self.run_it('check', '--max', 'cores=1', self.dir.name + '/c', status=1))

    def test_a_leak_breaks_a_budget_for_leaks(self):
        for i in range(1, 41):
            self.file(f'leak/server.7.{i:04}.heap.pb.gz', [(['leak', 'main'], [100, 10 << 20, 100 * i, i << 20]), (['fine', 'main'], [9, 900, 1, 100])],
                      time_ns=10**18 + i * 10 * 10**9, duration_ns=10**10)
        out = self.run_it('check', '--max', 'leaks=1M', self.dir.name + '/leak', status=1).decode()
        self.assertRegex(out, r'\Aleaks: 40MB, at most 1MB: over budget\n    leak\n\Z')

    def sampled(self, rng, n_blocks, size, rate):
        """A profile of n_blocks: each is sampled with its probability, and has the inverse of that as its weight."""
        p = 1 - 2.718281828459045 ** (-size / rate)
        n = sum(rng.random() < p for _ in range(n_blocks))
        return [(['f', 'main'], [round(n / p), round(n / p * size), 0, 0])]

    def test_counted_totals_show_one_percent_and_equal_runs_pass(self):
        rng = random.Random(7)
        n, size = 5000, 4096
        for i in range(20):
            old = self.with_total('old', self.sampled(rng, n, size, 524288), n * size)
            new = self.with_total('new', self.sampled(rng, n + n // 100, size, 524288), (n + n // 100) * size)
            self.run_it('check', '--max-growth', '1%', old, new, status=1)
        for i in range(100):
            new = self.with_total('new', self.sampled(rng, n, size, 524288), n * size)
            self.run_it('check', '--max-growth', '0.1%', old, new)

    def test_differences_of_estimates_within_chance_are_no_growth(self):
        rng = random.Random(7)
        for i in range(20):
            old, new = (self.file(name, gzip.compress(gzip.decompress(profile(self.sampled(rng, n, 4096, 524288))) + number(12, 524288)))
                        for name, n in (('old', 5000), ('new', 5000)))
            self.run_it('check', '--lenient', '--max-growth', '0.1%', old, new)
        new = self.file('new', gzip.compress(gzip.decompress(profile(self.sampled(rng, 50_000, 4096, 524288))) + number(12, 524288)))
        self.run_it('check', '--max-growth', '1%', old, new, status=1)


if __name__ == '__main__':
    unittest.main()
