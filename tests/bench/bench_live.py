# SPDX-License-Identifier: MIT
"""Measures what the live page costs the profiled server: a redis-server under load. In each round it is measured once with the page open in
a browser, and once with no client that fetches profiles. Then the page stays open, and its memory is measured.

    DP_BENCH_ROUNDS=10   number of rounds
    DP_BENCH_SECONDS=30  length of each of the two measurements of a round
    DP_BENCH_MINUTES=10  how long the page stays open afterwards

The main value is the CPU time of the server for a command. Throughput is less reliable: the browser uses CPU time of the same machine. The
share of the profiler's threads, which do the work for the page, varies least between rounds.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from statistics import median

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'view'))
import browser  # noqa: E402

DELTAPROF = os.path.join(os.environ['DELTAPROF_BUILD'], 'src/tool/cli/deltaprof')
ROUNDS = int(os.environ.get('DP_BENCH_ROUNDS', 10))
SECONDS = float(os.environ.get('DP_BENCH_SECONDS', 30))
MINUTES = float(os.environ.get('DP_BENCH_MINUTES', 10))
SETTLE_S = 3


def print_value(name, value, unit=''):
    print(f'{name} {value} {unit}'.rstrip(), flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, directory):
        self.port, self.http = free_port(), free_port()
        command = [DELTAPROF, 'run', '-o', f'listen=127.0.0.1:{self.http}', '--', 'redis-server', '--port', str(self.port), '--save', '', '--dir', directory]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        browser.Browser.wait(lambda: self.cli('ping') == 'PONG\n')
        # The same keys all the time, so that the server's memory does not grow.
        self.load = subprocess.Popen(['redis-benchmark', '-p', str(self.port), '-q', '-l', '-c', '20', '-r', '20000', '-t', 'set,get,lrange_100', '-d', '200'],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pin_to_cpus()

    def pin_to_cpus(self):
        """With four CPUs or more, the server has one for itself, and its clients have another."""
        n = sorted(os.sched_getaffinity(0))
        if len(n) >= 4:
            os.sched_setaffinity(self.process.pid, n[:1])
            os.sched_setaffinity(self.load.pid, n[1:2])
            os.sched_setaffinity(0, n[2:])

    def cli(self, *command):
        return subprocess.run(['redis-cli', '-p', str(self.port), *command], capture_output=True, text=True).stdout

    def commands(self):
        return int(re.search(r'total_commands_processed:(\d+)', self.cli('info', 'stats')).group(1))

    def cpu_ns(self):
        """CPU time of all living threads, and of those of the profiler. The few threads that have ended are left out."""
        total = own = 0
        for task in os.listdir(f'/proc/{self.process.pid}/task'):
            with open(f'/proc/{self.process.pid}/task/{task}/schedstat') as f:
                ns = int(f.read().split()[0])
            with open(f'/proc/{self.process.pid}/task/{task}/comm') as f:
                own += ns if f.read().startswith('deltaprof') else 0
            total += ns
        return total, own

    def measure(self, seconds):
        """CPU time for a command in ns, commands per second, and the share of the profiler's threads in the CPU time."""
        began, (cpu, own), commands = time.monotonic(), self.cpu_ns(), self.commands()
        time.sleep(seconds)
        (cpu_after, own_after), lasted, commands = self.cpu_ns(), time.monotonic() - began, self.commands() - commands
        return {'ns': (cpu_after - cpu) / commands, 'rate': commands / lasted, 'own': (own_after - own) / (cpu_after - cpu)}

    def close(self):
        for process in self.load, self.process:
            process.kill()
            process.wait()


class Tab:
    def __init__(self, b, server):
        self.b, self.url = b, f'http://127.0.0.1:{server.http}/debug/pprof/view'

    def navigate(self, is_open):
        self.b.call('POST', self.b.session + '/url', {'url': 'about:blank'})
        if is_open:
            self.b.call('POST', self.b.session + '/url', {'url': self.url})
            self.b.wait(lambda: self.b.js('return document.documentElement.dataset.ready !== undefined && document.getElementById("shown") !== null'))

    def ticks(self):
        return self.b.js('document.querySelector("#tabs [data-value=info]").click(); const words = document.getElementById("info").textContent;'
                         'document.querySelector("#tabs [data-value=flame]").click(); return Number(words.split(" ")[0])')

    def execute(self, command):
        return self.b.call('POST', self.b.session + '/goog/cdp/execute', {'cmd': command, 'params': {}})

    def heap_bytes(self):
        """JavaScript memory of the page after a garbage collection."""
        self.execute('HeapProfiler.collectGarbage')
        return self.b.js('return performance.memory.usedJSHeapSize')

    def process_bytes(self):
        """Resident memory of this browser's largest renderer process."""
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/cmdline') as f:
                    words = f.read()
                if '--type=renderer' in words and self.b.profile in words:
                    with open(f'/proc/{pid}/statm') as f:
                        found.append(int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE'))
            except OSError:
                continue  # it has ended
        return max(found)


def compare_sides(server, tab):
    """Measures the server with the page and without it in turn, and prints both."""
    sides = {'page': [], 'nothing': []}
    for n in range(ROUNDS):
        for side in list(sides) if n % 2 else list(sides)[::-1]:
            tab.navigate(side == 'page')
            time.sleep(SETTLE_S)
            sides[side].append(server.measure(SECONDS))
    for value, words, unit in ('ns', 'CPU time of the server for a command', 'ns'), ('rate', 'commands', '/s'):
        page, nothing = ([r[value] for r in sides[side]] for side in ('page', 'nothing'))
        ratios = sorted(a / b for a, b in zip(page, nothing))
        print_value(words, f'{median(nothing):.0f} without, {median(page):.0f} with the page open', unit)
        print_value(f'{words}, ratio of each round', f'median {median(ratios):.4f}, from {ratios[0]:.4f} to {ratios[-1]:.4f}')
    for side, rounds in sides.items():
        print_value(f'share of the profiler\'s threads in the CPU time of the server, {side}', f'{100 * median(r["own"] for r in rounds):.3f}', '%')


def measure_open_page(tab):
    """Leaves the page open, and prints its memory in each third of the time."""
    heap, process = [], []
    tab.navigate(True)
    until = time.monotonic() + MINUTES * 60
    while time.monotonic() < until:
        time.sleep(min(20, MINUTES * 60 / 9))
        heap.append(tab.heap_bytes())
        process.append(tab.process_bytes())
    print_value('ticks that the page received', tab.ticks())
    for name, values in ('JavaScript heap after a collection', heap), ('resident memory of the tab\'s process', process):
        third = max(len(values) // 3, 1)
        print_value(name, ', '.join(f'{median(part) / 1e6:.1f}' for part in (values[:third], values[third:2 * third] or values, values[-third:])), 'MB in each third of the time')


def main():
    missing = [name for name in ('redis-server', 'redis-benchmark') if not shutil.which(name)] + ([] if browser.CHROMIUM and browser.DRIVER else ['chromium'])
    if missing:
        print('skipped: no', ' and no '.join(missing))
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-', ignore_cleanup_errors=True) as directory:
        server = Server(directory)
        try:
            b = browser.Browser(directory)
            try:
                tab = Tab(b, server)
                compare_sides(server, tab)
                if MINUTES > 0:
                    measure_open_page(tab)
            finally:
                b.close()
        finally:
            server.close()


main()
