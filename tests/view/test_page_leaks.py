# SPDX-License-Identifier: MIT
"""The page shows the verdict of `deltaprof leaks` on the same files, with its rows, and judges nothing itself.

    test_page_leaks.py DELTAPROF
"""
import gzip
import json
import os
import unittest

from page_case import SECOND, START, PageCase
from random_profile import number

RATE, TICK_S = 524288, 15


class Leaks(PageCase):
    def ticks(self, name, n_ticks, leak):
        """Ticks of a server with traffic; `leak` blocks of 64 kB are lost in each."""
        for n in range(1, n_ticks + 1):
            rows = [(['request', 'main'], [2000, 2000 << 14, 300, 300 << 14])]
            if leak:
                rows.append((['malloc', 'forget', 'on_error', 'main'], [leak, leak << 16, leak * n, leak * n << 16]))
            data = gzip.decompress(self.profile(rows, time_ns=(START + TICK_S * n) * SECOND, duration_ns=TICK_S * SECOND))
            self.file(f'{name}/server.7.{n:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        return os.path.join(self.dir.name, name)

    def shown(self, directory):
        self.show(directory)
        self.browser.click('[data-value=leaks]')
        words = self.browser.js('return document.getElementById("leaksWords").textContent')
        rows = self.browser.js('return [...document.querySelectorAll("#leaks tbody tr")].map(r => [...r.children].map(c => c.textContent))')
        return words, rows, json.loads(self.run_it('leaks', '--json', '-n0', directory))

    def test_a_leak_is_shown_as_the_command_says_it(self):
        words, rows, command = self.shown(self.ticks('a', 40, 60))
        leak, = command['leaks']
        self.assertEqual(command['verdict'], 'leak')
        self.assertTrue(words.startswith('1 leak.'), words)
        self.assertIn(f'{command["ticks"]} ticks', words)
        self.assertEqual(rows[0][0], f'leak, confidence {round(100 * leak["confidence"])} %')
        since = self.browser.js('return new Date(arguments[0]).toString().slice(16, 24)', leak['since_ns'] / 10**6)
        self.assertEqual(rows[0][3], since)  # not 'the start', which may be long before there is memory
        self.assertEqual(rows[0][-1], ' ‹ '.join(f['function'] for f in leak['stack']))

    def test_a_leak_says_since_when_it_grows_and_a_click_shows_what_came_then(self):
        for n in range(1, 41):
            lost = max(n - 25, 0)
            rows = [(['request', 'main'], [2000, 2000 << 14, 300, 300 << 14]), (['malloc', 'forget', 'on_error', 'main'], [60, 60 << 16, 10 + 60 * lost, (10 + 60 * lost) << 16]),
                    (['malloc', 'forget', 'main'], [90 - n, (90 - n) << 16, 90 - n, (90 - n) << 16])]
            data = gzip.decompress(self.profile(rows, time_ns=(START + TICK_S * n) * SECOND, duration_ns=TICK_S * SECOND))
            self.file(f'd/server.7.{n:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        _, rows, command = self.shown(os.path.join(self.dir.name, 'd'))
        self.assertEqual([f['function'] for f in command['leaks'][0]['stack']][:2], ['forget', 'on_error'])
        since = self.browser.js('const at = new Date(arguments[0]); return [at.getHours(), at.getMinutes(), at.getSeconds()].map(n => String(n).padStart(2, "0")).join(":")',
                                (START + TICK_S * 26) * 1000)
        self.assertEqual(rows[0][3], since)
        self.browser.click('#leaks tbody td')
        self.assertEqual(super().shown(), [60 * 15 << 16])

    def family(self):
        """Two workers that grow a cache, one of which loses blocks from its tenth tick on, at a line that is known; thread 9 lost them."""
        for n in range(1, 31):
            for pid in (7, 8):
                lost = 60 * max(n - 10, 0) if pid == 8 else 0
                rows = [(['malloc', 'put', 'main'], [2, 2 << 14, 2 * n, 2 * n << 14])] + ([(['malloc', 'forget', 'work'], [60, 60 << 12, lost, lost << 12])] if lost else [])
                data = gzip.decompress(self.profile(rows, time_ns=(START + TICK_S * n) * SECOND, duration_ns=TICK_S * SECOND))
                self.file(f'f/server.{pid}.{n:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        return os.path.join(self.dir.name, 'f')

    def test_rows_are_of_the_range_and_name_the_process(self):
        _, rows, _ = self.shown(self.family())
        columns = self.browser.js('return [...document.querySelectorAll("#leaks th")].map(h => h.textContent.replace(/ .$/, ""))')
        of = lambda rows, name: dict(zip(columns, next(row for row in rows if name in row[-1])))  # noqa: E731
        self.assertEqual((of(rows, 'forget')['process'], of(rows, 'put')['process']), ('server 8', '2 processes'))
        self.assertEqual((of(rows, 'forget')['grew'], of(rows, 'forget')['a second'], of(rows, 'forget')['ticks']), ('4.69 MB', '16 kB', '20 up, 0 down'))
        at = lambda n: (START + TICK_S * (n + 1)) * 1000  # noqa: E731
        self.browser.js('location.hash = arguments[0]', f'k=heap&v=leaks&r={at(20)},{at(25)}')
        self.browser.wait(lambda: 'MB' in self.browser.text('#leaks') and self.browser.text('#leaks').count('4.69 MB') == 0)
        half = self.browser.js('return [...document.querySelectorAll("#leaks tbody tr")].map(r => [...r.children].map(c => c.textContent))')
        self.assertEqual((of(half, 'forget')['grew'], of(half, 'forget')['in use']), ('1.17 MB', '3.52 MB'))
        self.browser.js('[...document.querySelectorAll("#leaks tbody tr")].find(r => r.textContent.includes("forget")).click()')
        self.assertEqual(super().shown(), [60 * 5 << 12])  # what the table says

    def test_no_leak_is_shown_as_the_command_says_it(self):
        words, rows, command = self.shown(self.ticks('b', 40, 0))
        self.assertEqual((command['verdict'], rows), ('no leak', []))
        self.assertTrue(words.startswith('No leak:'), words)

    def test_what_cannot_be_told_says_what_it_needs(self):
        words, _, command = self.shown(self.ticks('c', 3, 60))
        self.assertEqual(command['verdict'], 'cannot tell')
        self.assertIn(f'Cannot tell: {command["needs"]}.', words)

    def test_stacks_of_other_processes_than_the_chosen_one_are_left_out(self):
        directory = self.ticks('e', 40, 60)
        for n in range(1, 41):
            data = gzip.decompress(self.profile([(['request', 'main'], [2000, 2000 << 14, 300, 300 << 14])], time_ns=(START + TICK_S * n) * SECOND, duration_ns=TICK_S * SECOND))
            self.file(f'e/server.8.{n:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        _, rows, _ = self.shown(directory)
        self.assertEqual(len(rows), 1)
        choices = dict(self.browser.js('return [...document.querySelectorAll("#process option")].map(o => [o.textContent, o.value])'))
        listed = 'return [...document.querySelectorAll("#leaks tbody tr")].filter(r => r.textContent.includes("forget")).length'
        self.browser.choose('#process', choices['server 8'])
        self.assertEqual(self.browser.js(listed), 0)
        self.browser.choose('#process', choices['server 7'])
        self.assertEqual(self.browser.js(listed), 1)

    def test_profiles_of_other_names_are_not_judged(self):
        path = self.file('other.pb.gz', [(['f', 'main'], [1, 1 << 20, 1, 1 << 20])])
        self.show(path)
        self.browser.click('[data-value=leaks]')
        self.assertIn('deltaprof leaks judges', self.browser.js('return document.getElementById("leaksWords").textContent'))


if __name__ == '__main__':
    unittest.main()
