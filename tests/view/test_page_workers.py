# SPDX-License-Identifier: MIT
"""The tables of processes and threads in the page: each row's values are those of top, and a click leaves that part.

    test_page_workers.py DELTAPROF
"""
import os
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX
from test_page_heat import EVENTS

MB = 1 << 20


class Workers(PageCase):
    def family(self):
        """Two workers and a tool that has ended; each has a lock holder, and resident memory of which 30 MB are shared."""
        for program, pid, size in ('worker', 7, 1000), ('worker', 8, 3000), ('tool', 9, 500):
            for n in (1, 2):
                when = (START + 10 * (n - 1)) * SECOND
                comments = [f'#RssTotal={(size // 100 + 30) * MB}', f'#RssAnon={size // 100 * MB}']
                self.file(f'p/{program}.{pid}.{n:04}.heap.pb.gz', [(['fill', 'main'], [n, n * size, n, n * size], {'thread': 'filler'}), (['log', 'main'], [1, 10, 1, 10], {'thread': 'logger'})],
                          HEAP, when, 10 * SECOND, program=f'/usr/bin/{program}', comment=comments + (['#exit'] if pid == 9 and n == 2 else []))
                self.file(f'p/{program}.{pid}.{n:04}.mutex.pb.gz', [(['pthread_mutex_unlock', f'hold_{pid}', 'main'], [1, size], {'thread': 'filler'})], MUTEX, when, 10 * SECOND,
                          program=f'/usr/bin/{program}')
        return os.path.join(self.dir.name, 'p')

    def column(self, name, table='#workers'):
        """{name of a row: exact value} of a column."""
        at = self.browser.js('return [...document.querySelectorAll(arguments[0] + " th")].findIndex(h => h.textContent.split(" ▾")[0].split(" ▴")[0] === arguments[1])', table, name)
        return dict(self.browser.js('return [...document.querySelectorAll(arguments[0] + " tbody tr")].map(r => [r.querySelector(".name").textContent, Number(r.children[arguments[1]].title)])',
                                    table, at))

    def test_a_family_is_the_sum_of_its_processes_and_what_they_share_counts_once(self):
        directory = self.family()
        self.show(directory, fragment='#v=workers')
        for column, kind, value in ('in use', 'heap', 'inuse_space'), ('allocated', 'heap', 'alloc_space'), ('locks', 'mutex', 'delay'):
            found = self.column(column)
            for name, paths in ('worker 7', 'worker.7.*'), ('worker 8', 'worker.8.*'), ('tool 9', 'tool.*'), ('worker: 2 processes', 'worker.*'):
                self.assertEqual(found[name], self.top('--kind', kind, '--type', value, f'{directory}/{paths}')[0], (column, name))
            self.assertEqual(found['all: 3 processes'], sum(found[name] for name in ('worker 7', 'worker 8', 'tool 9')))
        self.assertEqual({name: value / MB for name, value in self.column('resident').items()},
                         {'worker 7': 40, 'worker 8': 60, 'tool 9': 35, 'worker: 2 processes': 70, 'all: 3 processes': 75})
        self.assertIn('hold_8', self.browser.text('#workers [data-key="worker: 2 processes"]'))
        self.browser.click('#workers th:first-child')
        names = self.browser.js('return [...document.querySelectorAll("#workers tbody .name:first-child")].map(c => c.textContent)')
        self.assertEqual(names, sorted(names, reverse=True))

    def test_a_process_that_has_ended_says_so(self):
        directory = self.family()
        for n, rows, more in (1, [(['fill', 'main'], [1, 2048, 1, 2048])], []), (2, [], ['#ended']):
            self.file(f'p/tool.10.{n:04}.heap.pb.gz', rows, HEAP, (START + 10 * n) * SECOND, 10 * SECOND, program='/usr/bin/tool', comment=more)
        self.show(directory, fragment='#v=workers')
        text = lambda name: self.browser.js('return [...document.querySelectorAll(`#workers [data-key="${arguments[0]}"] td`)].filter(c => ["in use", "growth"].includes(c.dataset.name)).map(c => c.textContent)', name)  # noqa: E731
        self.assertEqual(text('tool 10'), ['ended, 2 kB at its most', ''])
        self.assertRegex(text('tool 9')[0], '^ended, 1010 B$')
        self.assertNotIn('ended', text('worker 7')[0])

    def test_a_click_on_a_family_leaves_its_processes(self):
        directory = self.family()
        self.show(directory, fragment='#v=workers&t=alloc_space')
        self.browser.click('#workers [data-key="worker: 2 processes"]')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', f'{directory}/worker.*')[0]])

    def test_threads_by_name_have_the_values_of_top(self):
        directory = self.family()
        self.show(directory, fragment='#v=workers&t=alloc_space')
        rows = self.browser.js('return [...document.querySelectorAll("#threads tbody tr")].map(r => [r.lastChild.textContent, r.firstChild.textContent, ...[...r.querySelectorAll(".number")].map(c => Number(c.title))])')
        for process, thread, held, in_use, allocated in rows:
            files = f'{directory}/{process.replace(" ", ".")}.*'
            wanted = [self.top('--kind', kind, '--type', value, '--label', f'thread={thread}', files)[0] if thread == 'filler' or kind == 'heap' else 0
                      for kind, value in (('mutex', 'delay'), ('heap', 'inuse_space'), ('heap', 'alloc_space'))]
            self.assertEqual([held, in_use, allocated], wanted, (process, thread))
        self.assertEqual(len(rows), 6)
        self.browser.js('[...document.querySelectorAll("#threads tbody tr")].find(r => r.textContent.includes("logger") && r.textContent.includes("worker 8")).click()')
        self.assertEqual([self.shown(), self.browser.text('#chips')], [[20], 'thread logger ✕'])

    def test_threads_of_events_have_a_row_each(self):
        at = lambda ms, tid, **more: {'end_timestamp_ns': START * SECOND + ms * 10**6, 'thread id': tid, **more}  # noqa: E731
        rows = [(['f', 'main'], [0, 0, 0, 0, 0, 0, 1, 5000], at(10, 7)), (['f', 'main'], [0, 0, 0, 0, 0, 0, 1, 3000], at(30, 8, thread='helper')),
                (['g', 'main'], [0, 0, 1, 700, 0, 0, 0, 0], at(50, 8, lock='mutex')), (['g', 'main'], [2, 4096, 0, 0, 0, 0, 0, 0], at(70, 8))]
        self.file('e/server.7.0001.events.pb.gz', rows, EVENTS, START * SECOND, SECOND)
        self.show(os.path.join(self.dir.name, 'e'), fragment='#k=events&v=workers')
        found = self.browser.js('return [...document.querySelectorAll("#threads tbody tr")].map(r => [r.firstChild.textContent, ...[...r.querySelectorAll(".number")].map(c => Number(c.title))])')
        self.assertEqual(found, [['main', 7, 5000, 0, 0], ['helper', 8, 3000, 700, 4096]])
        self.assertTrue(self.browser.js('return document.getElementById("workersBox").hidden'))
        self.browser.click('#threads tbody tr:nth-child(2)')
        self.assertEqual(self.shown(), [3000])


if __name__ == '__main__':
    unittest.main()
