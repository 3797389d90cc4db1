# SPDX-License-Identifier: MIT
"""The top of the page in a real browser: the sentences of `deltaprof summary`, the small charts, and what a click on them shows.

    test_page_opening.py DELTAPROF
"""
import json
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX


class Opening(PageCase):
    def sentences(self):
        return self.browser.js('return [...document.querySelectorAll("#sentences li")].map(li => [li.dataset.kind, li.textContent.replace(/ show$/, "")])')

    def contended(self):
        """The server, with a tick in which a lock cost nine seconds."""
        directory = self.server()
        self.file('p/server.7.0009.mutex.pb.gz', [(['pthread_mutex_unlock', 'checkpoint', 'main'], [9, 9 * SECOND])], MUTEX, (START + 80) * SECOND, 10 * SECOND)
        return directory

    def test_the_sentences_are_those_of_summary(self):
        directory = self.contended()
        self.show(directory)
        said = json.loads(self.run_it('summary', '--json', directory))['sentences']
        self.assertEqual(self.sentences(), [[s['kind'], s['text']] for s in said])
        self.assertIn('lock', [s['kind'] for s in said])

    def test_a_click_on_a_lock_shows_the_time_that_its_holder_cost(self):
        directory = self.contended()
        self.show(directory)
        self.browser.click('#sentences [data-kind=lock] button')
        self.assertEqual(self.browser.js('return document.querySelector("#kinds [aria-selected=true]").dataset.value'), 'mutex')
        self.assertEqual(self.shown(), [self.top('--kind', 'mutex', '--type', 'delay', directory)[0]])
        self.assertEqual(self.browser.js('return document.getElementById("search").value'), '^checkpoint$')

    def test_a_click_on_a_leak_shows_what_it_kept(self):
        for n in range(1, 41):
            self.file(f'p/leaky.7.{n:04}.heap.pb.gz', [(['session_new', 'serve', 'main'], [900, 900 << 10, 900 * n, 900 * n << 10]),
                                                       (['reply', 'serve', 'main'], [900, 900 << 10, 3, 3 << 10])],
                      HEAP, (START + 10 * n) * SECOND, 10 * SECOND, comment='')
        self.show(f'{self.dir.name}/p')
        self.assertEqual(self.sentences()[0][0], 'leak')
        self.browser.click('#sentences [data-kind=leak] button')
        self.assertEqual(self.shown(), [900 * 40 << 10])

    def test_the_search_of_a_finding_can_be_seen_and_ends_with_its_view(self):
        search = 'return [document.getElementById("search").value, document.getElementById("only").getAttribute("aria-pressed")]'
        self.show(self.contended())
        for end in ('[data-value=table]', '#kinds [data-value=heap]', '#chips [data-key=only]', 'Escape'):
            self.browser.click('#sentences [data-kind=lock] button')
            self.assertEqual(self.browser.text('#chips'), 'only ^checkpoint$ ✕')
            self.browser.keys('#search', '\ue00c') if end == 'Escape' else self.browser.click(end)
            self.assertEqual((self.browser.js(search), self.browser.text('#chips')), (['', 'false'], ''), end)
        self.browser.click('#sentences [data-kind=lock] button')
        fragment = self.browser.fragment()
        self.show(f'{self.dir.name}/p', fragment=fragment)
        self.assertEqual(self.browser.text('#chips'), 'only ^checkpoint$ ✕')
        self.browser.click('[data-value=table]')
        self.assertEqual(self.browser.js(search), ['', 'false'])
        self.browser.keys('#search', 'check')  # of the user: it stays
        self.browser.click('[data-value=flame]')
        self.assertEqual(self.browser.js(search), ['check', 'false'])

    def test_small_charts_say_the_most_and_open_their_kind(self):
        directory = self.server()
        self.show(directory)
        names = self.browser.js('return [...document.querySelectorAll("#glance div")].map(div => div.textContent)')
        peak = self.top('--at', 'peak', '--type', 'inuse_space', directory)[0]
        self.assertRegex(names[0], f'^in usemost {peak / 1024:.1f} kB, ..:..:..$')
        self.assertEqual([n.split('most')[0] for n in names], ['in use', 'allocated a second', 'threads held up by locks'])
        self.browser.click('#glance div:nth-child(3) button')
        self.assertEqual(self.shown(), [self.top('--kind', 'mutex', '--type', 'delay', directory)[0]])

    def test_the_most_of_a_small_chart_is_a_click_away(self):
        """Two ticks within one step of the small chart: the higher one counts."""
        for n, (end, size) in enumerate(((100, 1000), (200, 5000), (200.5, 9000), (201, 400), (300, 2000)), 1):
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [(['fill', 'main'], [1, 100, 1, size])], HEAP, (START + 10) * SECOND, int((end - 10) * SECOND), comment='')
        self.show(f'{self.dir.name}/p', fragment='#v=table')
        self.browser.click('#glance div:first-child button:last-child')
        self.assertEqual(self.shown(), [9000])
        self.assertIn('most 8.79 kB', self.browser.text('#glance div:first-child'))
        self.assertIn('memory in use at', self.browser.text('#flameWords'))

    def test_threads_are_seen_by_state(self):
        for n in (1, 2, 3):
            self.file(f'p/server.7.{n:04}.wall.pb.gz', [(['read', 'main'], [10, 6 * SECOND], {'state': 'io'}), (['sum', 'main'], [10, 4 * SECOND], {'state': 'running'})],
                      [('samples', 'count'), ('wall', 'nanoseconds')], (START + 10 * (n - 1)) * SECOND, 10 * SECOND)
        self.show(f'{self.dir.name}/p')
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#glance path")].map(p => p.getAttribute("fill"))'), ['#b79ae0', '#6cc08b'])
        self.assertIn('threads by state over time: io, running', self.browser.js('return document.querySelector("#glance button").title'))

    def test_the_busiest_tick_is_two_clicks_away(self):
        for n, ms in enumerate((10, 20, 900, 30), 1):
            start = (START + 10 * (n - 1)) * SECOND
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [(['f', 'main'], [1, 1, 1, 10**6 if n == 2 else 10**3])], HEAP, start, 10 * SECOND)  # it begins at the peak
            self.file(f'p/server.7.{n:04}.cpu.pb.gz', [(['sort', 'main'] if n == 3 else ['wait', 'main'], [1, ms * 10**6])], [('samples', 'count'), ('cpu', 'nanoseconds')], start, 10 * SECOND)
        self.show(f'{self.dir.name}/p')
        number = self.browser.js('return [...document.querySelectorAll("#glance div")].findIndex(div => div.textContent.startsWith("CPUs busy")) + 1')
        self.browser.click(f'#glance div:nth-child({number}) button:last-child')
        self.assertEqual(self.shown(), [900 * 10**6])
        self.browser.click(f'#glance div:nth-child({number}) button')
        self.browser.click('#whole')
        self.assertEqual(self.shown(), [960 * 10**6])
        self.browser.click('#peak')
        self.assertEqual(self.shown(), [900 * 10**6])
        self.browser.click('[data-value=table]')
        self.assertEqual(self.flat_and_cum(), {'sort': [900 * 10**6] * 2, 'main': [0, 900 * 10**6]})

    def test_the_most_is_a_rate_and_what_is_selected_has_it(self):
        """A sliver at the end has a high rate and little to see, and a long tick has more than the busiest one, which is short."""
        for n, (start, length, ms) in enumerate(((0, 10, 100), (10, 8, 40), (18, 2, 80), (20, 30, 900), (50, 10, 100), (60, .5, 45)), 1):
            self.file(f'p/server.7.{n:04}.cpu.pb.gz', [(['sort', 'main'], [1, ms * 10**6])], [('samples', 'count'), ('cpu', 'nanoseconds')], int((START + start) * SECOND), int(length * SECOND))
        self.show(f'{self.dir.name}/p')
        self.assertRegex(self.browser.text('#glance div'), '^CPUs busymost 0.04, ')
        for button in '#glance div button:last-child', '#peak':
            self.browser.click('#whole')
            self.browser.click(button)
            self.assertEqual(self.shown(), [80 * 10**6])
            self.assertIn(f'r={(START + 18) * 1000}%2C{(START + 20) * 1000}', self.browser.fragment())

    def test_the_most_of_several_processes_is_of_all_that_end_together(self):
        for pid, late in ((7, 0), (8, .4)):
            for n, ms in enumerate((100, 900, 100), 1):
                self.file(f'p/server.{pid}.{n:04}.cpu.pb.gz', [(['sort', 'main'], [1, ms * 10**6])], [('samples', 'count'), ('cpu', 'nanoseconds')], int((START + 10 * n + late) * SECOND), 10 * SECOND)
        self.show(f'{self.dir.name}/p')
        self.browser.click('#glance div button:last-child')
        self.assertEqual(self.shown(), [1800 * 10**6])
        self.assertRegex(self.browser.text('#glance div'), '^CPUs busymost 0.1[78], ')

    def test_a_deadlock_is_told_where_the_small_chart_of_locks_goes_to_zero(self):
        directory = self.contended()
        self.file('p/server.7.0009.block.pb.gz', [], MUTEX, (START + 80) * SECOND, 10 * SECOND, comment='#stuck 15000 deadlock of 2 threads: thread 7 waits')
        self.show(directory)
        button = '#glance div:last-child button:last-child'
        since = self.browser.js('return new Date(arguments[0]).toString().slice(16, 24)', (START + 75) * 1000)
        self.assertRegex(self.browser.text(button), f'^2 stuck since .*{since}$')
        self.browser.click(button)
        self.assertIn('deadlock of 2 threads', self.browser.text('#stuck'))
        self.assertEqual(self.browser.js('const of = s => getComputedStyle(document.querySelector(s)); return of("#sentences [data-kind=stuck]").borderLeftColor === of("#stuck p").color'), True)

    def test_whole_stays_whole_for_other_kinds_and_in_a_link(self):
        for n, size in enumerate((1000, 9000, 10), 1):
            start = (START + 10 * (n - 1)) * SECOND
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [(['fill', 'main'], [1, 100, 1, size])], HEAP, start, 10 * SECOND)
            self.file(f'p/server.7.{n:04}.cpu.pb.gz', [(['sort', 'main'], [1, n])], [('samples', 'count'), ('cpu', 'nanoseconds')], start, 10 * SECOND)
        self.show(f'{self.dir.name}/p', fragment='#k=cpu')
        for kind, shown in (('heap', 9000), ('cpu', 6), ('heap', 9000)):  # the page's choice: the peak, of memory only
            self.browser.click(f'#kinds [data-value={kind}]')
            self.assertEqual(self.shown(), [shown])
        self.browser.click('#whole')
        for kind, shown in (('cpu', 6), ('heap', 10)):
            self.browser.click(f'#kinds [data-value={kind}]')
            self.assertEqual(self.shown(), [shown])
        for _ in range(2):
            self.show(f'{self.dir.name}/p', fragment=self.browser.fragment())
            self.assertEqual(self.shown(), [10])

    def test_a_rate_is_the_sum_of_a_tick_over_its_length(self):
        for n in range(1, 5):
            self.file(f'p/server.7.{n:04}.mutex.pb.gz', [(['pthread_mutex_unlock', 'work', 'main'], [n, n * 5 * SECOND])], MUTEX, (START + 10 * (n - 1)) * SECOND,
                      10 * SECOND)
        self.show(f'{self.dir.name}/p')
        self.assertEqual(self.browser.js('return document.querySelector("#glance div").textContent').split(',')[0], 'threads held up by locksmost 2')

    def test_processes_have_a_row_each_with_the_values_of_top(self):
        for pid, size in ((7, 1000), (8, 3000)):
            for n in (1, 2, 3):
                when = (START + 10 * (n - 1)) * SECOND
                self.file(f'p/worker.{pid}.{n:04}.heap.pb.gz', [(['fill', 'main'], [n, n * size, n, n * size])], HEAP, when, 10 * SECOND, comment='')
                self.file(f'p/worker.{pid}.{n:04}.mutex.pb.gz', [(['pthread_mutex_unlock', f'hold_{pid}', 'main'], [1, size])], MUTEX, when, 10 * SECOND)
        self.show(f'{self.dir.name}/p')
        self.browser.click('[data-value=workers]')
        rows = self.rows('#workers')
        for pid in (7, 8):
            of = [f'{self.dir.name}/p/worker.{pid}.*']
            in_use, allocated = (self.top('--kind', 'heap', '--type', t, *of)[0] for t in ('inuse_space', 'alloc_space'))
            held = self.top('--kind', 'mutex', '--type', 'delay', *of)[0]
            self.assertEqual(rows[f'worker {pid}'][2:], [in_use, in_use, in_use * 2 // 3, allocated, held])
        self.assertIn('hold_8', self.browser.text('#workers'))
        self.browser.click('#workers [data-key="worker 8"]')
        self.assertEqual(self.shown(), [self.top('--kind', 'heap', '--type', 'inuse_space', f'{self.dir.name}/p/worker.8.*')[0]])

    def test_the_keys_are_listed_on_demand(self):
        self.show(self.server())
        hidden = 'return document.getElementById("help").hidden'
        self.assertTrue(self.browser.js(hidden))
        self.browser.keys('#flame', '?')
        self.assertFalse(self.browser.js(hidden))
        self.browser.click('#keys')
        self.assertTrue(self.browser.js(hidden))

    def test_files_of_other_names_have_no_summary(self):
        self.show(self.file('x', [(['main'], [1, 1, 1, 1])], HEAP))
        self.assertTrue(self.browser.js('return document.getElementById("sentences").hidden'))


if __name__ == '__main__':
    unittest.main(argv=['test_page_opening.py'])
