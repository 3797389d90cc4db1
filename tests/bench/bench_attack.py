# SPDX-License-Identifier: MIT
"""Measures what a crowd of clients at the endpoint costs the program: redis-benchmark runs against a redis-server with
`listen`, in turns without clients, and with 2,000 idle connections and a client that reads one byte a second. Then it
measures redis's forks under the same crowd. Prints medians."""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from alternate import BUILD, PRELOAD, ROUNDS

PORT, ENDPOINT = 17981, 17982


def redis(*words):
    return subprocess.run(['redis-cli', '-p', str(PORT), *words], capture_output=True, text=True, check=True).stdout


def throughput():
    out = subprocess.run(['redis-benchmark', '-p', str(PORT), '-n', '800000', '-t', 'set', '-d', '200', '-r', '50000', '-P', '4', '--csv'],
                         capture_output=True, text=True, check=True).stdout
    return float(out.strip().split('\n')[-1].split(',')[1].strip('"'))


def fork_us():
    redis('bgsave')
    while 'rdb_bgsave_in_progress:1' in redis('info', 'persistence'):
        time.sleep(0.02)
    return float([line for line in redis('info', 'stats').splitlines() if line.startswith('latest_fork_usec')][0].split(':')[1])


class Crowd:
    def __enter__(self):
        self.over = threading.Event()
        self.idle = []
        self.slow = threading.Thread(target=self.read_slowly, args=[self.connect()])
        self.slow.start()
        self.keeper = threading.Thread(target=self.keep)
        self.keeper.start()
        time.sleep(0.5)

    def connect(self):
        """Waits until the last crowd has gone: the endpoint keeps 64 connections, each for at most 10 s."""
        for _ in range(60):
            try:
                return socket.create_connection(('127.0.0.1', ENDPOINT), timeout=0.5)
            except OSError:
                time.sleep(0.2)
        raise SystemExit('the endpoint does not answer any more')

    def keep(self):
        while not self.over.is_set():
            while len(self.idle) < 2000:
                c = socket.socket()
                c.setblocking(False)
                c.connect_ex(('127.0.0.1', ENDPOINT))
                self.idle.append(c)
            time.sleep(0.05)

    def read_slowly(self, c):
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        c.sendall(b'GET /debug/pprof/heap?debug=1 HTTP/1.1\r\nHost: localhost\r\n\r\n')
        while not self.over.wait(1):
            try:
                c.recv(1)
            except OSError:
                pass
        c.close()

    def __exit__(self, *_):
        self.over.set()
        self.keeper.join()
        self.slow.join()
        for c in self.idle:
            c.close()
        time.sleep(3)  # time for the endpoint to see the connections


class Nobody:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


if not shutil.which('redis-server'):
    print('skipped: no redis-server')
    sys.exit(77)
env = {**os.environ, 'LD_PRELOAD': PRELOAD, 'DELTAPROF_CONF': f'listen=127.0.0.1:{ENDPOINT}'}
with subprocess.Popen(['redis-server', '--port', str(PORT), '--save', '', '--dir', '/tmp', '--dbfilename', f'deltaprof-bench-{os.getpid()}.rdb'],
                      env=env, stdout=subprocess.DEVNULL) as server:
    try:
        time.sleep(1.5)
        throughput()
        for name, unit, measure in (('redis-benchmark SET', 'requests/s', throughput), ('fork', 'us', fork_us)):
            values = {Nobody: [], Crowd: []}
            for i in range(ROUNDS):
                for side, v in list(values.items())[::1 if i % 2 else -1]:  # the order changes every round
                    with side():
                        v.append(measure())
            nobody, crowd = (statistics.median(v) for v in values.values())
            print(f'{name}: {nobody:.0f} {unit} alone, {crowd:.0f} {unit} with a crowd at the endpoint, ratio {crowd / nobody:.3f}', flush=True)
    finally:
        redis('shutdown', 'nosave')
        if os.path.exists(f'/tmp/deltaprof-bench-{os.getpid()}.rdb'):
            os.unlink(f'/tmp/deltaprof-bench-{os.getpid()}.rdb')
