# SPDX-License-Identifier: MIT
"""What the CPU profile and `perf record --call-graph dwarf` see of the same run: for each program the functions that most
samples of perf have anywhere in their stack, with the share of both.

    bench_perf.py [PROGRAM...]        of cc1 redis python node

Prints `perf_PROGRAM_FUNCTION SHARE-OF-PERF SHARE-OF-DELTAPROF %`, and for the functions with at least 1 % of the leaves
in either the largest difference in deviations of two samples of that size. `perf_PROGRAM_whole`: the samples whose stack reaches the program's or the
thread's first function. perf cuts stacks beyond the bytes that it copies and at generated code, so its shares of functions near the
root may be too small."""
import collections
import glob
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = os.environ['DELTAPROF_BUILD']
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(BUILD, 'tests/reader')]
import reader  # noqa: E402

PERF = ['perf', 'record', '-q', '-e', 'cpu-clock', '-F', '249', '--call-graph', 'dwarf,32768']
TOP, LEAST = 12, 0.01
ROOTS = {'_start', '__libc_start_call_main', '__clone3', 'clone3', '__clone', 'start_thread'}

PYTHON = '''
def parts(n): return [str(i * 7919 % 1000) for i in range(n)]
def counted(words):
    seen = {}
    for w in words: seen[w] = seen.get(w, 0) + 1
    return seen
def ordered(seen): return sorted(seen.items(), key=lambda item: (-item[1], item[0]))
import json, re
def written(rows): return json.dumps(rows)
def found(text): return len(re.findall('[0-9]+7', text))
for _ in range(900): found(written(ordered(counted(parts(8000)))))
'''
NODE = '''
function build(n) { const o = {}; for (let i = 0; i < n; i++) o['k' + (i * 7919 % 5000)] = {v: i, t: 'text' + i}; return o; }
function text(o) { return JSON.stringify(o); }
function back(t) { return JSON.parse(t); }
function sum(o) { let s = 0; for (const k of Object.keys(o).sort()) s += o[k].v; return s; }
let total = 0; for (let i = 0; i < 400; i++) total += sum(back(text(build(8000))));
'''


def c_source(n):
    return ''.join(f'struct s{i} {{ int a, b; char t[{i % 50 + 1}]; }};\n'
                   f'int f{i}(struct s{i} *p, int n) {{ int s = 0; for (int i = 0; i < n; i++) {{ s += p[i].a * {i} ^ p[i].b; '
                   f'if (p[i].t[0] == {i % 100}) s -= f{max(i - 1, 0)}((void *)p, n / 2); switch (s % 7) {{ case 1: s++; break; case 2: s *= 3; '
                   f'break; case 5: return s; }} }} return s; }}\n' for i in range(n))


def profiled(out):
    return {**os.environ, 'LD_PRELOAD': os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so'),
            'DELTAPROF_CONF': f'cpu_rate=4ms,heap_rate=0,mutex_rate=0,block_rate=0,symbolize=functions,python=off,out={out},exit_timeout=60s'}


