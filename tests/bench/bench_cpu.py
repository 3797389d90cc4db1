# SPDX-License-Identifier: MIT
"""Measures what CPU and wall profiles cost, beside heap and lock profiles, which are on: processor time of redis-server
for a SET with sixteen commands at a time, of 64 threads, of the C++ compiler; and the share of a core that a thousand
idle threads take. Programs are started by deltaprof run, as users start them: with files, names and tables, and its own
processor time is part of the sum. Runs take turns in a drawn order. Printed are quartiles of the ratios of runs of the same
round.

    DP_BENCH_ROUNDS=60       number of rounds; of the idle threads a twentieth
    bench_cpu.py [WORD ...]  only what these words name: redis threads compiler idle"""
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time

from alternate import BUILD, out

ROUNDS = int(os.environ.get('DP_BENCH_ROUNDS', '60'))
THREADS = os.path.join(BUILD, 'tests/bench/threads')
DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
CONFS = {'alone': None, 'heap, locks': 'cpu_rate=0', 'heap, locks, cpu': 'cpu_rate=10ms'}
IDLE = {'heap, locks': 'cpu_rate=0', 'with wall_rate=100ms': 'wall_rate=100ms,cpu_rate=0',
        'with wall_rate=100ms, cpu_rate=10ms': 'wall_rate=100ms,cpu_rate=10ms'}
IDLE_S = 14
SOURCE = """#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main(int argc, char **argv)
{
    std::map<std::string, std::vector<int>> places;
    for (int i = 0; i < argc; i++)
        places[argv[i]].push_back(i);
    std::cout << std::regex_search(argv[0], std::regex("a+b")) << places.size();
}
"""


ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}


def start(argv, conf):
    if conf:
        argv = [DELTAPROF, 'run', '-o', f'{conf},out={out.name}/profiles', '--', *argv]
    return subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.DEVNULL)


def clock_s(pid):
    return time.clock_gettime(~pid << 3 | 2)  # the CPU clock of a process


def run_once(argv, conf):
    shutil.rmtree(f'{out.name}/profiles', ignore_errors=True)
    process = start(argv, conf)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f'{argv[0]} ended with {process.returncode}')
    return usage.ru_utime + usage.ru_stime


def compare(name, unit, rounds, measure):
    """measure(name of a configuration) is called in turn; prints medians, and quartiles of ratios to the first one."""
    values = {c: [] for c in CONFS}
    for _ in range(rounds):
        for c in random.sample(list(CONFS), len(CONFS)):
            values[c].append(measure(c))
    base = values['alone']
    for c, of_c in values.items():
        low, middle, high = statistics.quantiles((x / y for x, y in zip(of_c, base)), n=4) if len(base) > 1 else [of_c[0] / base[0]] * 3
        print(f'{name} {c}: {statistics.median(of_c):.3f} {unit} (ratio {low:.3f} {middle:.3f} {high:.3f}; {rounds} rounds)', flush=True)


def start_redis(conf):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    argv = ['redis-server', '--port', str(port), '--save', '', '--appendonly', 'no', '--loglevel', 'warning']
    process = start(argv, conf)
    end = time.monotonic() + 20
    while subprocess.run(['redis-cli', '-p', str(port), 'ping'], capture_output=True).stdout != b'PONG\n':
        if process.poll() is not None or time.monotonic() > end:
            sys.exit('redis-server does not answer')
        time.sleep(0.05)
    return process, port


def redis():
    def load(port, n):
        subprocess.run(['redis-benchmark', '-p', str(port), '-t', 'set', '-r', '100000', '-q', '--csv', '-P', '16', '-n', str(n)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    def measure(c):
        process, port = servers[c]
        before = clock_s(process.pid)
        load(port, 400000)
        return (clock_s(process.pid) - before) / 400000 * 1e6
    servers = {c: start_redis(conf) for c, conf in CONFS.items()}
    try:
        for _, port in servers.values():
            load(port, 300000)
        compare('redis SET -P 16', 'us a request', ROUNDS, measure)
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait()


def threads():
    compare('64 threads', 's', ROUNDS, lambda c: run_once([THREADS, 'busy', '64', '300'], CONFS[c]))


def compiler():
    source, text = f'{out.name}/source.cc', f'{out.name}/source.ii'
    with open(source, 'w') as f:
        f.write(SOURCE)
    cc1plus = subprocess.run(['g++', '-print-prog-name=cc1plus'], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(['g++', '-E', '-o', text, source], check=True)
    argv = [cc1plus, '-quiet', '-O1', text, '-o', f'{out.name}/source.s']
    compare('cc1plus -O1', 's', max(ROUNDS // 2, 1), lambda c: run_once(argv, CONFS[c]))


def idle():
    for _ in range(max(ROUNDS // 20, 1)):
        for name, conf in IDLE.items():
            process = start([THREADS, 'idle', '1000', str(IDLE_S + 6)], conf)
            time.sleep(4)  # looks for threads are more frequent in the first second
            before, begin = clock_s(process.pid), time.monotonic()
            time.sleep(IDLE_S)
            share = (clock_s(process.pid) - before) / (time.monotonic() - begin)
            print(f'1,000 idle threads {name}: {100 * share:.3f} % of a core', flush=True)
            process.wait()


PARTS = {'redis': (redis, ['redis-server', 'redis-benchmark', 'redis-cli']), 'threads': (threads, []), 'compiler': (compiler, ['g++']),
         'idle': (idle, [])}
for part in sys.argv[1:] or PARTS:
    missing = [program for program in PARTS[part][1] if not shutil.which(program)]
    if missing:
        print(f'{part} is not measured: {missing[0]} is not installed')
    else:
        PARTS[part][0]()
