# SPDX-License-Identifier: MIT
"""A collector that is killed: `deltaprof serve -o` is killed, at random moments and between two of its calls, and started again, while processes begin, work, end and
are killed. The sum of its files, and what a client got that asks with ?after=, are compared with what the processes did. DP_BENCH_KILLS sets the
number of kills."""
import collections
import http.client
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
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


class Client(threading.Thread):
    """Asks one server after the other for what is new."""

    def __init__(self):
        super().__init__(daemon=True)
        self.port = self.pid = self.seq = self.blocks = self.n_replies = 0
        self.is_over = threading.Event()
        self.refused = []

    def ask(self):
        """True: a reply came."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        try:
            connection.request('GET', f'/debug/pprof/delta_heap?cursor=bench&after={self.seq}')
            reply = connection.getresponse()
            body = reply.read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if reply.headers['X-Deltaprof-Pid'] != str(self.pid):
            return False  # another server has that port now
        if reply.status != 200:
            self.refused += [body] if reply.status != 503 else []
            return False
        path = os.path.join(self.directory, 'reply')
        with open(path, 'wb') as f:
            f.write(body)
        self.blocks += sum(s.values['alloc_objects'] for s in reader.load(path).samples if 'works' in s.names)
        self.seq = reply.headers['X-Deltaprof-Seq']
        self.n_replies += 1
        return True

    def run(self):
        with tempfile.TemporaryDirectory() as self.directory:
            while not self.is_over.is_set():
                time.sleep(0 if self.port and self.ask() else 0.01)
            while not self.ask() or not self.ask():
                time.sleep(0.05)


def start_server(tables, out, **more):
    return subprocess.Popen([DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', '-o', out, '--interval', '10ms', tables],
                            stdout=subprocess.PIPE, env=dict(os.environ, **more))


def follow(client, server):
    line = server.stdout.readline().decode()  # none: it was killed before it listened
    client.port, client.pid = int(line.rsplit(':', 1)[1].split('/')[0]) if line else 0, server.pid


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
    client = Client()
    follow(client, server)  # before it has the directory, processes do not know of it
    client.start()
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
        follow(client, server)
    server.kill()
    server.communicate()
    server = start_server(tables, out)
    follow(client, server)
    for victim in victims:
        done.append(end_victim(*victim))
    while [name for name in os.listdir(tables) if name not in ('serve', 'cursors')]:
        time.sleep(0.05)
    client.is_over.set()
    client.join()
    server.terminate()
    server.communicate()
    n_files, in_files = 0, collections.Counter()
    for path in reader.files(out, 'heap'):
        n_files += 1
        in_files[int(path.split('.')[-5])] += sum(s.values['alloc_objects'] for s in reader.load(path).samples if 'works' in s.names)
    wrong = [f'{pid} {how}: made {n}, in files {in_files[pid]}' for pid, n, how in done if in_files[pid] != n]
    print(f'served_kills {KILLS} n\nserved_processes {len(done)} n\nserved_files {n_files} n')
    n_blocks = sum(n for _, n, _ in done)
    print(f'served_blocks {n_blocks} n\nserved_wrong_processes {len(wrong)} n')
    print(f'served_replies {client.n_replies} n\nserved_blocks_in_replies {client.blocks} n\nserved_refused_replies {len(client.refused)} n')
    if client.blocks != n_blocks or client.refused:
        wrong.append(f'the client got {client.blocks} of {n_blocks}; {client.refused[:3]}')
    shutil.rmtree(tables)
    if wrong:
        sys.exit(f'seed {seed}, {out}:\n' + '\n'.join(wrong))
    shutil.rmtree(out)


main()