def record(program, directory, out):
    """Runs the program under both; perf wraps env, which preloads the profiler."""
    data = os.path.join(directory, 'perf.data')
    preload = ['env'] + [f'{key}={value}' for key, value in profiled(out).items() if key in ('LD_PRELOAD', 'DELTAPROF_CONF')]
    if program == 'cc1':
        source = os.path.join(directory, 'source.c')
        with open(source, 'w') as f:
            f.write(c_source(700))
        cc1 = subprocess.run(['gcc', '-print-prog-name=cc1'], capture_output=True, text=True, check=True).stdout.strip()
        command = [cc1, '-quiet', '-O2', source, '-o', '/dev/null']
    elif program == 'python':
        command = ['/usr/bin/python3', '-c', PYTHON]
    elif program == 'node':
        command = ['node', '-e', NODE]
    else:
        socket = os.path.join(directory, 'redis.sock')
        command = ['redis-server', '--port', '0', '--unixsocket', socket, '--save', '', '--appendonly', 'no']
        server = subprocess.Popen(PERF + ['-o', data, '--'] + preload + command, stdout=subprocess.DEVNULL)
        while not os.path.exists(socket):
            time.sleep(0.1)
        for test in ('set', 'get', 'lpush', 'zadd', 'sadd'):
            subprocess.run(['redis-benchmark', '-s', socket, '-q', '-P', '16', '-n', '200000', '-r', '100000', '-t', test],
                           stdout=subprocess.DEVNULL, check=True)
        subprocess.run(['redis-cli', '-s', socket, 'shutdown', 'nosave'], check=True)
        server.wait()
        return data
    subprocess.run(PERF + ['-o', data, '--'] + preload + command, check=True, stdout=subprocess.DEVNULL)
    return data


def by_perf(data, comm):
    """(samples, those that are whole, {function: samples that have it}, {leaf: samples}) without other programs, such as env."""
    text = subprocess.run(['perf', 'script', '-i', data, '--no-inline', '-F', 'comm,tid,ip,sym'], capture_output=True, text=True, errors='replace').stdout
    n, n_whole, seen, leaves = 0, 0, collections.Counter(), collections.Counter()
    for block in text.split('\n\n'):
        lines = block.strip('\n').splitlines()
        if len(lines) < 2 or comm not in lines[0]:
            continue
        n += 1
        names = [line.split(None, 1)[1].split('+0x')[0].strip() for line in lines[1:] if len(line.split(None, 1)) > 1]
        leaves[names[0]] += 1
        names = set(names)
        n_whole += bool(names & ROOTS)
        seen.update(names)
    return n, n_whole, seen, leaves


def by_deltaprof(out):
    n, n_whole, seen, leaves = 0, 0, collections.Counter(), collections.Counter()
    for path in glob.glob(out + '/*.cpu.pb.gz'):
        for s in reader.load(path).samples:
            n += s.values['samples']
            leaves[s.names[0]] += s.values['samples']
            n_whole += s.values['samples'] * bool(ROOTS & set(s.names))
            for name in set(s.names):
                seen[name] += s.values['samples']
    return n, n_whole, seen, leaves


for program in sys.argv[1:] or ['cc1', 'redis', 'python', 'node']:
    directory = tempfile.mkdtemp(prefix='deltaprof-perf-')
    out = os.path.join(directory, 'out')
    n_perf, whole_perf, perf, leaves_perf = by_perf(record(program, directory, out), {'cc1': 'cc1', 'redis': 'redis', 'python': 'python3', 'node': 'node'}[program])
    n_ours, whole_ours, ours, leaves_ours = by_deltaprof(out)
    print(f'perf_{program}_samples {n_perf} {n_ours} samples', flush=True)
    print(f'perf_{program}_whole {100 * whole_perf / n_perf:.1f} {100 * whole_ours / n_ours:.1f} %')
    worst = 0, ''
    for name, count in leaves_perf.most_common():
        a, b = count / n_perf, leaves_ours[name] / n_ours
        if name == '[unknown]' or name not in leaves_ours or max(a, b) < LEAST:
            continue
        p = (count + leaves_ours[name]) / (n_perf + n_ours)
        worst = max(worst, (abs(a - b) / math.sqrt(p * (1 - p) * (1 / n_perf + 1 / n_ours) or 1), name))
    common = [name for name, _ in perf.most_common() if name in ours and name != '[unknown]']
    for name in common[:TOP]:
        print(f'perf_{program}_{name.replace(" ", "_")} {100 * perf[name] / n_perf:.1f} {100 * ours[name] / n_ours:.1f} %')
    print(f'perf_{program}_largest_difference {worst[0]:.1f} deviations ({worst[1]})', flush=True)
    shutil.rmtree(directory)
