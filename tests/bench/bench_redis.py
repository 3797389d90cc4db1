# SPDX-License-Identifier: MIT
"""Measures redis-server under redis-benchmark SET, one command at a time and sixteen: requests a second, and the server's
processor time a request, which scatters less. Without a profiler, sampled, with every allocation recorded, and with
heaptrack where it is installed. Runs alternate; medians are printed as `name value unit`."""
import contextlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from alternate import BUILD, PRELOAD

ROUNDS = int(os.environ.get('DP_BENCH_ROUNDS', '5'))
TICKS = os.sysconf('SC_CLK_TCK')
LOADS = {'SET': (['-n', '200000'], 200000), 'SET -P 16': (['-n', '1500000', '-P', '16'], 1500000)}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def children(pid):
    """The process and all below it: heaptrack runs the server as a child."""
    with contextlib.suppress(OSError):
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return [pid] + [p for child in f.read().split() for p in children(int(child))]
    return []


def server(pid):
    for p in children(pid):
        with contextlib.suppress(OSError), open(f'/proc/{p}/comm') as f:
            if f.read().startswith('redis-server'):
                return p
    raise ProcessLookupError('redis-server')


def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def once(conf, out):
    """Starts a server and returns {load: (requests a second, us of processor time a request)}."""
    port = str(free_port())
    argv = ['redis-server', '--port', port, '--save', '', '--appendonly', 'no', '--loglevel', 'warning']
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}
    if conf == 'heaptrack':
        argv = ['heaptrack', '-o', os.path.join(out, 'heaptrack'), *argv]
    elif conf:
        env.update(LD_PRELOAD=PRELOAD, DELTAPROF_CONF=f'{conf},out={out}')
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', int(port)), 1):
                break
            if time.monotonic() > end:
                sys.exit(f'redis-server does not answer under {conf}')
            time.sleep(0.02)
        pid = server(process.pid)
        seen = {}
        for load, (args, n) in LOADS.items():
            before = cpu_seconds(pid)
            csv = subprocess.run(['redis-benchmark', '-p', port, '-t', 'set', '-r', '100000', '-q', '--csv', *args], check=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            rate = float(re.search(r'"SET","([0-9.]+)"', csv).group(1))
            seen[load] = rate, (cpu_seconds(pid) - before) / n * 1e6
        return seen
    finally:
        with contextlib.suppress(OSError):
            os.kill(server(process.pid), signal.SIGTERM)
        process.wait()


if not shutil.which('redis-server') or not shutil.which('redis-benchmark'):
    print('redis-server or redis-benchmark is not installed: nothing is measured')
    sys.exit(77)
confs = {'without us': None, 'heap_rate=512k': 'heap_rate=512k', 'heap_rate=1': 'heap_rate=1'}
if shutil.which('heaptrack'):
    confs['heaptrack'] = 'heaptrack'
runs = {name: [] for name in confs}
with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as out:
    for _ in range(ROUNDS):
        for name, conf in confs.items():
            runs[name].append(once(conf, out))
for load in LOADS:
    rate0, cpu0 = (statistics.median(run[load][i] for run in runs['without us']) for i in (0, 1))
    for name in confs:
        rate, cpu = (statistics.median(run[load][i] for run in runs[name]) for i in (0, 1))
        print(f'redis {load} {name}: {rate:.0f} requests/s (ratio {rate / rate0:.3f}); {cpu:.2f} us of CPU (ratio {cpu0 / cpu:.3f})')
