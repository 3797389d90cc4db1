# SPDX-License-Identifier: MIT
"""The live page in a real browser: it shows what the process did."""
import os
import re
import signal
import sys
import tempfile

from harness import main, new_directory, skip, victim
from http_client import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'view'))
import browser  # noqa: E402

# What a browser complains of and the page does not: 404 is a kind that is off, 503 a process without room for one more reply.
ANSWERED = re.compile(r'/delta_\w+\?.*status of 404|status of 503')


def opened(server, address, check):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as downloads:
        b = browser.Browser(downloads)
        try:
            b.open(address)
            b.wait(lambda: b.js('return (document.getElementById("shown") || {}).title'))
            check(b)
            complaints = [line for line in b.complaints() if not ANSWERED.search(line)]
            assert complaints == [], complaints
            foreign = [url for url in b.requests() if not url.replace('x:secret@', '').startswith(f'http://127.0.0.1:{server.port}/debug/pprof/')]
            assert foreign == [], foreign
        finally:
            b.close()


def shows_the_process(server):
    def check(b):
        b.wait(lambda: abs(int(b.js('return document.getElementById("shown").title')) - server.profile('heap').total('inuse_space')) <= 1 << 20)
        assert b.text('#title').endswith(str(server.process.pid)), b.text('#title')
        assert b.js('return document.getElementById("legend").textContent').endswith('RSSanonymous RSS')
        ticks = 'document.querySelector("[data-value=info]").click(); return document.getElementById("info").textContent.split(" ")[0]'
        b.wait(lambda: int(b.js(ticks)) >= 3)  # deltas follow the first reply
        assert b.text('#state') == '', b.text('#state')
    return check


def that_the_page_follows_its_process():
    with Server([victim('serve'), 'idle'], 'heap_rate=1') as s:
        before = s.profile('delta_heap?cursor=other')
        opened(s, s.url('/debug/pprof/view'), shows_the_process(s))
        assert before.samples


def that_it_says_that_the_process_does_not_answer():
    def check(b):
        s.process.send_signal(signal.SIGSTOP)
        try:
            b.wait(lambda: b.text('#state') == 'the process has not answered for 10 s')
        finally:
            s.process.send_signal(signal.SIGCONT)
        b.wait(lambda: b.text('#state') == '')
    with Server([victim('serve'), 'idle'], 'heap_rate=1') as s:
        opened(s, s.url('/debug/pprof/view'), check)


def that_it_shows_the_waiting_threads():
    def check(b):
        b.click('[data-value=locks]')
        b.wait(lambda: b.js('return document.querySelectorAll("#waits details.alarm").length') == 2)
        assert re.search(r'threads wait, [1-9]\d* of them idle$', b.text('#waitsCount')), b.text('#waitsCount')
        assert b.js('return document.querySelectorAll("#waits p.alarm").length') == 1
        stacks = 'return [...document.querySelectorAll("#waits details")].map(d => d.textContent)'
        shown = b.js(stacks)
        assert any('first_then_second' in s and ': a deadlock' in s for s in shown) and not any('is_idle' in s for s in shown), shown
        b.click('#idle')
        assert b.text('#waitsCount').endswith('threads wait'), b.text('#waitsCount')
        assert any('is_idle' in s for s in b.js(stacks)), b.js(stacks)
    with Server([victim('waiting'), 'deadlock'], 'heap_rate=1') as s:
        opened(s, s.url('/debug/pprof/view'), check)


def that_a_token_given_once_is_used_for_the_page_too():
    token = os.path.join(new_directory(), 'token')
    with open(token, 'w') as f:
        f.write('secret\n')
    with Server([victim('serve'), 'idle'], f'heap_rate=1,token={token}', ready=None) as s:
        browser.Browser.wait(lambda: listens(s))
        opened(s, f'http://x:secret@127.0.0.1:{s.port}/debug/pprof/view',
               lambda b: b.wait(lambda: int(b.js('return document.getElementById("shown").title')) > 0))


def listens(server):
    try:
        return server.ask('/debug/pprof/')[0] == 401
    except OSError:
        return False


def that_the_index_gives_its_own_address():
    with Server([victim('serve'), 'idle'], 'heap_rate=1') as s:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as downloads:
            b = browser.Browser(downloads)
            try:
                b.call('POST', b.session + '/url', {'url': s.url('/debug/pprof/')})
                assert f'go tool pprof -http=: http://127.0.0.1:{s.port}/debug/pprof/heap' in b.text('body'), b.text('body')
                b.wait(lambda: b.text('#now').startswith('Now: ') and '/s allocated; threads wait ' in b.text('#now'))
                assert b.js('return document.getElementById("line").getAttribute("points").split(" ").length') >= 2
                b.click('a[href=view]')
                b.wait(lambda: b.js('return (document.getElementById("shown") || {}).title'))
                assert [line for line in b.complaints() if not ANSWERED.search(line)] == []
            finally:
                b.close()


if __name__ == '__main__':
    if not browser.CHROMIUM or not browser.DRIVER:
        skip('no chromium, or no chromedriver')
    main(globals())
