# SPDX-License-Identifier: MIT
"""A test case with a browser: makes the files of a server, opens their page, and reads its numbers."""
import glob
import json
import os
import shutil
import sys
import tempfile

import browser
from by_hand import Case, profile
from random_profile import HEAP, MUTEX

if not browser.CHROMIUM or not browser.DRIVER:
    print('no chromium, or no chromedriver')
    sys.exit(77)

SECOND = 10**9
START = 1700000000


def heap_rows(n):
    """Tick n of a server: a cache that filled up, a list that grows, memory that is freed at once."""
    return [(['operator new(unsigned long)', 'cache_fill', 'serve', 'main'], [10, 10000, min(n, 3) * 10, min(n, 3) * 10000]),
            (['list_append', 'serve', 'main'], [5, 500, 5 * n, 500 * n]),
            (['format', 'log_line', 'serve', 'main'], [100, 6400, 1, 64], {'thread': 'logger'})]


class PageCase(Case):
    @classmethod
    def setUpClass(cls):
        cls.downloads = tempfile.mkdtemp()
        cls.browser = browser.Browser(cls.downloads)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        shutil.rmtree(cls.downloads, ignore_errors=True)

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual([url for url in self.browser.requests() if not url.startswith('file://' + self.dir.name)], [])

    profile = staticmethod(profile)

    def server(self):
        for n in range(1, 9):
            when = (START + 10 * (n - 1)) * SECOND
            self.file(f'p/server.7.{n:04}.heap.pb.gz', heap_rows(n), HEAP, when, 10 * SECOND, comment=f'#RssTotal={n << 20}')
            self.file(f'p/server.7.{n:04}.block.pb.gz', [(['await_lock', 'serve', 'main'], [n, n * 1000000], {'lock': 'mutex'}),
                                                         (['wait_for_work', 'main'], [1, 10**10], {'lock': 'cond'})], MUTEX, when, 10 * SECOND)
            self.file(f'p/server.7.{n:04}.mutex.pb.gz', [(['pthread_mutex_unlock', 'checkpoint', 'main'], [n, n * 1000000])], MUTEX, when, 10 * SECOND)
        return os.path.join(self.dir.name, 'p')

    def files(self, kind, *numbers):
        return [f'{self.dir.name}/p/server.7.{n:04}.{kind}.pb.gz' for n in numbers]

    def show(self, *paths, fragment=''):
        out = os.path.join(self.dir.name, 'page.html')
        self.run_it('view', '-o', out, *paths)
        self.browser.open(f'file://{out}{fragment}')

    def rows(self, box='#table'):
        """{name: [exact numbers of its columns]} of a table."""
        return {name: numbers for name, *numbers in self.browser.js(
            'return [...document.querySelectorAll(arguments[0] + " tbody tr")].map(r => [r.querySelector(".name").textContent,'
            ' ...[...r.querySelectorAll(".number")].map(c => Number(c.title))])', box)}

    def shown(self):
        return [int(n) for n in self.browser.js('return document.getElementById("shown").title').split()]

    def top(self, *arguments):
        answer = json.loads(self.run_it('top', '--json', '-n0', *arguments))
        return answer['total'], {r['name']: [r['flat'], r['cum']] for r in answer['rows']}

    def flat_and_cum(self):
        return {name: [flat, cum] for name, (flat, _, cum) in self.rows().items()}

    def pixels(self, canvas='#flame'):
        return self.browser.js('return document.querySelector(arguments[0]).toDataURL()', canvas)

    def box_at(self, x, y, canvas='#flame'):
        """The lines of the tooltip at a place in a flame graph."""
        self.browser.pointer(canvas, (x, y))
        return self.browser.text('#tip').split('\n') if not self.browser.js('return document.getElementById("tip").hidden') else None

    def drag(self, first, last):
        """The ticks from number `first` to number `last`, both counted: each is an eighth of the chart's width."""
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        self.browser.pointer('#chart', ((first - 1) * width / 8 + 3, 60), (last * width / 8 + 3, 60), button=True)

    def saved(self, what, pattern):
        self.browser.choose('#save', what)
        path = self.browser.wait(lambda: [p for p in glob.glob(f'{self.downloads}/{pattern}') if os.path.getsize(p)])[0]
        with open(path, 'rb') as f:
            data = f.read()
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        return path, data
