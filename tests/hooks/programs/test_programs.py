# SPDX-License-Identifier: MIT
"""Real programs under preload have the same output and status, and their profiles name their functions.

    test_programs.py PROGRAM      (redis redis_tcmalloc redis_mimalloc sqlite python gcc nginx shell curl git memcached
                                   postgres)
"""
import glob
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import check_profile
import reader
from harness import (BUILD, Run, environment, free_port, main, names_in, need, new_directory, profiles, reachable_by,
                     run, same, skip, wait_for_server, wait_until)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def library(name):
    found = glob.glob(f'/usr/lib/*/{name}*') + glob.glob(f'/usr/lib/{name}*')
    if not found:
        skip('no', name)
    return sorted(found)[0]


def seen(r, *expected, **kwargs):
    """Checks that every file is a valid profile, and that the expected functions are in them."""
    paths = [p.path for p in profiles(r, check=False, **kwargs)]
    assert paths, (os.listdir(r.out), r.stderr)
    check_profile.check_files(paths[-12:])
    names = names_in(r, **kwargs)
    missing = [f for f in expected if not any(f in n for n in names)]
    assert not missing, (missing, sorted(names)[:200])


def runs_alone(command, port, behind):
    """Whether the server starts with the other libraries and without the profiler."""
    server = subprocess.Popen(command, env=environment(preload=False, behind=behind), stdout=subprocess.DEVNULL)
    try:
        wait_for_server(port, server)
        return True
    except AssertionError:
        return False
    finally:
        server.kill()
        server.wait()


