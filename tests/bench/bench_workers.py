# SPDX-License-Identifier: MIT
"""What the profiler costs in a forked worker that allocates a megabyte and ends. Six servers run at the same time, two
without the profiler, of which one writes a file of its own, and four with it. One worker of each is forked in turn, so drift of the machine meets all alike.
DP_BENCH_WORKERS sets the number of workers of each server."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from alternate import BUILD

WORKERS = int(os.environ.get('DP_BENCH_WORKERS', '1500'))
WORKER = os.path.join(BUILD, 'tests/bench/worker')
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
WARM = 70  # by then the server has learned for its workers


class Server:
    """A server of workers; `conf` None: without the profiler; `plain`: where its workers write a file themselves."""

    def __init__(self, end, conf, plain=None):
        env = dict(os.environ)
        if conf is not None:
            env.update(LD_PRELOAD=PRELOAD, DELTAPROF_CONF=conf)
        self.process = subprocess.Popen([WORKER, end] + ([plain] if plain else []), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, bufsize=0)
        self.rows = []

    def fork(self):
        self.process.stdin.write(b'x')
        return [float(x) for x in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        if self.process.wait():
            sys.exit(f'worker: exit status {self.process.returncode}')


def tenth(values):
    return sorted(values)[len(values) // 10]


def measure(end, where):
    confs = {'without the profiler': None, 'left out by exe': 'exe=nothing', 'heap_rate=0': 'heap_rate=0,out=' + where,
             'sampled, no file': 'out=none', 'sampled, a file': 'out=' + where}
    servers = {name: Server(end, conf) for name, conf in confs.items()}
    servers['without the profiler, a file of its own'] = Server(end, None, where)
    for turn in range(WARM + WORKERS):
        for server in servers.values():
            row = server.fork()
            if turn >= WARM:
                server.rows.append(row)
        if turn % 200 == 0:  # a directory of thousands of files is slow itself
            for name in os.listdir(where):
                os.unlink(os.path.join(where, name))
    base = None
    for name, server in servers.items():
        server.end()
        cpu, faults, of_server = zip(*server.rows)
        row = [tenth(cpu), statistics.median(cpu), statistics.median(faults), tenth(of_server)]
        base = base or row
        print(f'{end} {name}: {row[0]:.0f} us of processor time a worker ({row[0] - base[0]:+.0f}), median {row[1]:.0f} '
              f'({row[1] - base[1]:+.0f}), {row[2]:.0f} page faults ({row[2] - base[2]:+.0f}), server {row[3]:.0f} us '
              f'({row[3] - base[3]:+.0f})', flush=True)


def measure_names(where, servers=15):
    """The first worker of a server reads the names of its stacks; the others find them in memory that they share."""
    first, later = [], []
    for _ in range(servers):
        server = Server('exit', 'out=' + where)
        rows = [server.fork()[0] for _ in range(12)]
        server.end()
        first.append(rows[0])
        later.append(statistics.median(rows[8:]))
    print(f'exit sampled, a file: {statistics.median(first):.0f} us of processor time in the first worker, which reads the names, '
          f'{statistics.median(later):.0f} in later ones', flush=True)


with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as where:
    for end in ('_exit', 'exit'):
        measure(end, where)
    measure_names(where)
sys.exit(0)
