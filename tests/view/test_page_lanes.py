# SPDX-License-Identifier: MIT
"""Lanes of threads in the page: what a thread did at which time, one range for all views, one thread alone.

    test_page_lanes.py DELTAPROF
"""
import os
import unittest

from page_case import SECOND, START, PageCase
from test_page_heat import EVENTS

MS = 10**6
LANE_PX = 15


class Lanes(PageCase):
    def events(self, n_threads=3, **more):
        """Thread 7, the main one, waits for the others for ten seconds; 8 runs parse in the first half and waits for a lock in the second; 9 runs write all the time."""
        rows = [(['pthread_join', 'main'], [0, 0, 1, 10 * SECOND, 0, 0, 0, 0], self.labels(10000, 7, lock='join'))]
        rows += [(['parse', 'work', 'start_thread'], [0, 0, 0, 0, 0, 0, 1, 20 * MS], self.labels(20 * i + 10, 8, thread='worker', **more)) for i in range(250)]
        rows += [(['pthread_mutex_lock', 'parse', 'work', 'start_thread'], [0, 0, 1, 5 * SECOND, 0, 0, 0, 0], self.labels(10000, 8, lock='mutex', thread='worker'))]
        for tid in range(9, 7 + n_threads):
            rows += [(['write', 'work', 'start_thread'], [0, 0, 0, 0, 0, 0, 1, 20 * MS], self.labels(20 * i + 10, tid)) for i in range(500 if tid == 9 else 5)]
        rows += [(['read', 'work', 'start_thread'], [1, 4096, 0, 0, 0, 0, 0, 0], self.labels(9990, 9))]
        self.file('p/server.7.0001.events.pb.gz', rows, EVENTS, START * SECOND, 10 * SECOND)
        return os.path.join(self.dir.name, 'p')

    @staticmethod
    def labels(at_ms, tid, **more):
        return {'end_timestamp_ns': START * SECOND + at_ms * MS, 'thread id': tid, **more}

    def at(self, lane, second, whole=10):
        """The lines of the tooltip of a lane, at a time in the shown range."""
        left, width = self.browser.js('const e = document.getElementById("lanes"), w = Math.min(150, Math.floor(e.clientWidth / 4)); return [w, e.clientWidth - w]')
        return self.box_at(left + width * second / whole, LANE_PX * lane + 6, '#lanes')

    def places(self, lane, *seconds):
        left, width = self.browser.js('const e = document.getElementById("lanes"), w = Math.min(150, Math.floor(e.clientWidth / 4)); return [w, e.clientWidth - w]')
        return [(left + width * second / 10, LANE_PX * lane + 6) for second in seconds]

    def test_a_lane_tells_what_its_thread_did_when(self):
        self.show(self.events(), fragment='#k=events')
        self.assertEqual([self.at(lane, 2)[0] for lane in range(3)], ['main 7', 'work 9', 'worker 8'])
        self.assertEqual(self.at(0, 2)[2:4], ['sleep: pthread_join', 'for 10 s'])
        self.assertEqual(self.at(1, 2)[2], 'running: write')
        self.assertEqual([self.at(2, second)[2] for second in (1, 4.5, 5.5, 9)], ['running: parse'] * 2 + ['lock: parse'] * 2)
        self.assertEqual(self.at(2, 9)[3:], ['for 5 s', 'lock mutex', 'thread worker'])
        names = 'return [...document.querySelectorAll("#lanesLegend *")].map(e => e.textContent).filter(Boolean)'
        self.assertEqual(self.browser.js(names), ['parse', 'write', 'read', 'idle'])
        pixels = self.pixels('#lanes')
        self.browser.choose('#lanesBy', 'state')
        self.assertNotEqual(self.pixels('#lanes'), pixels)
        self.assertEqual(self.browser.js(names), ['running', 'lock', 'sleep', 'allocates'])

    def test_the_range_is_that_of_all_views_and_a_click_leaves_one_thread(self):
        self.show(self.events(), fragment='#k=events&t=cpu')
        self.assertEqual(self.shown(), [(5 + 10) * SECOND])
        self.browser.pointer('#lanes', *self.places(1, 6, 8), button=True)
        self.assertAlmostEqual(self.shown()[0], 2 * SECOND, delta=60 * MS)
        self.assertEqual(self.at(1, 2)[2], 'running: write')
        self.browser.keys('#lanes', '\ue00c')  # Escape: the whole
        self.browser.pointer('#lanes', *self.places(2, 1), *self.places(2, 1), button=True)
        self.assertEqual([self.shown(), self.browser.text('#chips')], [[5 * SECOND], 'thread id 8 ✕'])
        self.browser.keys('#lanes', '+')
        self.assertAlmostEqual(self.shown()[0], 2.5 * SECOND, delta=60 * MS)
        self.browser.click('#chips button')
        self.assertAlmostEqual(self.shown()[0], 7.5 * SECOND, delta=120 * MS)

    def test_states_that_profiles_name_have_their_colours(self):
        self.show(self.events(state='io'), fragment='#k=events&th=state')
        self.assertEqual([self.at(2, second)[2] for second in (1, 9)], ['io: parse', 'lock: parse'])
        self.assertIn('io', self.browser.text('#lanesLegend'))

    def test_a_kind_with_states_is_coloured_by_them(self):
        types = [('samples', 'count'), ('wall', 'nanoseconds')]
        rows = [(['read', 'work', 'main'], [3, 30], {'state': 'io'}), (['parse', 'work', 'main'], [2, 20], {'state': 'running'}), (['parse', 'work', 'main'], [1, 5], {'state': 'lock'}),
                (['odd', 'main'], [1, 7], {'state': 'elsewhere'})]
        self.file('w/server.7.0001.wall.pb.gz', rows, types, START * SECOND, 10 * SECOND)
        self.file('w/server.7.0001.heap.pb.gz', [(['main'], [1, 1, 1, 1])], time_ns=START * SECOND, duration_ns=10 * SECOND)
        self.show(os.path.join(self.dir.name, 'w'), fragment='#k=wall')
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#legend *")].map(e => e.textContent).filter(Boolean)'), ['io', 'running', 'elsewhere', 'lock'])
        names = 'return [...document.querySelectorAll("#lensLegend button")].map(e => e.textContent)'
        self.assertEqual(self.browser.js(names), ['running', 'lock', 'io', 'elsewhere'])
        self.assertEqual(self.box_at(5, 81)[-3:], ['30 ns 48.4 %', 'itself 30 ns', 'io: 30 ns 100.0 %'])
        self.assertEqual(self.box_at(5, 9)[-4:-2], ['io: 30 ns 48.4 %', 'running: 20 ns 32.3 %'])  # all
        self.assertEqual(self.box_at(5, 27)[0], '[io]')
        self.browser.click('#lensLegend button')
        self.assertEqual([self.shown(), self.browser.text('#chips')], [[20], 'state running ✕'])

    def test_a_thread_stays_chosen_where_another_kind_does_not_tell_it(self):
        self.file('p/server.7.0001.cpu.pb.gz', [(['parse', 'work'], [1, 7 * SECOND])], EVENTS[6:], START * SECOND, 10 * SECOND)
        self.show(self.events(), fragment='#k=events&t=cpu')
        self.browser.pointer('#lanes', *self.places(2, 5), button=True)
        alone = self.shown()
        self.browser.click('[data-value=cpu]')
        self.assertEqual((self.shown(), self.browser.text('#chips')), ([7 * SECOND], 'thread id 8: cpu profiles do not tell it, shown are all ✕'))
        self.browser.click('[data-value=events]')
        self.assertEqual((self.browser.text('#chips'), alone), ('thread id 8 ✕', [5 * SECOND]))

    def test_of_many_threads_the_first_forty_are_drawn(self):
        self.show(self.events(n_threads=50), fragment='#k=events')
        self.assertTrue(self.browser.text('#lanesNote').endswith('; 10 more threads'))
        self.assertEqual(self.browser.js('return document.getElementById("lanes").clientHeight'), 40 * LANE_PX + 16)


if __name__ == '__main__':
    unittest.main()
