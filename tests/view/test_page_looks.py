# SPDX-License-Identifier: MIT
"""The page's looks and keys: the chart of few ticks, narrow windows, forced colours, the key of the search field.

    test_page_looks.py DELTAPROF
"""
import unittest

from page_case import SECOND, START, PageCase, heap_rows
from random_profile import HEAP


class Looks(PageCase):
    def cdp(self, command, **parameters):
        self.browser.call('POST', self.browser.session + '/goog/cdp/execute', {'cmd': command, 'params': parameters})

    def test_the_chart_of_one_profile_is_not_empty(self):
        self.show(self.file('p', heap_rows(2), HEAP, START * SECOND, 10 * SECOND, comment=f'#RssTotal={30 << 10}'))
        for x in (3, 600, 1200):
            self.browser.pointer('#chart', (x, 60))
            self.assertIn('30 kB  RSS', self.browser.text('#tip'))
            self.assertIn('20.6 kB in all', self.browser.text('#tip'))

    def test_resident_memory_that_towers_over_the_rest_is_off_until_it_is_wanted(self):
        self.show(self.server())  # 20 kB in use, 8 MB resident
        width, lines = self.browser.js('return document.getElementById("chart").clientWidth'), '[...document.querySelectorAll("#legend button")].map(b => [b.textContent, b.className])'
        self.assertNotIn('RSS', '\n'.join(self.box_at(width - 3, 60, '#chart')))
        self.assertEqual(self.browser.js(f'return {lines}'), [['RSS', 'off'], ['anonymous RSS', 'off']])
        self.browser.click('#legend button')
        self.assertEqual(self.browser.js(f'return {lines}'), [['RSS', ''], ['anonymous RSS', 'off']])
        self.assertIn('8 MB  RSS', self.box_at(width - 3, 60, '#chart'))
        self.browser.click('#legend button')
        self.assertEqual(self.browser.js(f'return {lines}'), [['RSS', 'off'], ['anonymous RSS', 'off']])

    def test_a_level_is_drawn_over_its_tick(self):
        paths = [self.file(f'server.7.{n:04}.heap.pb.gz', [(['main'], [1, 1, 1, value])], HEAP, (START + when) * SECOND, 10 * SECOND)
                 for n, (when, value) in enumerate(((0, 10), (10, 20), (70, 30)), 1)]
        self.show(*paths)
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        seen = [self.box_at(width * at / 80, 60, '#chart')[1] for at in (2, 8, 12, 18, 30, 68, 72, 78)]
        self.assertEqual([line.split()[0] for line in seen], ['10', '10', '20', '20', '20', '20', '30', '30'])

    def test_a_short_tick_does_not_tower_over_the_others(self):
        for n in range(1, 9):
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [(['main'], [1, 10000, 1, 1])], HEAP, (START + 10 * (n - 1)) * SECOND, 10 * SECOND)
        self.file('p/server.7.0009.heap.pb.gz', [(['main'], [1, 10000, 1, 1])], HEAP, (START + 80) * SECOND, 10**6)
        self.show(f'{self.dir.name}/p', fragment='#t=alloc_space')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        first, last = (next(float(line.split()[0]) * (1024 if 'kB/s' in line else 1) for line in self.box_at(x, 60, '#chart') if '/s' in line) for x in (width / 2, width - 1))
        self.assertEqual(first, 1000)
        self.assertLess(last, 15000)  # 10,000 bytes in 800 ms, and not in a pixel

    def test_the_printed_page_is_as_wide_as_the_paper_and_has_no_buttons(self):
        self.show(self.server())
        self.addCleanup(self.cdp, 'Emulation.setEmulatedMedia', media='')
        self.cdp('Emulation.setEmulatedMedia', media='print')
        widths = self.browser.js('document.body.style.width = "600px"; return [...document.querySelectorAll("canvas")].map(c => c.getBoundingClientRect()).map(b => [b.left + b.width, b.height])')
        self.assertTrue(all(right <= 601 for right, _ in widths) and widths[0][1] > 50, widths)
        self.assertFalse(self.browser.js('return [...document.querySelectorAll("nav button, header button, #time button")].some(b => b.offsetParent)'))

    def test_slash_goes_to_the_search_field_from_anywhere(self):
        self.show(self.server())
        for selector in ('[data-value=table]', '#fold', '#table th', '#chart'):
            self.browser.click(selector)
            self.browser.js('document.querySelector(arguments[0]).focus()', selector)
            self.browser.keys(selector, '/')
            self.assertEqual(self.browser.js('return [document.activeElement.id, document.activeElement.value]'), ['search', ''], selector)
        self.browser.keys('#search', 'a/b')
        self.assertEqual(self.browser.js('return document.getElementById("search").value'), 'a/b')

    def test_a_narrow_window_needs_no_scrolling_sideways(self):
        self.show(self.server())
        self.addCleanup(self.cdp, 'Emulation.clearDeviceMetricsOverride')
        self.cdp('Emulation.setDeviceMetricsOverride', width=320, height=800, deviceScaleFactor=1, mobile=False)
        for view in ('flame', 'table', 'locks', 'leaks', 'rss', 'info'):
            self.browser.click(f'[data-value={view}]')
            scroll, client = self.browser.js('return [document.documentElement.scrollWidth, document.documentElement.clientWidth]')
            self.assertLessEqual(scroll, client, view)

    def test_forced_colours_keep_what_is_chosen(self):
        self.show(self.server())
        self.addCleanup(self.cdp, 'Emulation.setEmulatedMedia', features=[])
        self.cdp('Emulation.setEmulatedMedia', features=[{'name': 'forced-colors', 'value': 'active'}])
        colours = self.browser.js('return ["[data-value=flame]", "[data-value=table]", "#legend i"].map(s => getComputedStyle(document.querySelector(s)).backgroundColor)')
        self.assertEqual(len(set(colours)), 3, colours)

    def test_a_range_that_moves_has_the_sums_of_its_ticks(self):
        self.show(self.server())
        for name in ('alloc_space', 'inuse_space'):
            self.browser.choose('#type', name)
            self.drag(3, 5)
            first, last = 3, 5
            for key, begin, end in (('\ue012', -1, -1), ('\ue014', 1, 1), ('\ue014', 1, 1), ('\ue008\ue012\ue008', -1, 0), ('\ue009\ue014\ue009', 0, 1), ('\ue009\ue012\ue009', 0, -1),
                                    ('\ue012', -1, -1), ('\ue008\ue014\ue008', 1, 0), ('\ue014', 1, 1)):
                self.browser.keys('#chart', key)
                first, last = first + begin, last + end
                files = self.files('heap', *(range(first, last + 1) if name == 'alloc_space' else [last]))
                self.assertEqual(self.shown(), [self.top('--type', name, *files)[0]], (name, first, last))


if __name__ == '__main__':
    unittest.main()
