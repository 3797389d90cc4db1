# SPDX-License-Identifier: MIT
"""Real programs with threads and locks, under load: their answers are right, and their profiles name the functions
that lock."""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

import reader
from harness import (Run, environment, free_port, main, need, new_directory, profiles, reachable_by, redis_release,
                     same, skip, victim, wait_for_server, wait_until)

CONF = 'block_rate=1ns,mutex_rate=1,interval=500ms'  # each wait and unlock is recorded, none is weighed


class Server:
    """Runs a program under the preload object for the length of a `with`. Afterwards .run is its Run of the harness."""

    def __init__(self, argv, port, user=None, home=None):
        self.out = tempfile.mkdtemp(dir=home) if home else new_directory()
        if user:
            shutil.chown(self.out, user)
        self.port = port
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, env=environment(CONF, self.out), cwd=self.out, user=user, stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=self.errors)

    def __enter__(self):
        try:
            wait_for_server(self.port, self.process)
            return self
        except Exception as failure:
            self.process.kill()
            self.errors.seek(0)
            raise AssertionError(self.errors.read().decode(errors='replace')) from failure

    def __exit__(self, *_):
        self.process.send_signal(self.stop)
        try:
            self.status = self.process.wait(60)
        finally:
            self.process.kill()
        self.errors.seek(0)
        self.text = self.errors.read().decode(errors='replace')
        self.run = Run('', '', self.status, self.out)

    stop = signal.SIGTERM


def rows(r, kind):
    return reader.sum_profiles(profiles(r, kind=kind))


def names(total):
    return {name for stack, _ in total for name in stack}


def labels(total):
    return {dict(pairs).get('lock') for _, pairs in total}


def balanced(r):
    """Per process: waits for mutexes and rwlocks that ended are in both profiles; those under way at the end are in the
    block profile only."""
    for pid in {p.pid for p in profiles(r, kind='block')}:
        sums = []
        for kind in ('mutex', 'block'):
            total = reader.sum_profiles(profiles(r, kind=kind, pid=pid))
            sums.append(sum(row['delay'] for (_, pairs), row in total.items() if dict(pairs)['lock'] in ('mutex', 'rwlock-read', 'rwlock-write')))
        assert sums[0] <= sums[1] + 1e7, sums


def that_cxx_prints_the_same_and_is_named():
    program = victim('cxx_locks')
    if not os.path.exists(program):
        skip('no C++ compiler')
    r = same([program], 'block_rate=1ns')
    block, mutex = rows(r, 'block'), rows(r, 'mutex')
    assert {'mutex', 'rwlock-read', 'rwlock-write', 'cond'} <= labels(block), labels(block)
    assert {'take_job', 'write_book', 'read_book'} <= names(block), names(block)
    assert {'take_job', 'write_book'} <= names(mutex), names(mutex)
    balanced(r)


def that_redis_with_io_threads_answers_right():
    need('redis-server', 'redis-benchmark', 'redis-cli')
    port = free_port()
    cli = ['redis-cli', '-p', str(port)]
    with Server(['redis-server', '--port', str(port), '--save', '', '--io-threads', '2', '--io-threads-do-reads', 'yes'], port) as s:
        done = subprocess.run(['redis-benchmark', '-p', str(port), '-q', '-n', '40000', '-c', '40', '-P', '16', 'incr', 'turns'],
                              stdout=subprocess.PIPE, timeout=60, check=True)
        def asked(*words):
            return subprocess.run(cli + list(words), stdout=subprocess.PIPE, timeout=60, text=True).stdout
        answer = asked('get', 'turns')
        assert int(answer.strip().strip('"')) == 40000, (answer, done.stdout)
        asked('flushall', 'async')
        wait_until(lambda: 'lazyfree_pending_objects:0' in asked('info', 'memory'))  # a waiting thread frees them
    assert s.status == 0, s.text
    balanced(s.run)
    if redis_release() < 8:
        waiters, holders = names(rows(s.run, 'block')), names(rows(s.run, 'mutex'))
        assert {'IOThreadMain', 'bioProcessBackgroundJobs'} <= waiters, waiters
        assert any('UsingThreads' in h or 'ThreadedIO' in h for h in holders), holders


def memcached_load(port, client, wrong):
    """500 times 50 sets and gets of this client's keys, and increments of one key that all clients share."""
    with socket.create_connection(('127.0.0.1', port)) as c:
        f = c.makefile('rwb')
        for n in range(500):
            value = b'%d:%d' % (client, n)
            f.write(b''.join(b'set k%d-%d 0 0 %d noreply\r\n%s\r\nincr all 1 noreply\r\n' % (client, i, len(value), value) for i in range(50)))
            f.write(b'get k%d-%d\r\n' % (client, n % 50))
            f.flush()
            got = [f.readline() for _ in range(3)]
            if got[1].strip() != value:
                wrong.append(got)


