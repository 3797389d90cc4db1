# SPDX-License-Identifier: MIT
"""The live page over hours, in a real browser: a server of this test answers as a process does, and the page's clock is fast.

    test_page_live.py DELTAPROF
"""
import os
import re
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX

POLL_S = 5
FAST = 'const wait = window.setTimeout; window.setTimeout = (act, ms, ...more) => wait(act, ms >= 1000 && ms < 10000 ? 0 : ms, ...more);'


class Process:
    """Answers requests for deltas: each is of five seconds, and has rows of other stacks than the one before."""

    def __init__(self, page, profile, n_stacks):
        self.page, self.profile, self.n_stacks = page, profile, n_stacks
        self.n = {'heap': 0, 'block': 0}
        self.goes = threading.Event()  # else the page waits for its next profile
        self.goes.set()
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            wbufsize = -1  # one packet an answer

            def do_GET(self):
                status, body, seq = answer(self.path)
                self.send_response(status)
                self.send_header('Content-Length', str(len(body)))
                self.send_header('X-Deltaprof-Pid', '7')
                self.send_header('X-Deltaprof-Seq', str(seq))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}/debug/pprof/view'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.goes.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path):
        url = urlparse(path)
        kind = url.path.rsplit('/', 1)[1].replace('delta_', '')
        if kind == 'view':
            return 200, self.page, 0
        if kind == 'waits':
            return 200, b'0 threads wait\n', 0
        if kind not in self.n:
            return 404, b'off\n', 0
        if kind == 'heap':
            self.goes.wait(60)
        after = int(parse_qs(url.query)['after'][0])
        assert after in (self.n[kind], self.n[kind] - 1), path
        self.n[kind] = after + 1
        return 200, self.delta(kind, after), after + 1

    def delta(self, kind, n):
        begin, lasts = (START - 3600, 3600) if n == 0 else (START + POLL_S * (n - 1), POLL_S)
        stacks = [[f'leaf_{(n * 7 + i) % self.n_stacks}', f'work_{i}', 'serve', 'main'] for i in range(10)]
        rows = [(s, [1, 100, 1, 100 + i]) for i, s in enumerate(stacks)] if kind == 'heap' else [(s, [1, 1000], {'lock': 'mutex'}) for s in stacks]
        return self.profile(rows, HEAP if kind == 'heap' else MUTEX, begin * SECOND, lasts * SECOND, comment=f'#RssTotal={n + (1 << 20)}' if kind == 'heap' else None)


class Live(PageCase):
    def live(self, n_stacks=1, fast=True):
        out = os.path.join(self.dir.name, 'page.html')
        self.run_it('view', '-o', out, self.file('p/server.7.0001.heap.pb.gz', [(['main'], [1, 1, 1, 1])]))
        with open(out, 'rb') as f:
            page = re.sub(rb'<script type="application/octet-stream">.*?</script>', b'', f.read(), flags=re.S)
        process = Process(page, self.profile, n_stacks)
        self.addCleanup(process.close)
        if fast:
            added = self.cdp('Page.addScriptToEvaluateOnNewDocument', source=FAST)
            self.addCleanup(self.cdp, 'Page.removeScriptToEvaluateOnNewDocument', identifier=added['identifier'])
        self.browser.open(process.url)
        self.addCleanup(self.browser.call, 'POST', self.browser.session + '/url', {'url': 'about:blank'})
        return process

    def tearDown(self):
        self.browser.call('POST', self.browser.session + '/url', {'url': 'about:blank'})
        self.assertEqual([line for line in self.browser.complaints() if not re.search(r'/delta_\w+\?.*status of 404', line)], [])
        self.browser.requests()

    def cdp(self, command, **parameters):
        return self.browser.call('POST', self.browser.session + '/goog/cdp/execute', {'cmd': command, 'params': parameters})

    def heap_bytes(self):
        self.cdp('HeapProfiler.collectGarbage')
        return self.browser.js('return performance.memory.usedJSHeapSize')


    def test_the_memory_of_a_page_that_stays_open_does_not_grow_and_its_sums_stay_true(self):
        process = self.live()
        ticks = 'document.querySelector("[data-value=info]").click(); return Number(document.getElementById("info").textContent.split(" ")[0])'
        sizes = []
        for polls in 400, 700:  # a page that kept all ticks would have 300 more, of 4 kB each
            self.browser.wait(lambda: process.n['block'] >= polls, 600)
            sizes.append(min(self.heap_bytes() for _ in range(5)))
        self.assertLess(sizes[1] - sizes[0], 600 << 10, sizes)
        self.assertLessEqual(self.browser.js(ticks), 361)
        self.assertIn('old ticks are joined', self.browser.text('#liveWords'))
        process.goes.clear()
        self.browser.js('location.hash = "#k=block&t=contentions&x=0"')
        self.browser.wait(lambda: self.shown() == [10 * process.n['block']])
        self.browser.js('location.hash = "#k=heap&t=inuse_space"')
        self.browser.wait(lambda: self.shown() == [10 * 100 + 45])

    def test_the_first_tick_is_as_long_as_the_process_and_the_chart_shows_its_end(self):
        process = self.live(fast=False)
        self.browser.wait(lambda: process.n['heap'] >= 3)
        self.browser.wait(lambda: self.browser.js('document.querySelector("[data-value=info]").click(); return document.querySelectorAll("#ticks tbody tr").length') >= 2)
        self.assertIn('1 h', self.browser.text('#ticks tbody tr:last-child'))
        self.assertRegex(self.browser.text('#liveWords'), '^live; .*one tick, sums since the start$')
        self.browser.js('location.hash = "#k=heap&t=alloc_space"')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        rate = next(line for line in self.box_at(5, 60, '#chart') if line.endswith('/s in all'))
        self.assertEqual(rate, '0.28 B/s in all')  # 1,000 bytes in an hour
        later = next(line for line in self.box_at(width - 5, 60, '#chart') if line.endswith('/s in all'))
        self.assertEqual(later, '200 B/s in all')


if __name__ == '__main__':
    unittest.main()
