# SPDX-License-Identifier: MIT
"""The endpoint in the two example servers, one with threads and one with an event loop."""
import os
import subprocess
import threading
import time

from harness import BUILD, main, need, skip, wait_until
from http_client import Server, go_top, part, ask_until_free

THREADS = os.path.join(BUILD, 'examples/server_threads')
EVHTTP = os.path.join(BUILD, 'examples/server_evhttp')


def that_both_example_servers_serve_pprof():
    need('go', 'curl')
    for program in (THREADS, EVHTTP):
        if not os.path.exists(program):
            skip(program, 'was not built')
        with Server([program, 'PORT'], 'heap_rate=4k', preload=False) as s:
            s.get('/work?n=5000')
            out = go_top(s.url('/debug/pprof/delta_heap'), '-sample_index=alloc_space')
            assert 'render_page' in out or 'fill_cache' in out, out
            out = subprocess.run(['curl', '-sS', '-f', s.url('/debug/pprof/heap?debug=1')], capture_output=True, text=True, check=True).stdout
            assert out.startswith('heap profile: ') and 'MAPPED_LIBRARIES' in out
            out = go_top(s.url('/debug/pprof/heap?symbolize=none'), '-symbolize=remote', '-sample_index=alloc_space')
            assert 'render_page' in out or 'fill_cache' in out, out
            window = s.profile('heap?seconds=1')
            assert window.duration_ns >= 1e9
            s.get('/debug/pprof/')
            for _ in range(20):  # clients that close at once
                part(s, '/debug/pprof/heap', 200)
            assert ask_until_free(s, '/debug/pprof/delta_heap')[0] == 200  # once their profiles are given up


def that_an_event_loop_goes_on_while_profiles_are_made():
    if not os.path.exists(EVHTTP):
        skip('no libevent')
    with Server([EVHTTP, 'PORT'], 'heap_rate=1,depth=64,memory=256M', preload=False) as s:
        s.get('/tree?depth=16')

        def pings_while(path):
            """How many other requests the loop answered between this request and the end of its reply."""
            got, took = [], []
            asks = threading.Thread(target=lambda: got.append(s.get('/debug/pprof/' + path)))
            asks.start()
            while asks.is_alive():
                t = time.monotonic()
                s.get('/ping')
                took.append(time.monotonic() - t)
            asks.join()
            print(f'      {path}: {len(took)} pings, the slowest {max(took) * 1000:.1f} ms')
            return len(got) == 1 and len(took)
        # Neither request blocks the loop. If the machine delayed this test, it asks again.
        for path in ('heap?seconds=1', 'heap'):
            wait_until(lambda: pings_while(path) > 50)
        assert len(s.profile('delta_heap').samples) > 100000


if __name__ == '__main__':
    main(globals())
