# SPDX-License-Identifier: MIT
"""Comparisons in the page: two ranges, two directories, two files; groups of processes.

    test_page_diff.py DELTAPROF
"""
import os
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP


class Diff(PageCase):
    def side(self, name, factor, more=(), n_ticks=2):
        """A directory with two ticks each of two servers and one tool."""
        for program, pid in ('server', 7), ('server', 8), ('tool', 9):
            for n in range(1, n_ticks + 1):
                rows = [(['cache_fill', 'serve', 'main'], [factor, 100 * factor, factor, 100 * factor]), (['log', 'main'], [n, 10 * n, 1, 10])]
                self.file(f'{name}/{program}.{pid}.{n:04}.heap.pb.gz', rows + list(more), HEAP, (START + 10 * n) * SECOND, 10 * SECOND, program=f'/usr/bin/{program}')
        return os.path.join(self.dir.name, name)

    def changes(self):
        """{name: [size of the change, A, B]} of the table below the flame graph, and the names in their order."""
        rows = self.rows('#changes')
        return {name: numbers[:3] for name, numbers in rows.items()}, list(rows)

    def test_two_directories_are_compared_as_top_sums_each_of_them(self):
        old, new = self.side('old', 3), self.side('new', 5, [(['list_append', 'main'], [1, 2000, 1, 2000])])
        self.show('--diff', old, new)
        self.assertEqual(self.shown(), [self.top(directory)[0] for directory in (old, new)])
        a, b = (self.top(directory)[1] for directory in (old, new))
        changes, order = self.changes()
        self.assertEqual(changes, {'list_append': [6000, 0, b['list_append'][0]], 'cache_fill': [600, a['cache_fill'][0], b['cache_fill'][0]]})
        self.assertEqual(order, ['list_append', 'cache_fill'])
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#changes tbody tr")].map(r => [r.children[0].textContent[0], r.children[3].textContent])'),
                         [['+', 'new'], ['+', 'x 1.67']])
        self.assertIn('only in B, or more', self.browser.text('#lensLegend'))
        self.browser.choose('#type', 'alloc_space')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', directory)[0] for directory in (old, new)])

    def test_two_recordings_of_different_lengths_can_be_compared_as_if_they_were_as_long(self):
        old, new = self.side('old', 3, n_ticks=1), self.side('new', 5, n_ticks=4)
        for name, n in (('old', 1), ('new', 4)):
            for tick in range(1, n + 1):
                self.file(f'{name}/server.7.{tick:04}.cpu.pb.gz', [(['f', 'main'], [1, 100])], [('samples', 'count'), ('cpu', 'nanoseconds')], (START + 10 * tick) * SECOND, 10 * SECOND)
        self.show('--diff', old, new)
        self.browser.click('#kinds [data-value=cpu]')
        self.assertEqual(self.shown(), [100, 400])
        self.browser.click('#even')
        self.assertEqual(self.shown(), [400, 400])
        self.assertIn('as if as long as B', self.browser.text('#shown'))

    def test_a_link_keeps_what_is_compared(self):
        old, new = self.side('old', 5), self.side('new', 3)
        self.show('--diff', old, new)
        self.browser.choose('#type', 'alloc_space')
        self.browser.js('[...document.querySelectorAll("#changes tbody tr")].find(r => r.textContent.includes("cache_fill")).click()')
        self.assertEqual(self.browser.js('return document.getElementById("search").value'), '^cache_fill$')
        shown, fragment = self.shown(), self.browser.fragment()
        self.show('--diff', old, new, fragment=fragment)
        self.assertEqual(self.shown(), shown)
        self.browser.click('#compare')  # off: what was B stays
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', new)[0]])
        self.assertTrue(self.browser.js('return document.getElementById("changesBox").hidden'))

    def test_two_files_are_compared(self):
        old, new = (self.file(f'{name}.pb.gz', [(['f', 'main'], [1, value, 1, value]), (['g', 'main'], [1, 9, 1, 9])], program='/usr/bin/tool') for name, value in (('x', 10), ('y', 4)))
        self.show('--diff', old, new)
        self.assertEqual([self.shown(), self.changes()[0]], [[19, 13], {'f': [-6, 10, 4]}])
        self.assertEqual(self.box_at(5, 27)[-1], 'A 19 B   B 13 B   -6 B')

    def test_two_dragged_ranges_have_a_table_of_what_changed_most(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.drag(1, 2)
        self.assertTrue(self.browser.js('return document.getElementById("tip").hidden'))  # it would lie on the buttons
        self.browser.click('#compare')
        self.drag(5, 8)
        a, b = (self.top('--type', 'alloc_space', *self.files('heap', *numbers))[1] for numbers in ((1, 2), (5, 6, 7, 8)))
        self.assertEqual(self.changes()[0], {name: [b[name][0] - a[name][0], a[name][0], b[name][0]] for name in ('cache_fill', 'format', 'list_append')})
        self.browser.click('#even')
        self.assertEqual(self.changes()[0], {})  # as much in each second
        self.assertEqual(self.browser.text('#changesTitle'), 'nothing changed')

    def test_two_ranges_that_are_the_same_say_what_to_do(self):
        self.show(self.server(), fragment='#t=alloc_space')
        self.browser.click('#compare')
        self.assertIn('choose B', self.browser.text('#changesTitle'))
        self.browser.click('#changesTitle button')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', *numbers))[0] for numbers in ((1, 2, 3, 4), (5, 6, 7, 8))])

    def test_a_directory_or_a_program_can_be_chosen(self):
        old, new = self.side('old', 3), self.side('new', 5)
        self.show(old, new)
        names = self.browser.js('return [...document.querySelectorAll("#process option")].map(o => [o.textContent, o.value])')
        choice = dict(names)
        self.assertEqual([name for name, value in names if int(value) < -1],
                         [f'{old}: 3 processes', f'{new}: 3 processes', f'server in {old}: 2 processes', f'server in {new}: 2 processes'])
        for name, wanted in ((f'{old}: 3 processes', self.top(old)), (f'server in {new}: 2 processes', self.top(f'{new}/server.*'))):
            self.browser.choose('#process', choice[name])
            self.assertEqual(self.shown(), [wanted[0]], name)


if __name__ == '__main__':
    unittest.main()
