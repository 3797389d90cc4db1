# SPDX-License-Identifier: MIT
"""The heat map of the page in a real browser: a block of it is a range of time, whose flames have just its samples.

    test_page_heat.py DELTAPROF
"""
import os
import unittest

from page_case import SECOND, START, PageCase

EVENTS = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('contentions', 'count'), ('delay', 'nanoseconds'),
          ('mutex_contentions', 'count'), ('mutex_delay', 'nanoseconds'), ('samples', 'count'), ('cpu', 'nanoseconds')]
MS = 10**6
ROW_PX = 4


class Heat(PageCase):
    def events(self, directory, samples):
        """samples: (ms after START, function, ms of CPU time)."""
        rows = [([name, 'main'], [0, 0, 0, 0, 0, 0, 1, cpu * MS], {'end_timestamp_ns': START * SECOND + at * MS, 'thread id': 7})
                for at, name, cpu in samples]
        rows.append((['f', 'main'], [1, 4096, 0, 0, 0, 0, 0, 0], {'end_timestamp_ns': START * SECOND, 'thread id': 7}))
        self.file(f'{directory}/server.7.0001.events.pb.gz', rows, EVENTS, START * SECOND, 60 * SECOND)
        cpu = [([name, 'main'], [1, ms * MS]) for _, name, ms in samples]
        self.file(f'{directory}/server.7.0001.cpu.pb.gz', cpu, EVENTS[6:], START * SECOND, 60 * SECOND)
        return os.path.join(self.dir.name, directory)

    def busy(self):
        """Six seconds with a little work all the time, and in each second from 400 to 440 ms a burst."""
        samples = [(1000 * s + 20 * i + 10, 'steady', 1) for s in range(6) for i in range(50)]
        samples += [(1000 * s + at, 'burst', 20) for s in range(6) for at in (405, 425)]
        return self.events('p', samples)

    def column_px(self):
        return self.browser.js('return document.getElementById("heat").clientWidth') / 60

    def drag(self, first, last):
        """From one cell, (second, ms), to another one."""
        places = [((second + 0.5) * self.column_px(), (ms // 20 + 0.5) * ROW_PX) for second, ms in (first, last)]
        self.browser.pointer('#heat', *places, button=True)

    def test_a_block_has_just_its_samples(self):
        directory = self.busy()
        self.show(directory, fragment='#k=events')
        self.assertEqual(self.shown(), [(300 + 6 * 40) * MS])
        self.drag((2, 400), (2, 420))
        self.assertEqual(self.shown(), [(40 + 2) * MS])
        self.browser.click('[data-value=table]')
        self.assertEqual(self.flat_and_cum(), {'burst': [40 * MS, 40 * MS], 'steady': [2 * MS, 2 * MS], 'main': [0, 42 * MS]})
        self.browser.click('[data-value=flame]')
        self.drag((4, 0), (3, 980))  # backwards, over the end of a second
        self.assertEqual(self.shown(), [2 * MS])
        self.browser.click('#whole')
        self.assertEqual(self.shown(), [540 * MS])

    def test_a_block_is_moved_by_keys(self):
        self.show(self.busy(), fragment='#k=events')
        for key, ms in (('\ue014', 21), ('\ue015', 21), ('\ue015', 1), ('\ue013\ue013', 21), ('\ue008\ue015\ue008', 42), ('\ue014', 42), ('\ue00c', 540)):
            self.browser.keys('#heat', key)  # right: the largest; down; down; up, up; shift and down; right; Escape
            self.assertEqual(self.shown(), [ms * MS], key)

    def test_a_cell_tells_its_time_and_its_value(self):
        self.show(self.busy(), fragment='#k=events')
        lines = self.box_at(1.5 * self.column_px(), 20.5 * ROW_PX, '#heat')
        self.assertTrue(lines[0].endswith('.400'), lines)
        self.assertEqual(lines[1], '21 ms in 20 ms')
        pixels = self.pixels('#heat')
        self.browser.choose('#type', 'samples')
        self.assertNotEqual(self.pixels('#heat'), pixels)
        self.assertEqual(self.shown(), [312])

    def test_one_busy_second_of_an_hour_is_seen_in_both_charts(self):
        samples = [(10000 * i + 10, 'steady', 1) for i in range(360)] + [(1800000 + 20 * i + 10, 'burst', 20) for i in range(50)]
        rows = [([name, 'main'], [0, 0, 0, 0, 0, 0, 1, cpu * MS], {'end_timestamp_ns': START * SECOND + at * MS, 'thread id': 7}) for at, name, cpu in samples]
        self.file('q/server.7.0001.events.pb.gz', rows, EVENTS, START * SECOND, 3600 * SECOND)
        self.show(os.path.join(self.dir.name, 'q'), fragment='#k=events&t=cpu')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        seen = [self.box_at(width // 2 + px, 100, '#chart') for px in range(-1, 4)]
        self.assertGreaterEqual(max(float(line.split()[0]) for lines in seen for line in lines if line.endswith(" CPUs  burst")), 0.7)
        glance = self.browser.js('return [...document.querySelectorAll("#glance div")].map(d => d.textContent).find(t => t.startsWith("CPUs busy"))')
        self.assertTrue(glance.startswith('CPUs busymost 1'), glance)
        self.browser.js('[...document.querySelectorAll("#glance div")].find(d => d.textContent.startsWith("CPUs busy")).querySelectorAll("button")[1].click()')
        self.assertIn(self.shown(), ([1000 * MS], [1001 * MS]))

    def test_events_are_a_kind_beside_cpu(self):
        kinds = 'return [...document.querySelectorAll("#kinds button")].map(b => b.dataset.value)'
        self.show(self.busy())
        self.assertEqual(self.browser.js(kinds), ['cpu', 'events'])
        self.assertTrue(self.browser.js('return document.getElementById("heatBox").hidden'))
        self.browser.click('#kinds [data-value=events]')
        self.assertFalse(self.browser.js('return document.getElementById("heatBox").hidden'))


if __name__ == '__main__':
    unittest.main()
