# SPDX-License-Identifier: MIT
"""Measures the page of `deltaprof view`: its size, the time to open a day of a redis-server (5,760 ticks of 15 s), and frames a
second while 50,000 boxes are zoomed and moved. `go tool pprof -http` opens the same profiles in the same browser; so does any page
whose path is in DP_BENCH_PAGE.

The day is a minute of a redis-server under changing load, one tick a second, repeated with other times.
"""
import contextlib
import glob
import gzip
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'view'), os.path.join(HERE, '..', 'cli')]
import browser  # noqa: E402

BUILD = os.environ['DELTAPROF_BUILD']
DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
ROUNDS = int(os.environ.get('DP_BENCH_ROUNDS', 3))
REAL_TICKS, TICKS, TICK_S, PORT = 60, 5760, 15, 17991
START = 1_700_000_000
BOXES = 50_000


def say(name, value, unit):
    print(f'{name} {value} {unit}', flush=True)


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def without_times(profile):
    """The fields of a profile but 9 and 10, its time and duration."""
    out, at = b'', 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = profile[at]
            at += 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(profile):
        begin, key = at, number()
        n = number()
        at += n if key & 7 == 2 else 0
        if key >> 3 not in (9, 10):
            out += profile[begin:at]
    return out


def minute_of_redis(out):
    """One tick a second, under load that changes."""
    command = [DELTAPROF, 'run', '-o', f'interval=1s,out={out},heap_rate=64k,block_rate=1us', '--', 'redis-server', '--port', str(PORT), '--save', '']
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    browser.Browser.wait(lambda: subprocess.run(['redis-cli', '-p', str(PORT), 'ping'], capture_output=True, text=True).stdout == 'PONG\n')
    until = time.monotonic() + REAL_TICKS
    loads = [['-t', 'set,lpush,hset', '-d', '300'], ['-t', 'sadd,zadd,mset', '-c', '20'], ['-t', 'get,lrange_100', '-n', '10000']]
    for n in range(10**9):
        if time.monotonic() > until:
            break
        subprocess.run(['redis-benchmark', '-p', str(PORT), '-q', '-n', '30000', '-r', '50000', *loads[n % 3]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if n % 7 == 6:
            subprocess.run(['redis-cli', '-p', str(PORT), 'flushall'], stdout=subprocess.DEVNULL)
    subprocess.run(['redis-cli', '-p', str(PORT), 'shutdown', 'nosave'], stdout=subprocess.DEVNULL)
    server.wait()


def a_day(directory):
    """5,760 ticks of each kind, of the real ones without the first, which starts the program, and the last two, which end it."""
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as real:
        minute_of_redis(real)
        for kind in ('heap', 'mutex', 'block', 'cpu'):
            paths = sorted(glob.glob(f'{real}/*.{kind}.pb.gz'))[1:-2]
            contents = [without_times(gzip.decompress(open(path, 'rb').read())) for path in paths]
            for n in range(TICKS if contents else 0):
                data = contents[n % len(contents)]
                data += varint(9 << 3) + varint((START + n * TICK_S) * 10**9) + varint(10 << 3) + varint(TICK_S * 10**9)
                with open(f'{directory}/redis-server.7.{n + 1:06}.{kind}.pb.gz', 'wb') as f:
                    f.write(gzip.compress(data, 1))


def open_page(b, url, is_there='return document.readyState === "complete"'):
    """Seconds until the browser has drawn it."""
    b.call('POST', b.session + '/url', {'url': 'about:blank'})
    begin = time.monotonic()
    b.call('POST', b.session + '/url', {'url': url})
    b.wait(lambda: b.js(is_there), 300)
    b.call('POST', b.session + '/execute/async', {'script': 'const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))', 'args': []})
    return time.monotonic() - begin


READY = 'return document.documentElement.dataset.ready !== undefined'


def opens(b, directory, page):
    seconds = []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        subprocess.run([DELTAPROF, 'view', '-o', page, directory], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.monotonic() - begin)
    say('write the page of a day', f'{statistics.median(seconds):.2f}', 's')
    say('size of the page of a day', f'{os.path.getsize(page) / 1e6:.2f}', 'MB')
    say('open the page of a day', f'{statistics.median(open_page(b, "file://" + page, READY) for _ in range(ROUNDS)):.2f}', 's')
    say('ticks in it', b.js('document.querySelector("[data-value=info]").click(); return document.getElementById("info").textContent.split(" ")[0]'), 'heap')
    b.js('document.querySelector("[data-value=flame]").click()')


def frames(b, script):
    """Milliseconds between frames, and of the script, which runs at each of them for three seconds."""
    return b.call('POST', b.session + '/execute/async', {'script': 'const done = arguments[0], gaps = [], costs = [], begin = performance.now(); let last = 0, n = 0;'
                  f'const act = n => {{ {script} }};'
                  'const step = now => { if (last) gaps.push(now - last); last = now; if (now - begin > 3000) return done([gaps.slice(2), costs.slice(2)]);'
                  'const before = performance.now(); act(n++); costs.push(performance.now() - before); requestAnimationFrame(step); };'
                  'requestAnimationFrame(step)', 'args': []})


def say_frames(name, measured):
    """The draw is the page's part of a frame; the browser's own part, and its wait for a processor, are only in the gap."""
    gaps, costs = map(sorted, measured)
    say(f'{name}, frames a second', f'{1000 * len(gaps) / sum(gaps):.1f}', f'median gap {statistics.median(gaps):.1f} ms, 99 % below {gaps[len(gaps) * 99 // 100]:.1f} ms; '
        f'a draw {statistics.median(costs):.1f} ms, 95 % below {costs[len(costs) * 95 // 100]:.1f} ms')


FLAME = 'const canvas = document.getElementById("flame"), box = canvas.getBoundingClientRect(); const at = {clientX: box.left + box.width * 0.37, clientY: box.top + 60, cancelable: true};'
ZOOM = FLAME + 'canvas.dispatchEvent(new WheelEvent("wheel", {...at, ctrlKey: true, deltaY: n % 120 < 60 ? -12 : 12}))'
MOVE = FLAME + ('if (!n) for (let i = 0; i < 12; i++) canvas.dispatchEvent(new WheelEvent("wheel", {...at, ctrlKey: true, deltaY: -50}));'
                'canvas.dispatchEvent(new WheelEvent("wheel", {...at, deltaX: n % 120 < 60 ? 15 : -15}))')
CHART = ('const canvas = document.getElementById("chart"), box = canvas.getBoundingClientRect();'
         'canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + (n * 7) % box.width, clientY: box.top + 60}))')
RANGE = ('const canvas = document.getElementById("chart"); if (!n) document.getElementById("last").click();'
         'canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}))')


def chunk(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def many_boxes(path):
    """A heap of stacks that do not repeat: at least 50,000 boxes."""
    rng = random.Random(1)
    names = ['', 'inuse_space', 'bytes', *(f'function_{i}' for i in range(3000))]
    out = chunk(1, b'\x08\x01\x10\x02')
    for _ in range(BOXES // 8):
        stack = [rng.randrange(1, 3001) for _ in range(8)] + [rng.randrange(1, 41), 1]
        out += chunk(2, chunk(1, b''.join(map(varint, stack))) + chunk(2, varint(rng.randrange(500, 3000))))
    for i in range(1, 3001):
        out += chunk(4, b'\x08' + varint(i) + chunk(4, b'\x08' + varint(i))) + chunk(5, b'\x08' + varint(i) + b'\x10' + varint(i + 2))
    with open(path, 'wb') as f:
        f.write(gzip.compress(out + b''.join(chunk(6, name.encode()) for name in names)))


def moves(b, directory):
    many_boxes(f'{directory}/many.pb.gz')
    page = f'{directory}/many.html'
    subprocess.run([DELTAPROF, 'view', '-o', page, f'{directory}/many.pb.gz'], check=True, stdout=subprocess.DEVNULL)
    open_page(b, 'file://' + page, READY)
    stacks = b.js('document.querySelector("[data-value=info]").click(); return document.getElementById("info").textContent')
    b.js('document.querySelector("[data-value=flame]").click()')
    say('boxes', stacks.split('rows, ')[1].split(' stacks')[0], '')
    say_frames('nothing moves', frames(b, ''))
    say_frames('zoom by the wheel', frames(b, ZOOM))
    say_frames('move sideways', frames(b, MOVE))


@contextlib.contextmanager
def go_pprof(paths):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        address = f'127.0.0.1:{s.getsockname()[1]}'
    process = subprocess.Popen(['go', 'tool', 'pprof', '-http=' + address, '-no_browser', *paths], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        yield f'http://{address}/ui/flamegraph?si=inuse_space', process
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # go runs the reader as a child
        process.wait()


def answers(address):
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=100).status == 200
    except OSError:
        return False


def opens_in_go(b, directory):
    paths = sorted(glob.glob(f'{directory}/*.heap.pb.gz'))
    begin = time.monotonic()
    with go_pprof(paths) as (address, _):
        b.wait(lambda: answers(address), 600)
        started = time.monotonic() - begin
        say('go tool pprof -http: read the same heap profiles', f'{started:.2f}', 's')
        say('go tool pprof -http: open its flame graph', f'{open_page(b, address):.2f}', 's')


def main():
    missing = [name for name in ('redis-server', 'redis-benchmark') if not shutil.which(name)] + ([] if browser.CHROMIUM and browser.DRIVER else ['chromium'])
    if missing:
        print('skipped: no', ' and no '.join(missing))
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-', ignore_cleanup_errors=True) as directory:
        empty, day, downloads = f'{directory}/empty.html', f'{directory}/day', f'{directory}/browser'
        os.mkdir(day)
        os.mkdir(downloads)
        with open(f'{directory}/one.pb.gz', 'wb') as f:
            f.write(gzip.compress(b'\x0a\x04\x08\x01\x10\x01\x32\x00\x32\x01a'))
        subprocess.run([DELTAPROF, 'view', '-o', empty, f'{directory}/one.pb.gz'], check=True, stdout=subprocess.DEVNULL)
        say('size of the page without profiles', os.path.getsize(empty), 'bytes')
        a_day(day)
        b = browser.Browser(downloads)
        try:
            opens(b, day, f'{directory}/day.html')
            say_frames('the chart of a day under the mouse', frames(b, CHART))
            say_frames('the range of a day moves by a tick', frames(b, RANGE))
            moves(b, directory)
            if shutil.which('go'):
                opens_in_go(b, day)
            for page in filter(None, os.environ.get('DP_BENCH_PAGE', '').split(':')):
                say(f'open {os.path.basename(page)}', f'{statistics.median(open_page(b, "file://" + os.path.abspath(page)) for _ in range(ROUNDS)):.2f}', 's')
        finally:
            b.close()


main()
