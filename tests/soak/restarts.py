# SPDX-License-Identifier: MIT
"""Restarts workers of real servers, half of them by kill -9, and kills `deltaprof serve -o` meanwhile.

    restarts.py BUILD WORKERS KILLS [SERVER]...      workers that end, and kills of serve, of each server

Each process of a server counts some of its blocks itself (books.c). In the end the files must have these blocks of each process, once:
of a process that was killed, at least those that it had made and at most those that it had begun. No table and no temporary file may be
left. Servers that are not installed are left out. The last line is `N passed, N failed`.
"""
import collections
import contextlib
import glob
import http.client
import mmap
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

build, workers, kills, wanted = os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), '../reader'), os.path.join(build, 'tests/reader')]
import reader  # noqa: E402

DELTAPROF = os.path.join(build, 'src/tool/cli/deltaprof')
PRELOAD = ' '.join(os.path.join(build, path) for path in ('runtime_hooks/preload/libdeltaprof_preload.so', 'tests/soak/libbooks.so'))
ROWS = 1 << 16
ROOT = os.geteuid() == 0
TOOLS = (sorted(glob.glob('/usr/lib/postgresql/*/bin')) or [''])[-1]
PHP = next((path for path in sorted(glob.glob('/usr/sbin/php-fpm*'))), None)


def as_user():
    """The options by which setpriv starts postgres, which root may not."""
    return ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups'] if ROOT else []


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)
    return path


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def ask_http(port):
    with contextlib.closing(http.client.HTTPConnection('127.0.0.1', port, timeout=10)) as connection:
        connection.request('GET', '/')
        connection.getresponse().read()


def ask_php(port, script):
    """One request of FastCGI: begin, parameters, an empty input."""
    def record(kind, body):
        return struct.pack('>BBHHBB', 1, kind, 1, len(body), 0, 0) + body
    pairs = {'SCRIPT_FILENAME': script, 'REQUEST_METHOD': 'GET', 'SCRIPT_NAME': '/x.php', 'SERVER_PROTOCOL': 'HTTP/1.1'}
    text = b''.join(bytes([len(k), len(v)]) + k.encode() + v.encode() for k, v in pairs.items())
    with socket.create_connection(('127.0.0.1', port), 10) as s:
        s.sendall(record(1, struct.pack('>HB5x', 1, 0)) + record(4, text) + record(4, b'') + record(5, b''))
        while s.recv(4096):
            continue


# Each returns the command, and a function that makes one request.
def nginx(where, port):
    conf = write(where + '/nginx.conf', f'''daemon off; worker_processes 4; pid {where}/pid; error_log {where}/error.log;
        {"user root;" if ROOT else ""} events {{ worker_connections 100; }}
        http {{ access_log off; client_body_temp_path {where}/a; proxy_temp_path {where}/b; fastcgi_temp_path {where}/c;
                uwsgi_temp_path {where}/d; scgi_temp_path {where}/e; server {{ listen 127.0.0.1:{port}; root {where}; }} }}''')
    return [shutil.which('nginx') or '/usr/sbin/nginx', '-c', conf, '-e', where + '/error.log'], lambda: ask_http(port)


def gunicorn(where, port):
    write(where + '/app.py', "def app(environ, start):\n    start('200 OK', [('Content-Length', '2')])\n    return [b'ok']\n")
    return ['/usr/bin/python3', '-m', 'gunicorn.app.wsgiapp', '-w', '4', '-b', f'127.0.0.1:{port}', '--preload', '--pythonpath', where,
            '--max-requests', '20', '--log-level', 'critical', 'app:app'], lambda: ask_http(port)


def php(where, port):
    script = write(where + '/x.php', '<?php echo str_repeat("x", 100);')
    user = 'user = root\ngroup = root\n' if ROOT else ''
    conf = write(where + '/fpm.conf', f'[global]\ndaemonize = no\nerror_log = {where}/log\nemergency_restart_threshold = 0\n[www]\n{user}'
                 f'listen = 127.0.0.1:{port}\npm = static\npm.max_children = 4\npm.max_requests = 5\n')
    return [PHP, '-y', conf, '-n', '-F', *(['-R'] if ROOT else [])], lambda: ask_php(port, script)


