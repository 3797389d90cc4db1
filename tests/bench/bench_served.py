# SPDX-License-Identifier: MIT
"""A collector that is killed: `deltaprof serve -o` is killed, at random moments and between two of its calls, and started again, while processes begin, work, end and
are killed. The sum of its files is compared with what the processes did. DP_BENCH_KILLS sets the number of kills."""
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from alternate import BUILD

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(BUILD, 'tests/reader')]
import reader  # noqa: E402

KILLS = int(os.environ.get('DP_BENCH_KILLS', '100'))
DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
VICTIM = os.path.join(BUILD, 'tests/hooks/victim_works')
PRELOAD = os.path.join(BUILD, 'runtime_hooks/preload/libdeltaprof_preload.so')
KILLER = os.path.join(BUILD, 'tests/hooks/libkilled.so')
AT_ONCE = 6


def start_server(tables, out, **more):
    return subprocess.Popen([DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', '-o', out, '--interval', '10ms', tables],
                            stdout=subprocess.PIPE, env=dict(os.environ, **more))


def start_victim(tables):
    conf = f'heap_rate=1,cpu_rate=0,mutex_rate=0,block_rate=0,out=none,log=none,tables={tables}'
    how = random.choice(['slow', 'slow', 'end', 'wait'])
    n = random.randrange(100, 3000)
    process = subprocess.Popen([VICTIM, str(n), how], env=dict(os.environ, LD_PRELOAD=PRELOAD, DELTAPROF_CONF=conf), stdout=subprocess.PIPE)
    return n, how, process


def end_victim(n, how, process):
    process.stdout.readline()
    if how == 'wait':
        process.kill()
    process.wait()
    process.stdout.close()
    return process.pid, n, how


def main():
    seed = int(os.environ.get('DP_BENCH_SEED', random.randrange(10**6)))
    random.seed(seed)
    tables, out = tempfile.mkdtemp(prefix='deltaprof-bench-', dir='/dev/shm'), tempfile.mkdtemp()
    done, victims = [], []
    server = start_server(tables, out)
    server.stdout.readline()  # before it has the directory, processes do not know of it
    for _ in range(KILLS):
        try:
            server.wait(random.random() * random.choice([0.05, 0.5]))  # it may kill itself
        except subprocess.TimeoutExpired:
            server.kill()
        server.communicate()
        while len(victims) < AT_ONCE:
            victims.append(start_victim(tables))
        for _ in range(random.randrange(AT_ONCE)):
            done.append(end_victim(*victims.pop(0)))
        at = {'LD_PRELOAD': KILLER, 'KILLED_AT': str(random.randrange(1, 120))}
        server = start_server(tables, out, **random.choice([{}, at]))
    server.kill()
    server.communicate()
    server = start_server(tables, out)
    for victim in victims:
        done.append(end_victim(*victim))
    while [name for name in os.listdir(tables) if name != 'serve']:
        time.sleep(0.05)
    server.terminate()
    server.communicate()
    n_files, in_files = 0, collections.Counter()
    for path in reader.files(out, 'heap'):
        n_files += 1
        in_files[int(path.split('.')[-5])] += sum(s.values['alloc_objects'] for s in reader.load(path).samples if 'works' in s.names)
    wrong = [f'{pid} {how}: made {n}, in files {in_files[pid]}' for pid, n, how in done if in_files[pid] != n]
    print(f'served_kills {KILLS} n\nserved_processes {len(done)} n\nserved_files {n_files} n')
    print(f'served_blocks {sum(n for _, n, _ in done)} n\nserved_wrong_processes {len(wrong)} n')
    shutil.rmtree(tables)
    if wrong:
        sys.exit(f'seed {seed}, {out}:\n' + '\n'.join(wrong))
    shutil.rmtree(out)


main()
