# SPDX-License-Identifier: MIT
"""`deltaprof leaks` on the ticks of simulated programs: blocks are allocated, sampled and freed.

    test_leaks.py DELTAPROF
"""
import gzip
import json
import os
import random
import unittest

from by_hand import Case, profile
from random_profile import chunk, number, parse

RATE, TICKS = 524288, 40


class Site:
    """Allocates `per_tick(t)` blocks of `size` bytes a tick, and frees the `frees(t, live)` oldest ones."""

    def __init__(self, stack, size, per_tick, frees):
        self.stack, self.size, self.per_tick, self.frees = stack, size, per_tick, frees
        self.live, self.n_alloc = [], 0  # one bool for each block: it was sampled

    def tick(self, rng, t):
        p = 1 - 2.718281828459045 ** (-self.size / RATE)
        fresh = [rng.random() < p for _ in range(self.per_tick(t))]
        self.live += fresh
        del self.live[:self.frees(t, len(self.live))]
        weight = 1 / p
        n_alloc, n_live = sum(fresh), sum(self.live)
        return [round(n * weight * k) for n in (n_alloc, n_live) for k in (1, self.size)]


class Leaks(Case):
    def run_program(self, sites, seed=1, n_ticks=TICKS, name='a.1', end=None, at_exit=None, between=None, peaks=(), **more):
        """peaks: ticks of two files, the first with a peak of ten times what is in use, and with the allocations."""
        rng, n_files = random.Random(seed), 0
        for t in range(n_ticks):
            rows = [(site.stack, values) for site in sites if any(values := site.tick(rng, t))]
            files = [(rows, 0, 15, more)]
            if t in peaks:
                files = [([(stack, v[:2] + [10 * n for n in v[2:]]) for stack, v in rows], 0, 14, {'comment': '#PeakAt=%d' % ((10**9 + 15 * t + 9) * 10**9)}),
                         ([(stack, [0, 0] + v[2:]) for stack, v in rows], 14, 1, more)]
            for of_file, begin, seconds, words in files:
                n_files += 1
                self.file('%s.%04d.heap.pb.gz' % (name, n_files), gzip.compress(gzip.decompress(
                    profile(of_file, time_ns=(10**9 + 15 * t + begin) * 10**9, duration_ns=seconds * 10**9, **words)) + number(12, RATE)))
        for rows, comment in (at_exit, b'#exit'), (between, b'#tick'), (end, b'#ended'):
            if rows is not None:
                data = gzip.decompress(profile(rows, time_ns=(10**9 + 15 * n_ticks) * 10**9))
                data += chunk(6, comment) + number(13, len(parse(data).string_table)) + number(12, RATE)
                n_ticks, n_files = n_ticks + 1, n_files + 1
                self.file('%s.%04d.heap.pb.gz' % (name, n_files), gzip.compress(data))

    def leaks(self, *arguments):
        return json.loads(self.run_it('leaks', '--json', *(arguments or [self.dir.name])))

    def names(self):
        return [leak['function'] for leak in self.leaks()['leaks']]

    def traffic(self):
        return Site(['request', 'main'], 16384, lambda t: 2000, lambda t, live: live - 500)

    def test_the_text_is_this(self):
        self.run_program([Site(['malloc', 'forget', 'on_error', 'main', '_start'], 8 << 20, lambda t: 1, lambda t, live: 0),
                          Site(['malloc', 'build', 'main'], 8 << 20, lambda t: t < 8, lambda t, live: 0),
                          Site(['malloc', 'serve', 'main'], 8 << 20, lambda t: 3, lambda t, live: live - 2)])
        self.assertEqual(self.run_it('leaks', self.dir.name).decode(), '''\
a 1: 400MB in use, 40 files
Looked at: 40 ticks with 168 samples in 10mins of work
1 leak

 1. 320MB in use, 1.88GB more an hour since 01:47:10, confidence 100%
    grew in 30 of 30 ticks, shrank in 0; 0% of 40 samples were freed
    chance of another cause: it has ended 0.014%, chance 9.3e-08%
    forget
    on_error
    main

Not leaks:
      64MB in 1 stack that grew and stopped (a cache, a table)
      16MB in 1 stack that stays as it is, or goes up and down
''')

    def test_a_short_run_is_told_a_shorter_interval(self):
        self.run_program([self.traffic()], n_ticks=2)
        lines = self.run_it('leaks', self.dir.name).decode().splitlines()
        self.assertRegex(lines[1], r'^Looked at: 2 ticks with \d+ samples in 30s of work$')
        self.assertRegex(lines[2], r'^Cannot tell: 2 ticks, \d+ samples: run 120 s more, or interval=1s$')
        found = self.leaks()
        self.assertEqual((found['verdict'], found['leaks'], f'Cannot tell: {found["needs"]}'), ('cannot tell', [], lines[2]))

    def test_each_verdict_is_said_in_json(self):
        for n_lost, n_ticks, verdict in (60, 40, 'leak'), (0, 40, 'no leak'), (60, 3, 'cannot tell'):
            self.run_program([self.traffic(), Site(['forget', 'main'], 6000, lambda t: n_lost, lambda t, live: 0)], n_ticks=n_ticks, name=verdict.replace(' ', '') + '.1')
            found = self.leaks(os.path.join(self.dir.name, verdict.replace(' ', '') + '.*'))
            self.assertEqual((found['verdict'], bool(found['needs'])), (verdict, verdict == 'cannot tell'))
            self.assertEqual(found['open'], [{'kind': 'leak', 'needs': found['needs']}] if found['needs'] else [])

    def test_a_stack_that_may_grow_has_no_other_verdict_in_json_than_in_the_text(self):
        def allocates(t):
            return 50 if t < 10 else 2
        n_open = 0
        for seed in range(6):
            self.run_program([Site(['forget', 'main'], 6000, allocates, lambda t, live: int(.3 * allocates(t))), self.traffic()], n_ticks=20, name=f's{seed}.1', seed=seed)
            path = os.path.join(self.dir.name, f's{seed}.*')
            says, suspects = 'open whether it grows' in self.run_it('leaks', path).decode(), self.leaks(path)['suspects']
            self.assertEqual([s['verdict'] == 'open' for s in suspects[:1]], [says] if suspects else [])
            n_open += says
        self.assertGreater(n_open, 0)

    def test_memory_that_is_kept_may_be_a_cache_that_fills(self):
        """In a few ticks both look the same, so it is no leak yet; later it is one, and a cache is named as the other explanation."""
        for n_ticks, verdict, may_be_filling in (5, 'cannot tell', True), (12, 'leak', True), (40, 'leak', False):
            directory = os.path.join(self.dir.name, str(n_ticks))
            self.run_program([self.traffic(), Site(['put', 'main'], 65536, lambda t: 100, lambda t, live: 0)], n_ticks=n_ticks, name=f'{n_ticks}/a.1')
            found = self.leaks(directory)
            self.assertEqual((found['verdict'], (found['leaks'] + found['suspects'])[0]['function'], len(found['leaks'])), (verdict, 'put', verdict == 'leak'))
            self.assertEqual('a cache that still fills looks the same in so few ticks' in self.run_it('leaks', directory).decode(), may_be_filling)
            if verdict == 'leak':
                self.assertEqual('unless it is data to keep or a cache that still fills.' in self.run_it('summary', directory).decode(), may_be_filling)

    def test_the_start_of_an_idle_process_is_no_leak(self):
        """An interpreter imports its modules, in two ticks and the begin of a third one, and then waits, as the master of a server does."""
        at_start = {1: (0, 170), 2: (170, 890), 3: (1060, 1040)}
        imported = {1: (0, 0), 2: (28.4, 6.8), 3: (2.55, 7.8)}
        parsed = {1: (15.7, 6.0), 2: (2.0, 5.5), 3: (0.5, 6.0)}
        for t in range(1, 21):
            begin, lasts = at_start.get(t, (2100 + 1000 * (t - 4), 1000))
            rows = []
            for name, values in ('<module>', imported), ('parse', parsed):
                allocated, in_use = [int(x * 2**20) for x in values.get(t, (0, values[3][1]))]
                rows.append(([name, 'main'], [allocated // 170, allocated, in_use // 140, in_use]))
            self.file('a.1.%04d.heap.pb.gz' % t, gzip.compress(gzip.decompress(profile(rows, time_ns=10**18 + begin * 10**6, duration_ns=lasts * 10**6)) + number(12, RATE)))
        found = self.leaks()
        self.assertEqual((found['verdict'], found['leaks']), ('cannot tell', []))

    def test_idle_time_after_a_load_says_nothing(self):
        """Twenty ticks of load, then as many in which nothing is allocated."""
        def only_loaded(n):
            return lambda t: n if t < 20 else 0
        load = Site(['request', 'main'], 16384, only_loaded(2000), lambda t, live: live - 500 if t < 20 else live)
        for seed in range(5):
            load.live = []
            self.run_program([load, Site(['forget', 'main'], 65536, only_loaded(40), lambda t, live: 0)], seed)
            self.assertEqual((self.leaks()['verdict'], self.names()), ('leak', ['forget']))
        cache = Site(['put', 'main'], 65536, only_loaded(200), lambda t, live: max(0, live - 800))
        load.live = []
        self.run_program([load, cache], 1)
        self.assertEqual(self.names(), [])

    def test_a_full_cache_that_is_only_read_is_no_leak(self):
        """It grows for twenty ticks, and nothing else allocates. If the process goes on using CPU time, it is not idle."""
        def busy(n_ticks):
            for t in range(n_ticks):
                self.file(f'a.1.{t + 1:04}.cpu.pb.gz', [(['read', 'main'], [100, 10**9])], [('samples', 'count'), ('cpu', 'nanoseconds')],
                          time_ns=(10**9 + 15 * t) * 10**9, duration_ns=15 * 10**9)
        cache = Site(['put', 'main'], 1 << 20, lambda t: 3 if t < 20 else 0, lambda t, live: 0)
        for seed in range(3):
            cache.live = []
            self.run_program([cache], seed)
            busy(20)
            self.assertEqual(self.leaks()['verdict'], 'leak')
            busy(40)
            found = self.leaks()
            self.assertIn(found['verdict'], ('cannot tell', 'no leak'))
            for suspect in found['suspects']:  # the numbers are those of the verdict, and the program has to work
                self.assertLess(suspect['confidence'], 0.5)
                self.assertIn(' of 40 had work', found['needs'])
            for t in range(40):
                os.remove(f'{self.dir.name}/a.1.{t + 1:04}.cpu.pb.gz')

    def test_a_string_that_doubles_is_a_leak_although_nothing_else_allocates(self):
        """Each tick of a step catches the old block and the new one; between the steps there is no work."""
        size = 4 << 20
        for t in range(1, 61):
            old = size
            if t in (2, 4, 8, 16, 32):
                size *= 2
            n = 1 + (size > old)
            allocated = [1, size] if n > 1 or t == 1 else [0, 0]
            self.file('a.1.%04d.heap.pb.gz' % t, gzip.compress(gzip.decompress(profile([(['append', 'main'], allocated + [n, size + old * (n > 1)])],
                      time_ns=(10**9 + 2 * t) * 10**9, duration_ns=2 * 10**9)) + number(12, RATE)))
        found = self.leaks()
        self.assertEqual((found['verdict'], [leak['verdict'] for leak in found['leaks']]), ('leak', ['doubling']))

    def test_blocks_that_move_to_another_caller_are_no_leak(self):
        """Entries of a table are replaced: each that `update` makes is one of `insert` less."""
        self.run_program([Site(['entry_new', 'insert', 'main'], 1 << 19, lambda t: 40 * (t < 5), lambda t, live: 5 * (t >= 5)),
                          Site(['entry_new', 'update', 'main'], 1 << 19, lambda t: 5 * (t >= 5), lambda t, live: 0),
                          Site(['serve', 'main'], 1 << 19, lambda t: 20, lambda t, live: live - 20)], n_ticks=35)
        self.assertEqual(self.names(), [])

    def test_what_drains_hides_no_leak_of_the_same_function(self):
        """An allocating function that all call, as xmalloc: a table drains, or is freed at once, while another caller leaks."""
        def table(name, frees):
            return Site(['entry_new', name, 'main'], 1 << 19, lambda t: 40 * (t < 5), frees)
        cases = {
            'more slowly than it drains': ([table('insert', lambda t, live: 5 * (t >= 10))], lambda t: 2 * (t >= 10)),
            'longer than it drains': ([table('insert', lambda t, live: 40 * (12 <= t < 17))], lambda t: 3 * (t >= 12)),
            'beside what is freed at once': ([table('insert', lambda t, live: live * (t >= 10))], lambda t: 4 * (t >= 5)),
            'faster than it drains': ([table('insert', lambda t, live: 2 * (t >= 17))], lambda t: 5 * (t >= 17)),
            'beside two that drain': ([table('insert', lambda t, live: 3 * (t >= 8)), table('load', lambda t, live: 3 * (t >= 8))], lambda t: 3 * (t >= 8)),
        }
        for n, (case, (tables, lost)) in enumerate(cases.items()):
            self.run_program([*tables, Site(['entry_new', 'update', 'main'], 1 << 19, lost, lambda t, live: 0),
                              Site(['serve', 'main'], 1 << 19, lambda t: 20, lambda t, live: live - 20)], n_ticks=35, name=f'{n}/a.1', seed=n)
            found = self.leaks(os.path.join(self.dir.name, str(n)))
            self.assertEqual((case, found['verdict'], [leak['stack'][1]['function'] for leak in found['leaks']]), (case, 'leak', ['update']))

    def test_a_rate_needs_as_many_ticks_as_a_leak(self):
        """Memory that is kept, of which a leak needs six ticks."""
        for n_ticks in 4, 5, 12:
            self.run_program([self.traffic(), Site(['put', 'main'], 65536, lambda t: 100, lambda t, live: 0)], n_ticks=n_ticks, name=f'{n_ticks}/a.1')
            directory, is_known = os.path.join(self.dir.name, str(n_ticks)), n_ticks >= 6
            found = self.leaks(directory)
            self.assertEqual({row['bytes_per_hour'] > 0 for row in found['leaks'] + found['suspects'] if row['function'] == 'put'}, {is_known})
            self.assertEqual(' more an hour' in self.run_it('leaks', directory).decode(), is_known)

    def test_a_table_that_is_loaded_late_and_then_stays_is_no_leak(self):
        self.run_program([Site(['geo_row', 'main'], 1 << 19, lambda t: 23 * (20 <= t < 24), lambda t, live: 0),
                          Site(['serve', 'main'], 1 << 19, lambda t: 16, lambda t, live: live - 16)], n_ticks=30)
        self.assertEqual(self.names(), [])

    def test_ticks_without_work_ask_for_work(self):
        """Four ticks of twenty allocate: a shorter interval would not help."""
        self.run_program([Site(['serve', 'main'], 1 << 20, lambda t: 10 * (t < 4), lambda t, live: live - 10 if t < 4 else 0)], n_ticks=20)
        self.assertRegex(self.leaks()['needs'], r'^\d ticks? of 20 had work, \d+ samples: give it more work, or run \d+ s more$')

    def test_hardly_a_sample_asks_for_a_heap_rate_and_for_no_time(self):
        self.run_program([Site(['malloc', 'f', 'main'], RATE * 20, lambda t: int(t in (8, 20)), lambda t, live: 0)], n_ticks=TICKS)
        self.assertRegex(self.leaks()['needs'], r'^\d ticks? of 40 had work, 2 samples: give it more work, or run \d+ s more with heap_rate=16k$')

    def test_in_traffic_the_leak_is_found_and_nothing_else(self):
        for seed in range(5):
            self.run_program([self.traffic(), Site(['malloc', 'forget', 'on_error', 'main'], 4096, lambda t: 200, lambda t, live: 0)], seed)
            found = self.leaks()
            leak, = found['leaks']
            self.assertEqual((leak['function'], [f['function'] for f in leak['stack']]), ('forget', ['forget', 'on_error', 'main']))
            self.assertGreater(leak['confidence'], 0.9)
            self.assertAlmostEqual(leak['bytes_per_hour'], 200 * 4096 * 240, delta=0.4 * 200 * 4096 * 240)
            self.assertGreater(found['in_use_bytes'], leak['bytes'])

    def test_a_profile_of_a_peak_changes_nothing(self):
        def leaks(name, **more):
            self.run_program([self.traffic(), Site(['malloc', 'forget', 'main'], 4096, lambda t: 200, lambda t, live: 0)], name=name + '/a.1', **more)
            return self.leaks(os.path.join(self.dir.name, name))['leaks']
        without = leaks('without')
        for i, peaks in enumerate(({5, 12, 13, 30}, {0, TICKS - 1}, set(range(TICKS)))):
            self.assertEqual(leaks(f'peaks{i}', peaks=peaks), without)

    def test_a_peak_before_the_end_changes_nothing(self):
        def leaks(name):
            return self.leaks(os.path.join(self.dir.name, name))['leaks']
        for name, n_ticks in (('without', TICKS), ('with', TICKS + 1)):
            site = Site(['forget', 'main'], 65536, lambda t: 60, lambda t, live: 0)
            self.run_program([site], n_ticks=n_ticks, peaks={TICKS}, end=[], name=name + '/a.1')
        os.unlink(os.path.join(self.dir.name, 'with/a.1.%04d.heap.pb.gz' % (TICKS + 2)))  # the second file of that tick is the end's
        self.assertEqual(leaks('with'), leaks('without'))

    def test_a_verdict_says_its_numbers(self):
        self.run_program([self.traffic(), Site(['forget', 'main'], 65536, lambda t: 60, lambda t, live: 0)])
        leak, = self.leaks()['leaks']
        self.assertEqual((leak['verdict'], leak['ticks_up'], leak['ticks_down'], leak['ticks']), ('growing', 30, 0, 30))
        self.assertLess(leak['chance'], 0.001)
        self.assertLess(leak['ended'], 0.01)
        self.assertLess(leak['freed'], 0.01)
        text = self.run_it('leaks', self.dir.name).decode()
        self.assertRegex(text, r'grew in 30 of 30 ticks, shrank in 0; \S+% of 2\d\d samples were freed\n +chance of another cause: it has ended \S+%, chance \S+%\n')

    def test_a_file_without_a_known_line_has_none(self):
        self.run_program([Site(['keep@/home/me/leak.js', 'main@/home/me/leak.js'], 6000, lambda t: 60, lambda t, live: 0)])
        self.assertRegex(self.run_it('leaks', self.dir.name).decode(), r'\n    keep  leak\.js\n')

    def test_a_buffer_that_doubles_is_told_as_one(self):
        sizes = [1 << max(20, (700000 * (t + 1)).bit_length()) for t in range(TICKS)]
        for t, size in enumerate(sizes):
            rows = [(['append', 'main'], [1, size, 1, size])]
            self.file('a.1.%04d.heap.pb.gz' % (t + 1), gzip.compress(
                gzip.decompress(profile(rows, time_ns=(10**9 + 15 * t) * 10**9, duration_ns=15 * 10**9)) + number(12, RATE)))
        leak, = self.leaks()['leaks']
        self.assertEqual((leak['function'], leak['verdict']), ('append', 'doubling'))
        self.assertIn('was made larger 5 times, by 30 % or more, and is not overdue', self.run_it('leaks', self.dir.name).decode())

    def test_a_leak_on_a_rare_path_of_a_busy_site_is_found(self):
        self.run_program([self.traffic(), Site(['parse', 'main'], 16384, lambda t: 1000, lambda t, live: live),
                          Site(['parse', 'main'], 16384, lambda t: 60, lambda t, live: 0)])
        self.assertEqual(self.names(), ['parse'])

    def test_a_slow_leak_in_much_that_is_freed_is_found_after_many_ticks(self):
        """A queue whose length rises from 160 to 320 blocks, of 60 that come in each tick."""
        for seed in 2, 14:
            self.run_program([self.traffic(), Site(['session', 'main'], 65536, lambda t: 60, lambda t, live: max(0, live - 160 - 4 * t))], seed)
            found = self.leaks()
            self.assertEqual((found['verdict'], [row['function'] for row in found['leaks']]), ('leak', ['session']))
            self.assertAlmostEqual(sum(found['leaks'][0][name] for name in ('confidence', 'ended', 'chance', 'load')), 1, 2)

    def test_caches_tables_and_loads_are_no_leaks(self):
        rng = random.Random(3)
        for what, site in {
            'a cache that fills': Site(['put', 'main'], 8192, lambda t: 500, lambda t, live: max(0, live - 5000)),
            'a cache that fills slowly': Site(['put', 'main'], 8192, lambda t: 400, lambda t, live: max(0, live - 9000)),
            'a table built at first': Site(['build', 'main'], 65536, lambda t: 1000 if t < 3 else 0, lambda t, live: 0),
            'a load that doubles': Site(['session', 'main'], 16384, lambda t: 1000 if t < 22 else 2000, lambda t, live: live - (1000 if t < 22 else 2000)),
            'a load that comes and goes': Site(['session', 'main'], 16384, lambda t: 2000, lambda t, live: live - rng.randrange(500, 2000)),
            'traffic': self.traffic(),
            'a large block, once': Site(['reserve', 'main'], 64 << 20, lambda t: t == 30, lambda t, live: 0),
        }.items():
            for seed in range(4):
                with self.subTest(what, seed=seed):
                    self.run_program([self.traffic(), site], seed)
                    self.assertEqual(self.names(), [])
                    site.live = []

    def test_queues_are_judged_without_the_chance_of_sampling(self):
        ring = Site(['put', 'main'], 16384, lambda t: 200, lambda t, live: live - 800)
        load = Site(['put', 'main'], 16384, lambda t: 80 if t < 20 else 160, lambda t, live: live - (400 if t < 20 else 800))
        slow = Site(['put', 'main'], 16384, lambda t: 120, lambda t, live: 75)
        for name, site, verdict in (('ring', ring, 'no leak'), ('load', load, 'no leak'), ('slow', slow, 'leak')):
            for seed in range(2):
                site.live = []
                self.run_program([site, self.traffic()], seed=seed, name=f'{name}{seed}/a.1')
                self.assertEqual((name, seed, self.leaks(os.path.join(self.dir.name, f'{name}{seed}'))['verdict']), (name, seed, verdict))

    def test_a_busy_site_that_frees_all_is_no_leak(self):
        for seed in range(2):  # what is in use at a tick is the few requests under way, which is more at the end by chance
            site = Site(['answer', 'main'], 16384, lambda t: 1000, lambda t, live: live - (20 if t < 30 else 60))
            self.run_program([site, self.traffic()], seed=seed, name=f'{seed}/a.1')
            self.assertEqual(self.leaks(os.path.join(self.dir.name, f'{seed}'))['verdict'], 'no leak')

    def test_the_same_leak_of_several_processes_is_one(self):
        for i in range(3):
            self.run_program([Site(['forget', 'main'], 65536, lambda t: 20, lambda t, live: 0)], i, name='a.%d' % i)
        leak, = self.leaks()['leaks']
        self.assertAlmostEqual(leak['bytes'], 3 * 20 * 65536 * TICKS, delta=0.2 * 3 * 20 * 65536 * TICKS)
        self.assertIn('in 3 processes', self.run_it('leaks', self.dir.name).decode())

    def test_memory_left_at_exit_of_a_short_run_is_no_verdict(self):
        self.run_program([], n_ticks=0, end=[(['lost', 'main'], [100, 100 << 20, 100, 100 << 20]), (['table', 'main'], [1, 64 << 20, 1, 64 << 20])])
        found = self.leaks()
        self.assertEqual((found['verdict'], found['leaks'], found['in_use_bytes']), ('cannot tell', [], 164 << 20))

    def test_standard_input_is_read_once(self):
        self.run_program([], n_ticks=0, end=[(['lost', 'main'], [100, 100 << 20, 100, 100 << 20])])
        with open(os.path.join(self.dir.name, 'a.1.0001.heap.pb.gz'), 'rb') as f:
            found = json.loads(self.run_it('leaks', '--json', '-', data=f.read()))
        self.assertEqual((found['verdict'], found['in_use_bytes']), ('cannot tell', 100 << 20))

    def test_the_heading_says_of_which_time_its_memory_is(self):
        site = Site(['forget', 'main'], 65536, lambda t: 20, lambda t, live: 0)
        self.run_program([site], at_exit=[], end=[])
        head = self.run_it('leaks', self.dir.name).decode().splitlines()[0]
        self.assertRegex(head, r': 0 in use at exit, [\d.]+MB a tick before, ')

    def test_options_that_choose_no_ticks_are_refused(self):
        path = self.file('a.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        for words in (('--at', 'peak'), ('--type', 'alloc_space')):
            self.run_it('leaks', *words, path, status=2)
            self.assertIn(words[0], self.error)
        self.run_it('leaks', '--type', 'inuse_space', path)

    def test_the_ticks_of_the_end_are_not_part_of_the_growth(self):
        site = Site(['forget', 'main'], 65536, lambda t: 20, lambda t, live: 0)
        self.run_program([site], at_exit=[], end=[])  # freed one by one before exit, as a careful server does
        self.assertEqual(self.names(), ['forget'])

    def test_a_tick_while_a_process_frees_its_memory_says_nothing(self):
        for share in (2, 5):  # tenths of the blocks are freed before the last tick, when no work is done any more
            site = Site(['forget', 'main'], 65536, lambda t: 20 * (t < 20), lambda t, live: (t == TICKS - 1) * live * share // 10)
            self.run_program([site], end=[], name=f'{share}/a.1')
            found = self.leaks(os.path.join(self.dir.name, f'{share}'))
            self.assertEqual([leak['function'] for leak in found['leaks']], ['forget'])

    def test_a_clean_program_has_an_empty_list(self):
        self.run_program([self.traffic()], end=[])
        self.assertEqual(self.leaks()['leaks'], [])
        self.assertIn('No leak: no growth was seen that goes on.', self.run_it('leaks', self.dir.name).decode())

    def test_memory_that_libraries_keep_is_counted_together(self):
        site = Site(['malloc', 'init', 'start'], 1 << 20, lambda t: 20 * (t < 3), lambda t, live: 0)  # malloc is folded
        self.run_program([site, Site(['request', 'main'], 16384, lambda t: 2000, lambda t, live: live)], program='/usr/lib/x86_64-linux-gnu/libfoo.so')  # work goes on
        self.assertRegex(self.run_it('leaks', self.dir.name).decode(), r'in 1 stack of libraries\n')

    def test_another_kind_of_profile_is_refused(self):
        path = self.file('m', [(['f'], [1, 1])], [('contentions', 'count'), ('delay', 'nanoseconds')])
        self.run_it('leaks', path, status=1)
        self.assertIn('no heap profile', self.error)


if __name__ == '__main__':
    unittest.main()