def postgres(where, port):
    subprocess.run([*as_user(), TOOLS + '/initdb', '-D', where + '/data', '-A', 'trust', '-U', 'test', '--no-sync'], check=True,
                   stdout=subprocess.DEVNULL)

    def ask():  # -C: each transaction has a process of its own
        subprocess.run([TOOLS + '/pgbench', '-h', '127.0.0.1', '-p', str(port), '-U', 'test', '-n', '-C', '-t', '5', '-f', where + '/select',
                        'postgres'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    write(where + '/select', 'select pg_sleep(0.002), count(*) from pg_class;\n')
    return [*as_user(), TOOLS + '/postgres', '-D', where + '/data', '-p', str(port), '-k', where, '-F'], ask


NEEDS = {'nginx': shutil.which('nginx') or '/usr/sbin/nginx', 'gunicorn': '/usr/bin/gunicorn', 'php': PHP or '', 'postgres': TOOLS + '/pgbench'}


def children(pid):
    try:
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


def is_backend(pid):
    """Of postgres, which ends for good if its startup process is killed."""
    with contextlib.suppress(OSError), open(f'/proc/{pid}/cmdline', 'rb') as f:
        return b'127.0.0.1(' in f.read()


class Books:
    """The rows of the processes."""

    def __init__(self, path):
        with open(path, 'w+b') as f:
            f.truncate(8 + ROWS * 24)
            self.memory = mmap.mmap(f.fileno(), 0)
        os.chmod(path, 0o666)

    def count(self):
        return struct.unpack_from('q', self.memory)[0]

    def sums(self):
        """{pid: (done, begun)}"""
        sums = collections.defaultdict(lambda: (0, 0))
        for i in range(self.count()):
            pid, begun, done = struct.unpack_from('3q', self.memory, 8 + 24 * i)
            sums[pid] = (sums[pid][0] + done, sums[pid][1] + begun)
        return sums


class Family:
    def __init__(self, name):
        self.name = name
        self.where = tempfile.mkdtemp(prefix='deltaprof-restarts-')
        self.tables = tempfile.mkdtemp(prefix='deltaprof-restarts-', dir='/dev/shm')
        self.out, self.user = os.path.join(self.where, 'out'), as_user() if name == 'postgres' else []
        os.mkdir(self.out)
        os.chmod(self.where, 0o755)
        self.books, self.port = Books(self.where + '/books'), free_port()
        if self.user:
            for path in self.where, self.tables, self.out:
                shutil.chown(path, 'postgres', 'postgres')
        command, self.ask = globals()[name](self.where, self.port)
        self.log = open(self.where + '/server.log', 'w')
        self.serve()
        conf = f'heap_rate=1,python=off,cpu_rate=0,mutex_rate=0,block_rate=0,out=none,log=none,tables={self.tables}'
        n = len(self.user)
        self.server = subprocess.Popen([*self.user, 'env', f'LD_PRELOAD={PRELOAD}', f'DELTAPROF_CONF={conf}', f'BOOKS={self.where}/books',
                                        *command[n:]], cwd=self.where, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def serve(self):
        self.serving = subprocess.Popen([*self.user, DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', '-o', self.out, '--interval', '1s',
                                         self.tables], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.serving.stdout.readline()

    def load(self, until):
        while not until.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask()

    def kill_serve(self):
        self.serving.kill()
        self.serving.communicate()
        self.serve()

    def run(self):
        """Workers are killed, or end by themselves, until enough have. Returns the numbers of both, and of kills of serve."""
        over, n_killed, n_kills, first = threading.Event(), 0, 0, self.books.count()
        clients = [threading.Thread(target=self.load, args=[over], daemon=True) for _ in range(2)]
        for client in clients:
            client.start()
        until = time.monotonic() + 600 + workers
        while (n := self.books.count() - first) < workers + 4 and time.monotonic() < until and self.server.poll() is None:
            if n_kills < kills and n_kills * workers <= n * kills:
                self.kill_serve()
                n_kills += 1
            mine = [pid for pid in children(self.server.pid) if self.name != 'postgres' or is_backend(pid)]
            if mine and 2 * n_killed <= n:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(mine), signal.SIGKILL)
                    n_killed += 1
            elif mine and self.name == 'nginx':
                self.server.send_signal(signal.SIGHUP)  # four new ones
                time.sleep(0.05)
            time.sleep(random.random() * 0.02)
        over.set()
        for client in clients:
            client.join(60)
        return self.books.count() - first, n_killed, n_kills

    def end(self):
        """Returns the errors of serve, and what is left after it has ended."""
        self.server.send_signal(signal.SIGINT if self.user else signal.SIGTERM)
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        until, left = time.monotonic() + 120, [None]
        while left and time.monotonic() < until:
            left = [name for name in os.listdir(self.tables) if name not in ('serve', 'cursors')]
            time.sleep(0.1)
        self.serving.terminate()
        errors = self.serving.communicate()[1]
        left += [name for name in os.listdir(self.out) if not name.endswith('.pb.gz')]
        return errors, left

    def in_files(self):
        sums = collections.Counter()
        for path in glob.glob(self.out + '/*.heap.pb.gz'):
            sums[int(path.split('.')[-5])] += sum(s.values['alloc_objects'] for s in reader.load(path).samples if 'books_make' in s.names)
        return sums


def run(name):
    family = Family(name)
    n, n_killed, n_kills = family.run()
    errors, left = family.end()
    books, files = family.books.sums(), family.in_files()
    wrong = [(pid, files[pid], books.get(pid)) for pid in {*books, *files} if not books[pid][0] <= files[pid] <= books[pid][1]]
    n_blocks, n_open = sum(files.values()), sum(begun - done for done, begun in books.values())
    print(f'{name}: {n} processes ended or were made, {n_killed} killed; serve killed {n_kills} times; {n_blocks} blocks in files, '
          f'{n_open} begun by processes that were killed then', flush=True)
    passed = n >= workers and n_kills >= kills and not wrong and not left and not errors
    if not passed:
        print('FAIL', f'n={n} kills={n_kills} of {len(books)} processes {len(wrong)} wrong (pid, in files, (done, begun)): {wrong[:5]}; '
              f'left: {left[:5]}; serve said: {errors[:500]}; see {family.where}', flush=True)
    shutil.rmtree(family.tables)
    if passed:
        shutil.rmtree(family.where)
    return passed


there = [name for name in (wanted or NEEDS) if os.path.exists(NEEDS[name])]
results = [run(name) for name in there]
print(f'{sum(results)} passed, {len(results) - sum(results)} failed' if there else 'no server is installed')
sys.exit(77 if not there else not all(results))