def redis(behind=()):
    need('redis-server', 'redis-benchmark', 'redis-cli')
    port = free_port()
    out = new_directory()
    where = new_directory()
    command = ['redis-server', '--port', str(port), '--save', '', '--dir', where, '--io-threads', '2', '--appendonly', 'no']
    if behind and not runs_alone(command, port, behind):
        skip('redis-server does not run with', *behind, 'alone')
    server = subprocess.Popen(
        command, env=environment('interval=500ms,heap_rate=64k', out, behind=behind), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    try:
        wait_for_server(port, server)
        bench = subprocess.run(['redis-benchmark', '-p', str(port), '-n', '5000' if behind else '20000', '-q', '-d', '200', '-r', '10000', '-t',
                                'set,get,lpush,hset,zadd'], capture_output=True, text=True, timeout=300)
        assert bench.returncode == 0 and 'rror' not in bench.stdout, bench.stdout
        cli = ['redis-cli', '-p', str(port)]
        assert subprocess.run(cli + ['bgsave'], capture_output=True, text=True).stdout.startswith('Background'), 'bgsave'
        def persistence():
            return subprocess.run(cli + ['info', 'persistence'], capture_output=True, text=True).stdout
        wait_until(lambda: 'rdb_bgsave_in_progress:0' in persistence())
        assert 'rdb_last_bgsave_status:ok' in persistence(), persistence()
        # Only the server's profiles: the child that saves has the same program name.
        wait_until(lambda: len(reader.files(out, 'heap', 'redis-server', server.pid)) >= 3)
        subprocess.run(cli + ['shutdown', 'nosave'], capture_output=True)
        stdout, stderr = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0 and stderr == '', (server.returncode, stderr, stdout[-2000:])
    r = Run(stdout, stderr, 0, out)
    seen(r, 'processCommand', 'setCommand', 'call', program='redis-server')


def redis_tcmalloc():
    redis([library('libtcmalloc_minimal.so.4')])


def redis_mimalloc():
    redis([library('libmimalloc.so')])


def redis_jemalloc():
    redis([library('libjemalloc.so')])


def sqlite():
    need('sqlite3')
    script = '''CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
  INSERT INTO t SELECT i, printf('row number %d', i * 7919 % 100003), i / 3.0 FROM n;
CREATE INDEX u ON t(b);
SELECT count(*), sum(c), max(b) FROM t;
SELECT b, count(*) FROM t WHERE b LIKE '%77%' GROUP BY substr(b, -3) ORDER BY 2 DESC, 1 LIMIT 20;
SELECT length(group_concat(b)) FROM t;'''
    # Newer shells of SQLite contain the library, without names.
    linked = 'libsqlite3' in subprocess.run(['ldd', shutil.which('sqlite3')], capture_output=True, text=True).stdout
    for conf in ('heap_rate=64k,interval=200ms', 'heap_rate=1,interval=200ms'):
        r = same(['sqlite3', ':memory:', script], conf)
        seen(r, 'sqlite3_' if linked else '__libc_start_main')


def python():
    script = '''
import json, re, threading, zlib
def build(n): return [{'key': str(i), 'value': [i] * 5} for i in range(n)]
def work(n):
    text = json.dumps(build(n)); assert len(json.loads(text)) == n
    return len(re.findall(r'[0-9]+', text)), zlib.crc32(text.encode())
threads = [threading.Thread(target=work, args=(3000,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(work(20000))
'''
    # With python=auto there would be a row for each line that makes an object, which this reader needs too long for.
    for conf in ('heap_rate=64k,interval=100ms', 'heap_rate=1,interval=1s,python=off'):
        r = same(['/usr/bin/python3', '-c', script], conf)
        seen(r, 'PyObject_', 'Py_RunMain', program='python3*')


def gcc():
    need('gcc')
    digests = set()
    where = new_directory()
    for conf in (None, 'heap_rate=512k', 'heap_rate=4k'):
        target = os.path.join(where, 'hash.o')
        r = run(['gcc', '-O2', '-c', '-D_GNU_SOURCE', '-I', SOURCE + '/src', '-I', SOURCE + '/include', '-o', target,
                 SOURCE + '/src/base/hash.c'], conf or '', preload=conf is not None, cwd=where)
        assert r.status == 0 and r.stdout == r.stderr == '', r.stderr
        with open(target, 'rb') as f:
            digests.add(hashlib.sha256(f.read()).digest())
    assert len(digests) == 1
    seen(r, program='cc1')


def nginx():
    need('nginx', 'wrk')
    port = free_port()
    where, out = new_directory(), new_directory()
    os.chmod(where, 0o755)
    with open(where + '/index.html', 'w') as f:
        f.write('x' * 4000)
    with open(where + '/nginx.conf', 'w') as f:
        f.write(f'''daemon off; worker_processes 2; pid {where}/pid; error_log {where}/error.log;
            events {{ worker_connections 200; }}
            http {{ access_log {where}/access.log; client_body_temp_path {where}/a; proxy_temp_path {where}/b;
                   fastcgi_temp_path {where}/c; uwsgi_temp_path {where}/d; scgi_temp_path {where}/e; gzip on; gzip_types *;
                   server {{ listen 127.0.0.1:{port} reuseport; root {where}; }} }}
            {"user root;" if os.geteuid() == 0 else ""}''')
    server = subprocess.Popen(['nginx', '-c', where + '/nginx.conf', '-e', where + '/error.log'],
                              env=environment('interval=300ms,heap_rate=64k', out), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        wait_for_server(port, server)
        wrk = subprocess.run(['wrk', '-t', '1', '-c', '20', '-d', '2s', '--timeout', '60s', '-H', 'Accept-Encoding: gzip',
                              f'http://127.0.0.1:{port}/index.html'], capture_output=True, text=True, timeout=180)
        assert wrk.returncode == 0 and 'Non-2xx' not in wrk.stdout and 'Socket errors' not in wrk.stdout, wrk.stdout
        server.send_signal(signal.SIGQUIT)
        stdout, stderr = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0 and stdout == stderr == '', (server.returncode, stdout, stderr)
    r = Run(stdout, stderr, 0, out)
    seen(r, 'ngx_', program='nginx')
    pids = {p.pid for p in profiles(r, program='nginx', check=False)}
    assert len(pids) >= 3, pids  # the master and both workers


def shell():
    script = '''for i in $(seq 60); do echo $i | sed s/1/2/ | tr 2 3 | cat; done | sort -n | md5sum
        ls / | head -3; expr 3 + 4; awk 'BEGIN { for (i = 0; i < 1000; i++) s = s i; print length(s) }'
        (exit 7); echo $?; find /etc -maxdepth 1 -name 'host*' | sort; false || echo no; exec sh -c 'exit 3' '''
    for conf in ('', 'heap_rate=1'):
        r = same(['sh', '-c', script], conf)
        assert r.status == 3
    seen(r)


def curl():
    """A program with TLS libraries, which it has closed before the functions of the last delta are named."""
    need('curl')
    for conf in ('heap_rate=1', 'heap_rate=1,symbolize=lines', 'heap_rate=64k,interval=1ms'):
        same(['curl', '--version'], conf)
        same(['curl', '-s', 'https://127.0.0.1:1/'], conf)


def git():
    need('git')
    where = new_directory()
    env = {'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_AUTHOR_DATE': '@0 +0000', 'GIT_COMMITTER_DATE': '@0 +0000', 'HOME': where}
    script = '''rm -rf r && git init -q r && cd r && cp -r "$0/src" . && git add -A &&
        git -c user.name=n -c user.email=e commit -qm one && git log --stat | tail -3 && git gc -q && git fsck'''
    r = same(['sh', '-c', script, SOURCE], 'heap_rate=4k,exe=git', cwd=where, extra=env)
    seen(r, program='git')


def postgres():
    """The server forks a process for each connection, and ends if one of them crashes."""
    found = sorted(glob.glob('/usr/lib/postgresql/*/bin'))
    if not found or os.geteuid() != 0 and not os.access(found[-1] + '/initdb', os.X_OK):
        skip('no postgresql')
    as_user = ['setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups'] if os.geteuid() == 0 else []
    where, out, port = new_directory(), new_directory(), free_port()
    for directory in (where, out):
        shutil.chown(directory, 'postgres', 'postgres') if as_user else None
    for directory in (os.path.dirname(where), os.path.dirname(BUILD), BUILD):
        assert subprocess.run(as_user + ['test', '-x', directory]).returncode == 0 or os.chmod(directory, 0o711) is None
    if as_user and not reachable_by('postgres'):
        skip('postgres may not read', BUILD)
    subprocess.run(as_user + [found[-1] + '/initdb', '-D', where, '-A', 'trust', '-U', 'test', '--no-sync'], check=True,
                   stdout=subprocess.DEVNULL, timeout=180)
    server = subprocess.Popen(as_user + [found[-1] + '/postgres', '-D', where, '-p', str(port), '-k', where, '-F'],
                              env=environment('interval=500ms,heap_rate=64k,exe=postgres', out), stderr=subprocess.PIPE, text=True)
    try:
        wait_for_server(port, server)
        psql = [found[-1] + '/psql', '-h', '127.0.0.1', '-p', str(port), '-U', 'test', '-X', '-A', '-t', 'postgres', '-c']
        script = """CREATE TABLE t AS SELECT i, md5(i::text) m FROM generate_series(1, 50000) i;
                    SELECT count(DISTINCT m), max(m) FROM t; SELECT sum(length(a)) FROM (SELECT string_agg(m, ',') a FROM t) s"""
        wait_until(lambda: subprocess.run(psql + ['SELECT 1'], capture_output=True).returncode == 0)
        for _ in range(4):
            done = subprocess.run(psql + [script + '; DROP TABLE t'], capture_output=True, text=True, timeout=180)
            assert done.returncode == 0 and '50000|ffff' in done.stdout and '1649999' in done.stdout, (done.stdout, done.stderr)
        server.send_signal(signal.SIGINT)
        _, log = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0 and 'terminated by signal' not in log and 'deltaprof[' not in log, log
    r = Run('', '', 0, out)
    seen(r, 'AllocSetContextCreate', 'PostmasterMain', program='postgres')
    assert len({p.pid for p in profiles(r, program='postgres', check=False)}) > 5


def memcached():
    need('memcached')
    port = free_port()
    out = new_directory()
    argv = ['memcached', '-l', '127.0.0.1', '-p', str(port), '-t', '4'] + (['-u', 'root'] if os.geteuid() == 0 else [])
    server = subprocess.Popen(argv, env=environment('interval=200ms,heap_rate=4k', out), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        wait_for_server(port, server)
        with socket.create_connection(('127.0.0.1', port)) as s:
            f = s.makefile('rwb')
            for i in range(5000):
                f.write(b'set key%d 0 0 100\r\n%s\r\n' % (i, b'v' * 100))
            f.flush()
            assert all(f.readline() == b'STORED\r\n' for _ in range(5000))
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0, server.returncode
    seen(Run('', '', 0, out), program='memcached')


name = sys.argv.pop(1)
main({f'that_{name}_is_profiled': globals()[name]})