def that_memcached_with_four_threads_answers_right():
    need('memcached')
    port = free_port()
    argv = ['memcached', '-t', '4', '-p', str(port), '-l', '127.0.0.1', '-U', '0', '-m', '64']
    if os.getuid() == 0:
        argv += ['-u', 'root']
    with Server(argv, port) as s:
        with socket.create_connection(('127.0.0.1', port)) as c:
            c.sendall(b'set all 0 0 1\r\n0\r\n')
            assert c.recv(100) == b'STORED\r\n'
        wrong = []
        clients = [threading.Thread(target=memcached_load, args=(port, i, wrong)) for i in range(8)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        with socket.create_connection(('127.0.0.1', port)) as c:
            c.sendall(b'get all\r\n')
            answer = c.recv(200).split(b'\r\n')
        assert int(answer[1]) == 8 * 500 * 50 and not wrong, (answer, wrong)
    assert s.status in (0, -signal.SIGTERM), (s.status, s.text)
    block = rows(s.run, 'block')
    assert labels(block) & {'mutex', 'cond'}, labels(block)
    # Debian's memcached has no symbols: its frames are recognised by the file.
    assert any(f.mapping.endswith('/memcached') for p in profiles(s.run, kind='block') for x in p.samples for f in x.frames)
    balanced(s.run)


def that_nginx_with_a_thread_pool_answers_right():
    need('nginx', 'wrk')
    if '--with-threads' not in subprocess.run(['nginx', '-V'], stderr=subprocess.PIPE, text=True).stderr:
        skip('nginx has no threads')
    home, port = new_directory(), free_port()
    os.chmod(home, 0o755)
    os.mkdir(os.path.join(home, 'www'))
    for i in range(20):
        with open(os.path.join(home, 'www', f'{i}.bin'), 'wb') as f:
            f.write(bytes([65 + i]) * 100000)
    with open(os.path.join(home, 'nginx.conf'), 'w') as f:
        f.write(f'''daemon off; master_process off; pid {home}/pid; error_log {home}/error.log;
thread_pool default threads=4 max_queue=65536;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u;
  scgi_temp_path {home}/s; server {{ listen 127.0.0.1:{port}; location / {{ root {home}/www; aio threads; sendfile off; }} }} }}''')
    with Server(['nginx', '-p', home, '-c', os.path.join(home, 'nginx.conf')], port) as s:
        load = subprocess.run(['wrk', '-t', '2', '-c', '16', '-d', '2s', '--timeout', '60s', f'http://127.0.0.1:{port}/3.bin'], stdout=subprocess.PIPE, text=True, timeout=60)
        assert 'Non-2xx' not in load.stdout and 'Socket errors' not in load.stdout, load.stdout
        import urllib.request
        for i in range(20):
            body = urllib.request.urlopen(f'http://127.0.0.1:{port}/{i}.bin', timeout=60).read()
            assert body == bytes([65 + i]) * 100000
    assert s.status == 0, (s.status, s.text)
    block = rows(s.run, 'block')
    assert {'mutex', 'cond'} & labels(block), labels(block)
    assert any(n.startswith('ngx_thread') for n in names(block)), names(block)
    balanced(s.run)


def that_postgres_under_pgbench_answers_right():
    where = '/usr/lib/postgresql'
    versions = sorted((v for v in os.listdir(where) if os.path.exists(f'{where}/{v}/bin/postgres')), key=float) if os.path.isdir(where) else []
    need('pgbench')
    if not versions:
        skip('no postgresql')
    tools = f'{where}/{versions[-1]}/bin/'
    port = free_port()
    user = 'postgres' if os.getuid() == 0 else None
    if user and not reachable_by(user):
        return print('postgres may not read the build directory')
    with tempfile.TemporaryDirectory(prefix='deltaprof-pg-') as home:
        if user:
            os.chmod(home, 0o755)
            shutil.chown(home, user)
        env = dict(os.environ, PGUSER='postgres', PGHOST=home, PGPORT=str(port))
        plain = dict(env=env, user=user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=home, timeout=60)
        data = os.path.join(home, 'data')
        subprocess.run([tools + 'initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '--no-sync'], check=True, **plain)
        server = [tools + 'postgres', '-D', data, '-p', str(port), '-k', home, '-h', '127.0.0.1', '-F']
        with Server(server, port, user, home) as s:
            s.stop = signal.SIGINT
            # It listens before it accepts sessions.
            wait_until(lambda: subprocess.run(['psql', '-Atc', 'select 1', 'postgres'], **plain).returncode == 0)
            subprocess.run(['pgbench', '-i', '-q', 'postgres'], check=True, **plain)
            load = subprocess.run(['pgbench', '-c', '8', '-j', '2', '-t', '200', 'postgres'], **plain)
            assert load.returncode == 0 and re.search(r'number of failed transactions: 0 ', load.stdout), load.stdout
            n = int(re.search(r'transactions actually processed: (\d+)', load.stdout)[1])
            sums = subprocess.run(['psql', '-Atc', '''select count(*) from pgbench_history; select
                (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history) and
                (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)''', 'postgres'], **plain).stdout.split()
            assert sums == [str(n), 't'], (sums, n)
        assert s.status == 0, (s.status, s.text)
        block = rows(s.run, 'block')
        assert 'sem' in labels(block), labels(block)
        assert {'LWLockAcquire', 'ProcSleep', 'PGSemaphoreLock'} & names(block), names(block)


if __name__ == '__main__':
    main(globals())
