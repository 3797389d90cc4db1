# SPDX-License-Identifier: MIT
"""What the page shows of a heap in a real browser: lifetimes and ages, leaks, resident memory. Numbers are those of the command.

    test_page_heap.py DELTAPROF
"""
import gzip
import json
import os
import re
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX, number

LIVES = HEAP + [('freed_objects', 'count'), ('temporary_objects', 'count'), ('lifetime', 'microseconds')]
RATE = 524288


class Heap(PageCase):
    def aged(self):
        """Four ticks of a program with age=on: what is in use has an age, allocations and frees have none."""
        for n in range(1, 5):
            rows = [(['operator new', 'session', 'main'], [10, 10000 * n, 0, 0, 5, 0, 7000000 * n]), (['format', 'log', 'main'], [900, 9000, 0, 0, 900, 890, 40000 + n]),
                    (['table', 'main'], [1 if n == 1 else 0, 50000 if n == 1 else 0, 0, 0, 0, 0, 0])]
            rows += [(['operator new', 'session', 'main'], [0, 0, 2, 2000 + n, 0, 0, 0], {'age': '<1s'}), (['operator new', 'session', 'main'], [0, 0, 6, 6000 * n, 0, 0, 0], {'age': '<1m'}),
                     (['table', 'main'], [0, 0, 1, 50000, 0, 0, 0], {'age': '<1m' if n < 3 else 'older'})]
            self.file(f'p/server.7.{n:04}.heap.pb.gz', rows, LIVES, (START + 10 * n) * SECOND, 10 * SECOND)
        return os.path.join(self.dir.name, 'p')

    def test_what_is_shown_first_is_what_top_shows(self):
        """Of processes that ended the peak of their sum; if nothing was ever in use, what was allocated."""
        for ticks, wanted in ((100, 900, 20), '900B'), ((0, 0, 0), '30B'), ((5, 0, 0), '5B'):
            for i, n in enumerate(ticks, 1):
                self.file(f'e{wanted}/server.7.{i:04}.heap.pb.gz', [(['f', 'main'], [1, 10, n > 0, n])], HEAP, (START + 10 * i) * SECOND, 10 * SECOND,
                          comment='#ended' if i == 3 else None)
            directory = os.path.join(self.dir.name, 'e' + wanted)
            self.show(directory)
            self.assertEqual(self.shown(), [self.top(directory)[0]])
            self.assertIn(f'of {wanted} (100', self.run_it('top', directory).decode())

    def test_lifetimes_are_those_of_top(self):
        directory = self.aged()
        self.show(directory)
        self.browser.click('#kinds [data-value=lifetime]')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', directory)[0]])
        self.browser.click('[data-value=table]')
        for kind in ('alloc_space', 'alloc_objects', 'freed_objects', 'temporary_objects'):
            self.browser.choose('#type', kind)
            rows = json.loads(self.run_it('top', '--json', '-n0', '--type', kind, '--columns', 'lifetime,temporary', directory))['rows']
            found = self.browser.js('return [...document.querySelectorAll("#table tbody tr")].map(r => [r.querySelector(".name").textContent,'
                                    '...[...r.querySelectorAll(".number")].map(c => c.title)])')
            for name, flat, _, cum, lifetime, temporary in found:
                row = next(r for r in rows if r['name'] == name)
                self.assertEqual([int(flat), int(cum)], [row['flat'], row['cum']], (kind, name))
                self.assertLessEqual(abs(int(lifetime) - row.get('lifetime', -1)), 1, (kind, name))
                self.assertEqual(temporary, f'{100 * row["temporary"]:.3f} %' if 'temporary' in row else '', (kind, name))
            self.assertLessEqual({r['name'] for r in rows if r['flat'] or r['cum']}, {name for name, *_ in found})

    def test_boxes_have_the_colour_and_the_words_of_their_lifetime(self):
        directory = self.aged()
        self.show(directory)
        plain = self.pixels()
        self.browser.click('#kinds [data-value=lifetime]')
        self.assertNotEqual(self.pixels(), plain)
        self.assertIn('less than 1 ms', self.browser.text('#lensLegend'))
        self.browser.choose('#type', 'alloc_objects')
        said = self.box_at(5, 63)
        self.assertEqual(said[0], 'format')
        self.assertIn(f'lived {sum(40000 + n for n in range(1, 5)) / 3600:.1f} us in the mean of 3600 that were freed', said)
        self.assertIn(f'temporary {100 * 890 / 900:.1f} %', said)

    def test_ages_are_those_of_top(self):
        directory = self.aged()
        self.show(directory)
        self.browser.click('#kinds [data-value=age]')
        self.assertEqual(self.shown(), [self.top('--type', 'inuse_space', directory)[0]])
        self.assertEqual(self.browser.js('return document.getElementById("layers").value'), 'label age')
        self.browser.click('[data-value=table]')
        ages = ['<1s', '<10s', '<1m', '<10m', '<1h', 'older']
        rows = self.rows()
        for i, age in enumerate(ages):
            of_age = self.top('--type', 'inuse_space', '--label', f'age={age}', directory)[1] if age in ('<1s', '<1m', 'older') else {}
            self.assertEqual({name: n[3 + i] for name, n in rows.items() if n[3 + i]}, {name: flat for name, (flat, _) in of_age.items() if flat}, age)
        self.browser.click('[data-value=flame]')
        self.browser.click('#lensLegend button:last-child')
        self.assertEqual(self.shown(), [50000])
        self.assertEqual(self.browser.text('#chips'), 'age older ✕')
        self.browser.click('#chips button')
        self.assertEqual(self.shown(), [self.top('--type', 'inuse_space', directory)[0]])
        self.assertIn('older: 48.8 kB 100.0 %', self.box_at(5, 45))

    def test_without_ages_there_are_no_such_kinds(self):
        self.show(self.server())
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#kinds button")].map(b => b.dataset.value)'), ['heap', 'mutex', 'block'])

    # ---- leaks ----

    def leaking(self, comment=None):
        """A leak, a cache that fills up, a load that goes up and down, and a table; ended by an exit that frees most."""
        def rows(n, end=1):
            size = [('forget', 40 * n, 40), ('cache', 40 * min(n, 12), 40 if n <= 12 else 0), ('load', 300 + 200 * (n % 3), 800), ('table', 500, 500 if n == 1 else 0)]
            return [([name, 'main'], [16 * made, 65536 * made, 16 * int(live * end), 65536 * int(live * end)]) for name, live, made in size]
        marks = {41: '#exit', 42: '#ended'}
        for n in range(1, 43):
            data = gzip.decompress(self.profile(rows(min(n, 40), 1 if n < 42 else 0.1), time_ns=(START + 15 * n) * SECOND, duration_ns=15 * SECOND, comment=marks.get(n)))
            self.file(f'p/server.7.{n:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        return os.path.join(self.dir.name, 'p')

    def test_leaks_are_those_of_the_command(self):
        directory = self.leaking()
        leaks = json.loads(self.run_it('leaks', '--json', directory))['leaks']
        self.assertEqual([leak['function'] for leak in leaks], ['forget'])
        self.show(directory)
        self.browser.click('#whole')
        self.browser.click('[data-value=leaks]')
        rows = self.browser.js('return [...document.querySelectorAll("#leaks tbody tr")].map(r => [...r.children].map(c => c.title && !c.classList.contains("verdict") ? Number(c.title) : c.textContent))')
        verdict, in_use, grew, _, _, _, _, stack = rows[0]
        self.assertEqual(stack, 'forget ‹ main')
        self.assertEqual(verdict, f'leak, confidence {round(100 * leaks[0]["confidence"])} %')
        self.assertEqual(in_use, leaks[0]['bytes'])
        self.assertEqual([row[0] for row in rows if row[0].startswith('leak')], [verdict])
        self.assertIn('1 leak', self.browser.text('#leaksWords'))
        self.assertLessEqual({row[0] for row in rows if row[-1].startswith('cache')}, {'grew, no leak'})
        self.browser.click('#leaks tbody tr')
        self.assertEqual(self.box_at(5, 45)[0], 'forget')

    # ---- resident memory ----

    def resident(self):
        def comments(n, more):
            return [f'#RssTotal={(30 + n) << 20}', f'#RssAnon={(24 + n) << 20}', f'#RssError={n << 18}', f'#RssPart malloc, in use={(9 + n) << 20}',
                    f'#RssPart malloc, held but not in use={(5 << 20) + n}', *more, f'{n} samples lost']
        for n in range(1, 6):
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [(['list', 'main'], [1, 1, 1, (9 + n) << 20]), (['pool', 'main'], [0, 0, 1, 4 << 20], {'heap': 'mmap'})], HEAP,
                      (START + 10 * n) * SECOND, 10 * SECOND, comment=comments(n, ['#RssPart mmap=3145728', f'#RssPart the profiler={2 << 20}']))
        return os.path.join(self.dir.name, 'p')

    def test_parts_of_the_resident_memory_are_those_of_rss(self):
        directory = self.resident()
        self.show(directory)
        self.browser.click('[data-value=rss]')
        of_rss = json.loads(self.run_it('rss', '--json', f'{directory}/server.7.0005.heap.pb.gz'))
        wanted = {part['name']: part['bytes'] for part in of_rss['parts']}
        wanted['not explained'] = of_rss['unexplained_bytes']
        wanted['pages of files, shared memory'] = of_rss['file_bytes']
        parts = dict(self.browser.js('return [...document.querySelectorAll("#resident tbody tr")].map(r => [r.lastChild.textContent, Number(r.firstChild.title)])'))
        self.assertEqual(parts, wanted)
        self.assertEqual(sum(parts.values()), 35 << 20)
        words = self.browser.text('#residentWords')
        self.assertIn('ps shows 35 MB (RSS); the profile has 18 MB in use', words)
        self.assertIn('give or take 1.25 MB', words)
        self.assertEqual(self.rows('#mapped')['pool'], [4 << 20])
        self.browser.click('#last')
        change = dict(self.browser.js('return [...document.querySelectorAll("#resident tbody tr")].map(r => [r.lastChild.textContent, Number(r.children[2].title)])'))
        self.assertEqual(change['malloc, in use'], 1 << 20)

    def test_the_chart_shows_resident_memory_by_part(self):
        self.show(self.resident())
        before = self.pixels('#chart')
        self.browser.choose('#charted', 'rss')
        self.assertNotEqual(self.pixels('#chart'), before)
        self.assertIn('malloc, held but not in use', self.browser.text('#legend'))
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        said = self.box_at(width - 1, 60, '#chart')
        for line in ('35 MB in all', '35 MB  RSS', '29 MB  anonymous RSS', '14 MB  malloc, in use', '5.00 MB  not explained', '6 MB  pages of files, shared memory', '3 MB  mmap'):
            self.assertIn(line, said)

    def test_lines_of_the_chart_are_switched_off_in_the_legend(self):
        self.show(self.resident())
        said = 'return [...document.querySelectorAll("#legend button")].map(b => [b.textContent, b.className])'
        before = self.pixels('#chart')
        self.browser.click('#legend button')
        self.assertEqual(self.browser.js(said), [['RSS', 'off'], ['anonymous RSS', '']])
        after = self.pixels('#chart')
        self.assertNotEqual(after, before)
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        self.assertEqual([line for line in self.box_at(width - 1, 60, '#chart') if 'RSS' in line], ['29 MB  anonymous RSS'])
        self.show(os.path.join(self.dir.name, 'p'), fragment=self.browser.fragment())
        self.assertEqual(self.pixels('#chart'), after)
        self.browser.click('#legend button')
        self.assertEqual(self.pixels('#chart'), before)

    def test_the_resident_memory_of_several_processes_is_summed_while_they_live(self):
        for pid, ticks in ((7, (1, 2, 3)), (8, (2, 3, 4, 5))):
            for k, n in enumerate(ticks):
                last = pid == 7 and n == 3
                self.file(f'p/server.{pid}.{k + 1:04}.heap.pb.gz', [(['main'], [1, 1, 1, 1])], HEAP, (START + 10 * n + pid - 7) * SECOND, 10 * SECOND,
                          comment=[f'#RssTotal={pid << 20}', f'#RssAnon={pid << 19}'] + (['#ended'] if last else []))
        self.show(os.path.join(self.dir.name, 'p'))
        self.browser.choose('#charted', 'rss')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        self.assertEqual([next(line for line in self.box_at(width * share, 60, '#chart') if line.endswith('  RSS')) for share in (0.3, 0.5, 0.9)],
                         ['7 MB  RSS', '15 MB  RSS', '8 MB  RSS'])

    def test_each_tick_says_what_it_knows(self):
        self.show(self.resident())
        self.browser.click('[data-value=info]')
        rows = self.browser.js('return [...document.querySelectorAll("#ticks tbody tr")].map(r => [...r.children].map(c => c.textContent))')
        self.assertEqual([row[3:] for row in rows], [[f'{30 + n} MB', f'{24 + n} MB', f'{n} samples lost'] for n in (5, 4, 3, 2, 1)])
        self.browser.click('#ticks tbody tr:nth-child(3)')
        self.assertEqual(self.browser.js('return document.querySelectorAll("#ticks tbody tr").length'), 1)
        self.browser.click('[data-value=flame]')
        self.assertEqual(self.shown(), [self.top('--type', 'inuse_space', f'{self.dir.name}/p/server.7.0003.heap.pb.gz')[0]])

    def test_what_was_allocated_in_a_range_and_is_still_there(self):
        levels = {'cache': [10, 20, 40, 40, 40, 40, 40, 40], 'burst': [0, 0, 300, 300, 300, 0, 0, 0], 'dips': [0, 0, 100, 100, 30, 100, 100, 100], 'old': [500] * 8, 'late': [0] * 7 + [9]}
        for n in range(8):
            rows = [([name, 'main'], [1, value[n], 1, value[n]]) for name, value in levels.items() if value[n]]
            self.file(f'kept/server.7.{n + 1:04}.heap.pb.gz', rows, HEAP, (START + 10 * n) * SECOND, 10 * SECOND, comment='#exit' if n == 7 else None)
        self.file('kept/server.7.0009.heap.pb.gz', [(['old', 'main'], [0, 0, 1, 1])], HEAP, (START + 80) * SECOND, 10**6, comment='#ended')
        self.show(os.path.join(self.dir.name, 'kept'))
        self.drag(3, 4)
        self.browser.choose('#mode', 'retained')
        self.assertEqual(self.shown(), [20 + 300 + 100])
        self.browser.choose('#mode', 'kept')
        self.assertEqual(self.shown(), [20 + 30])
        self.browser.click('[data-value=table]')
        self.assertEqual({name: flat for name, (flat, _) in self.flat_and_cum().items() if flat}, {'cache': 20, 'dips': 30})

    def test_a_peak_adds_up_values_of_one_time(self):
        """Worker 8 writes its tick just before worker 7, which has freed by then what it had at its tick before."""
        for pid, late, values in ((7, 0, (42000000, 1000)), (8, -10, (1000000, 30000000))):
            for n, value in enumerate(values, 1):
                self.file(f'w/server.{pid}.{n:04}.heap.pb.gz', [(['f', 'main'], [1, value, 1, value])], HEAP, (START + 10 * n) * SECOND + late * 10**6, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'w'))
        self.browser.js('[...document.querySelectorAll("#glance div")].find(d => d.textContent.startsWith("in use")).querySelectorAll("button")[1].click()')
        self.assertEqual(self.shown(), [43000000])

    def test_a_range_that_no_tick_fits_shows_the_ticks_that_it_lies_in_and_says_so(self):
        directory = self.server()
        for begin, end, whole, sums in ((13, 17, 'one whole tick', 2), (15, 30, '2 whole ticks', 5), (10, 30, '', 5)):
            self.show(directory, fragment=f'#k=mutex&t=delay&r={(START + begin) * 1000},{(START + end) * 1000}')
            self.assertEqual(self.shown(), [sums * 1000000])
            self.assertEqual(whole, (re.findall('(one whole tick|[0-9]+ whole ticks)', self.browser.text('#range')) or [''])[0])

    def test_kinds_whose_profiles_of_a_tick_end_some_ms_apart_show_the_same_ticks(self):
        for n in range(1, 4):
            for kind, late in (('mutex', 0), ('block', 13)):
                self.file(f'p/server.7.{n:04}.{kind}.pb.gz', [(['unlock', 'main'], [n, n * 1000])], MUTEX, (START + 10 * n) * SECOND + late * 10**6, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'p'), fragment='#k=mutex&t=delay')
        self.browser.click('#last')
        self.assertEqual(self.shown(), [3000])
        self.browser.click('#kinds [data-value=block]')
        self.assertEqual(self.shown(), [3000])


if __name__ == '__main__':
    unittest.main()
