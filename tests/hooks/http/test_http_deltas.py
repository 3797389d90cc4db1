# SPDX-License-Identifier: MIT
"""Deltas over HTTP: each consumer's deltas add up to the exact totals, however its connections end."""
import threading
import time

import reader
from harness import main, new_directory, victim, wait_until
from http_client import Server, dechunk, named, part, rows, ask_until_free


def that_every_consumer_gets_the_whole_exactly():
    out = new_directory()
    with Server([victim('serve'), 'threads'], 'heap_rate=1,interval=200ms', out=out) as s:
        def poll(cursor, pause, got, stop):
            while not stop.is_set():
                got.append(s.profile(f'delta_heap?cursor={cursor}'))
                time.sleep(pause)
        stop, slow, fast = threading.Event(), [], []
        polls = [threading.Thread(target=poll, args=a) for a in (('slow', 0.31, slow, stop), ('fast', 0.02, fast, stop))]
        for t in polls:
            t.start()
        wait_until(lambda: len(slow) > 3 and len(fast) > 3 and len(reader.files(out)) > 3)
        s.process.stdin.write('stop\n')
        s.process.stdin.flush()
        book = [s.process.stdout.readline().split() for _ in range(8)]
        stop.set()
        for t in polls:
            t.join()
        slow.append(s.profile('delta_heap?cursor=slow'))
        fast.append(s.profile('delta_heap?cursor=fast'))
        cumulative = s.profile('heap')
        s.process.stdin.close()
        s.process.wait(60)
        files = [reader.load(p) for p in reader.files(out)]
        want = {f[0]: [int(n) for n in f[1:]] for f in book}
        for name, profiles in (('slow', slow), ('fast', fast), ('files', files), ('cumulative', [cumulative])):
            for i, type in enumerate(('alloc_objects', 'alloc_space')):
                total = {}
                for p in profiles:
                    for f, v in named(p, type).items():
                        total[f] = total.get(f, 0) + v
                assert total == {f: n[i] for f, n in want.items()}, (name, type, total, want)
            last = profiles[-1]
            for i, type in ((2, 'inuse_objects'), (3, 'inuse_space')):
                assert named(last, type) == {f: n[i] for f, n in want.items()}, (name, type)


def that_a_client_killed_in_the_middle_loses_nothing():
    with Server([victim('serve'), 'tree', '15'], 'heap_rate=1,depth=64,symbolize=none,memory=128M') as s:
        assert s.process.stdout.readline() == 'ready\n'  # the tree has grown
        body = s.get('/debug/pprof/heap?types=alloc')
        whole = rows(reader.load(body))
        # The body does not fit in the buffers of the sockets: 64 KiB in the server (the kernel doubles the 32 KiB that
        # it asks for), and a few KiB in the client.
        assert len(whole) > 65000 and len(body) > 250000, (len(whole), len(body))
        for i in range(50):
            got = part(s, '/debug/pprof/delta_heap?cursor=c&types=alloc', 1000 + i * 997)
            assert got.startswith(b'HTTP/1.1 200') or got.startswith(b'HTTP/1.1 503'), got[:100]
        status, _, data = ask_until_free(s, '/debug/pprof/delta_heap?cursor=c&types=alloc')
        now = rows(reader.load(data))
        for key, values in whole.items():
            assert now[key]['alloc_objects'] >= values['alloc_objects'], key
        assert sum(v['alloc_objects'] for v in now.values()) < 2 * sum(v['alloc_objects'] for v in whole.values())


def acknowledge(s, cursor, most_of, rounds):
    """A client whose connection ends at any byte. It continues with `after`. Returns the sum of its complete replies."""
    total, seq = {}, 0
    for i in range(rounds):
        most = most_of(i)
        if most is None:
            status, headers, data = ask_until_free(s, f'/debug/pprof/delta_heap?cursor={cursor}&after={seq}&types=alloc')
            assert status == 200, data
        else:
            raw = part(s, f'/debug/pprof/delta_heap?cursor={cursor}&after={seq}&types=alloc', most)
            head, data = dechunk(raw)
            if not head.startswith(b'HTTP/1.1 200') or data is None:
                continue
            headers = dict(line.split(': ', 1) for line in head.decode().split('\r\n')[1:])
        seq = int(headers['X-Deltaprof-Seq'])
        for key, values in rows(reader.load(data)).items():
            old = total.setdefault(key, 0)
            total[key] = old + values['alloc_objects']
    return total


def that_after_loses_and_doubles_nothing_at_any_byte():
    for argv, conf, step in (([victim('serve'), 'tree', '3'], '', 7), ([victim('serve'), 'tree', '12'], 'depth=64,', 4001)):
        with Server(argv, conf + 'heap_rate=1,symbolize=none') as s:
            assert s.process.stdout.readline() == 'ready\n'
            size = len(s.get('/debug/pprof/heap?types=alloc')) + 600
            deaths = [n for n in range(1, size + 200, max(step, size // 60))]
            before = {k: v['alloc_objects'] for k, v in rows(s.profile('heap?types=alloc')).items()}
            total = acknowledge(s, 'a', lambda i: deaths[i] if i < len(deaths) else None, len(deaths) + 1)
            after = {k: v['alloc_objects'] for k, v in rows(s.profile('heap?types=alloc')).items()}
            tree = [k for k in before if before[k] == after[k]]
            assert len(tree) > 2 ** (3 if step == 7 else 12), len(tree)
            for key in tree:  # each node allocated once, before the first read
                assert total.get(key) == before[key], (key, total.get(key), before[key])


def reads_around_a_window(s):
    """(a window of two seconds, a read before it, two within it, one after it); False: too few reads were within it, or the
    threads did not run between them."""
    windows, within, before = [], [], s.profile('heap')
    asks = threading.Thread(target=lambda: windows.append(s.profile('heap?seconds=2')))
    asks.start()
    while asks.is_alive():
        within.append((s.profile('heap'), time.time_ns()))
    window, after = windows[0], s.profile('heap')
    within = [p for p, came_ns in within if window.time_ns < p.time_ns and came_ns < window.time_ns + window.duration_ns]
    # A profile's time is taken just before its counts. So the first read may have counted at the same moment as the
    # window: it is left out.
    grown = len(within) > 2 and sum(named(within[-1], 'alloc_objects').values()) > sum(named(within[1], 'alloc_objects').values())
    return grown and (window, before, within[1], within[-1], after)


def that_seconds_is_the_difference_of_two_reads():
    with Server([victim('serve'), 'threads'], 'heap_rate=1') as s:
        window, *reads = wait_until(lambda: reads_around_a_window(s))
        w, a, b, c, d = (sum(named(p, 'alloc_objects').values()) for p in (window, *reads))
        assert 0 < c - b <= w <= d - a, (a, b, c, d, w)
        assert window.duration_ns > 1.9e9 and reads[-1].duration_ns == 0
        in_use = sum(named(window, 'inuse_objects').values())
        assert 0 < in_use <= 8 * 512 + 8, in_use
        s.process.stdin.write('stop\n')
        s.process.stdin.flush()
        for _ in range(8):
            s.process.stdout.readline()
        still = s.profile('heap?seconds=1')
        assert not named(still, 'alloc_objects') and sum(named(still, 'inuse_objects').values()) > 0


if __name__ == '__main__':
    main(globals())
