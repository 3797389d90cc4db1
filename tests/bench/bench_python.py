# SPDX-License-Identifier: MIT
"""Five programs in Python that compute and allocate: their processor time without a profiler, with frames only, with
frames and heap, and under other profilers of memory that this Python has. DP_BENCH_PYTHON is another interpreter."""
import os
import statistics
import subprocess
import sys
import tempfile

from alternate import PRELOAD, ROUNDS

PYTHON = os.environ.get('DP_BENCH_PYTHON', sys.executable)
PROGRAMS = {
    'floats': '''
def step(bodies, dt):
    for i, a in enumerate(bodies):
        for b in bodies[i + 1:]:
            d = [p - q for p, q in zip(a[0], b[0])]
            f = dt / (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01) ** 1.5
            for k in range(3):
                a[1][k] -= d[k] * b[2] * f
                b[1][k] += d[k] * a[2] * f
    for at, speed, mass in bodies:
        for k in range(3):
            at[k] += dt * speed[k]
bodies = [([i * 1.1, i * 0.7, i * 0.3], [0.1 * i, 0.0, 0.2], 1.0 + i) for i in range(5)]
for _ in range(160000):
    step(bodies, 0.001)
''',
    'objects': '''
class Node:
    def __init__(self, key, left, right):
        self.key, self.left, self.right = key, left, right
def tree(depth):
    return Node(depth, tree(depth - 1), tree(depth - 1)) if depth else None
def count(node):
    return 1 + count(node.left) + count(node.right) if node else 0
kept = [tree(10) for _ in range(20)]
for i in range(3600):
    kept[i % 20] = tree(10)
    assert count(kept[i % 20]) == 1023
''',
    'json': '''
import json
rows = [{'id': i, 'name': 'name %d' % i, 'tags': [str(j) for j in range(i % 9)], 'at': i * 0.5} for i in range(400)]
for _ in range(2600):
    assert len(json.loads(json.dumps(rows))) == 400
''',
    'text': '''
import collections, re
text = ' '.join('word%d is number %d, and %s.' % (i % 500, i, hex(i)) for i in range(4000))
for _ in range(320):
    words = re.findall('[a-z0-9]+', text)
    counts = collections.Counter(w.upper() for w in words)
    assert '-'.join(sorted(counts)).count('WORD') == 500
''',
    'generators': '''
def numbers(n):
    for i in range(n):
        yield (i, i * i)
def pairs(source):
    for a, b in source:
        yield {'sum': a + b, 'key': '%d' % a}
total = 0
for _ in range(50):
    table = {row['key']: row for row in pairs(numbers(60000))}
    total += sum(row['sum'] for row in table.values())
''',
}


def ours(conf):
    def command(program, where):
        return [PYTHON, program], {'LD_PRELOAD': PRELOAD, 'DELTAPROF_CONF': f'out={where},{conf}'}
    return command


def profilers():
    """{name: function of the program's path and of a directory: a command, and what it adds to the environment}"""
    found = {
        'without us': lambda program, where: ([PYTHON, program], {}),
        'frames': ours('python=frames'),
        'frames and heap': ours('python=auto'),
        'frames and heap, every allocation': ours('python=auto,heap_rate=1'),
        'tracemalloc': lambda program, where: ([PYTHON, '-X', 'tracemalloc', program], {}),
    }
    ask = 'import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n)])'
    has = subprocess.run([PYTHON, '-c', ask, 'memray', 'scalene'], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    if 'memray' in has:
        memray = [PYTHON, '-m', 'memray', 'run', '--quiet', '--force', '--output']
        found['memray'] = lambda program, where: (memray + [where + '/memray', program], {})
        found['memray, its own allocator too'] = lambda program, where: (
            memray + [where + '/memray', '--trace-python-allocators', program], {})
    if 'scalene' in has:
        found['scalene'] = lambda program, where: (
            [PYTHON, '-m', 'scalene', 'run', '--outfile', where + '/scalene.json', program], {})
    return found


def once(command, extra):
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF', 'PYTHONPATH')}
    child = subprocess.Popen(command, env=env | extra, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, (command, said)
    return usage.ru_utime + usage.ru_stime


with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as where:
    for name, text in PROGRAMS.items():
        program = os.path.join(where, f'bench_{name}.py')
        with open(program, 'w') as f:
            f.write(text)
        times = {p: [] for p in profilers()}
        for turn in range(ROUNDS):
            for p, command in profilers().items():
                times[p].append(once(*command(program, where)))
        base = times['without us']
        for p, values in times.items():
            ratio = statistics.median(b / v for v, b in zip(values, base))
            print(f'{name} {p}: {statistics.median(values):.3f} s of processor time, ratio {ratio:.2f} '
                  f'({min(values):.3f} to {max(values):.3f} s)', flush=True)
