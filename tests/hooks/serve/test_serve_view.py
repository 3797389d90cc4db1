# SPDX-License-Identifier: MIT
"""The live page of `deltaprof serve` in a real browser: it begins with the files on disk and goes on where they end."""
import os
import re
import sys
import tempfile

from harness import main, new_directory, skip, wait_until
from test_serving import BYTES, EXACT, Serving

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'view'))
import browser  # noqa: E402

ANSWERED = re.compile(r'/delta_\w+\?.*status of 404')  # a kind that is off


def opened(server, check, fragment=''):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as downloads:
        b = browser.Browser(downloads)
        try:
            b.open(f'{server.url}view{fragment}')
            check(b)
            complaints = [line for line in b.complaints() if not ANSWERED.search(line)]
            assert complaints == [], complaints
        finally:
            b.close()


def blocks(b):
    """How many blocks the page says that the victims' function made; None: it has no such row."""
    return b.js('const r = [...document.querySelectorAll("#table tbody tr")].find(r => r.querySelector(".name").textContent === "works");'
                'return r ? Number(r.querySelector(".number").title) : null')


def processes(b):
    return set(b.js('return [...document.querySelectorAll("#process option")].map(o => o.textContent)'))


def that_the_page_begins_with_the_files_and_goes_on():
    """Every block is counted once: those in files, those that came before the page and are in no file, and those that come later."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out, '--interval', '100ms')
        ended, living = s.start(70, 'end'), s.start(20, 'wait')
        ended.wait()
        wait_until(lambda: s.in_files() == 90)
        s.stop()
        s.start_server('-o', s.out, '--interval', '1h')
        writes_itself = EXACT.replace('out=none,', '')
        late, own, elsewhere = s.start(30, 'wait'), s.start(16, 'wait', conf=writes_itself, out=s.out), s.start(4, 'wait', conf=writes_itself, out=new_directory())

        def check(b):
            assert blocks(b) in (90, 140), blocks(b)
            b.wait(lambda: blocks(b) == 140)
            assert {f'victim_works {p.pid}' for p in (ended, living)} <= processes(b), processes(b)
            assert 'from files' in b.text('#liveWords'), b.text('#liveWords')
            later = s.start(40, 'wait')
            b.wait(lambda: blocks(b) == 180)
            assert {f'victim_works {p.pid}' for p in (late, own, elsewhere, later)} <= processes(b), processes(b)
            b.choose('#type', 'inuse_space')
            b.wait(lambda: blocks(b) == (10 + 15 + 8 + 2 + 20) * BYTES)
            living.kill()
            living.wait()
            b.wait(lambda: blocks(b) == (15 + 8 + 2 + 20) * BYTES)
            b.choose('#type', 'alloc_objects')
            assert blocks(b) == 180, blocks(b)
        opened(s, check, '#v=table&t=alloc_objects')


def that_without_files_the_first_tick_is_all_since_the_start():
    with Serving() as s:
        ended, living = s.start(70, 'end'), s.start(20, 'wait')
        ended.wait()
        wait_until(lambda: s.ended() == 1)

        def check(b):
            b.wait(lambda: blocks(b) == 90)
            assert {'victim_works ended', f'victim_works {living.pid}'} <= processes(b), processes(b)
            assert 'one tick, sums since the start' in b.text('#liveWords'), b.text('#liveWords')
            b.choose('#type', 'inuse_space')
            assert blocks(b) == 10 * BYTES, blocks(b)
        opened(s, check, '#v=table&t=alloc_objects')


if __name__ == '__main__':
    if not browser.CHROMIUM or not browser.DRIVER:
        skip('no chromium, or no chromedriver')
    main(globals())
