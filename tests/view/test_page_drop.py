# SPDX-License-Identifier: MIT
"""The page with files and links that do not fit to its data: dropped late, damaged, from other data. Numbers are those of `deltaprof top`.

    test_page_drop.py DELTAPROF
"""
import base64
import os
import unittest

from page_case import SECOND, START, PageCase, heap_rows
from random_profile import HEAP

DROP = """const t = new DataTransfer();
for (const [name, data] of arguments[0])
    t.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], name));
window.dispatchEvent(new DragEvent('drop', {dataTransfer: t, cancelable: true}));"""


class Drop(PageCase):
    def drop(self, *paths):
        files = []
        for path in paths:
            with open(path, 'rb') as f:
                files.append([os.path.basename(path), base64.b64encode(f.read()).decode()])
        self.browser.js('document.getElementById("state").textContent = "reads"')
        self.browser.js(DROP, files)
        self.browser.wait(lambda: self.browser.text('#state') != 'reads')

    def ranges(self, *ranges):
        """Of ranges of ticks, both counted: the allocated bytes, and those in use at the end."""
        found = []
        for first, last in ranges:
            self.drag(first, last)
            for name in ('alloc_space', 'inuse_space'):
                self.browser.choose('#type', name)
                found.append(self.shown())
        return found

    def wanted(self, *ranges):
        return [[self.top('--type', name, *self.files('heap', *(range(first, last + 1) if name == 'alloc_space' else [last])))[0]]
                for first, last in ranges for name in ('alloc_space', 'inuse_space')]

    # ---- ticks at any place ----

    def test_ticks_may_be_dropped_in_any_order(self):
        self.server()
        ranges = (1, 2), (2, 5), (3, 3), (4, 7), (7, 8), (8, 8)
        for given, *dropped in ((2, 4), (8,), (1,), (3, 6, 5), (7,)), ((1, 2, 3), (4, 5, 6, 7, 8)), ((8,), (3, 5, 7), (2, 4, 6), (1,)):
            self.show(*self.files('heap', *given))
            for some in dropped:
                self.drop(*self.files('heap', *some))
            self.assertEqual(self.ranges(*ranges), self.wanted(*ranges), (given, dropped))

    def test_a_program_that_ran_before_may_be_dropped(self):
        self.show(self.server())
        before = self.browser.text('#range').split(' to ')[1].split(' (')[0]
        early = self.file('early.9.0001.heap.pb.gz', [(['old', 'main'], [1, 77, 1, 55])], HEAP, (START - 80) * SECOND, 10 * SECOND)
        self.drop(early)
        self.assertRegex(self.browser.text('#range'), fr'^2023-11-14 22:12:00 to .*{before} \(2.67 min\)$')
        self.browser.pointer('#chart', (5, 60), (self.browser.js('return document.getElementById("chart").clientWidth') / 4, 60), button=True)
        self.browser.choose('#type', 'alloc_space')
        self.assertEqual(self.shown(), [77])
        self.browser.click('#whole')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', early, *self.files('heap', *range(1, 9)))[0]])

    # ---- damaged files, values and names at the limits ----

    def test_files_that_the_command_refuses_are_refused(self):
        self.show(self.server())
        before = self.shown()
        good = self.file('good.pb.gz', heap_rows(1))
        with open(good, 'rb') as f:
            data = bytearray(f.read())
        bad = bytearray(data)
        bad[-5] ^= 1
        paths = [self.file('cut.pb.gz', bytes(data[:-40])), self.file('changed.pb.gz', bytes(bad)), self.file('few.pb.gz', [(['main'], [1])]),
                 self.file('stranger.pb', b'\x0a\x02\x08\x01' + b'\x12\x05\x0a\x01\x63\x10\x01' + b'\x32\x00\x32\x01x')]
        for path, words in zip(paths, ('gzip data is damaged', 'gzip data is damaged', '1 values for 4 sample types', 'the location 99')):
            self.run_it('top', path, status=1)
            self.drop(path)
            self.assertIn(words, self.browser.text('#state'))
            self.assertEqual(self.shown(), before)

    def test_values_below_two_to_the_52_keep_their_sign(self):
        self.show(self.file('p', [(['more', 'main'], [1, 2**54, 1, 2**54]), (['less', 'main'], [1, -2**53 - 2, 1, -2**53 - 2]), (['least', 'main'], [1, -2**62, 1, -2**62])]),
                  fragment='#v=table')
        rows = self.rows()
        self.assertEqual([rows[name][0] for name in ('more', 'less', 'least')], [2**54, -2**53 - 2, -2**62])

    def test_a_name_may_begin_with_a_mark_of_byte_order(self):
        self.show(self.file('p', [(['f', 'main'], [1, 1, 1, 1]), (['\ufefff', 'main'], [1, 2, 1, 2])]), fragment='#v=table')
        self.assertEqual([self.rows()[name][0] for name in ('f', '\ufefff')], [1, 2])

    # ---- links from other data ----

    def test_a_link_from_other_data_shows_all(self):
        directory = self.server()
        whole = self.top('--type', 'alloc_space', '--kind', 'heap', directory)[0]
        for more in '&r=1,2', '&r=5,1', '&r=9e99,-9e99', '&r=Infinity,-Infinity', f'&r={START + 100}000,{START + 200}000', '&p=7', '&p=1e9', '&a=1,2', '&a=1,1e99,7', '&p=x':
            self.show(directory, fragment='#t=alloc_space' + more)
            self.assertEqual(self.shown(), [whole], more)
            self.assertRegex(self.browser.text('#range'), r'^2023-11-14 22:13:20 to 22:14:40 \(1.33 min\)$', more)
        self.browser.js('location.hash = "#t=alloc_space&r=1,2"')
        self.browser.wait(lambda: 'r=1' not in self.browser.js('return location.hash'))
        self.assertEqual(self.shown(), [whole])


if __name__ == '__main__':
    unittest.main()
