# SPDX-License-Identifier: MIT
"""Servers under load, for benchmarks that look at their memory. Each function makes the server's files in a directory, and returns its
command and its load; what the load returns is to be kept until the end."""
import contextlib
import glob
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from alternate import BUILD

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
ROOT = os.geteuid() == 0
PYTHON = '''
import http.server, json, sys
kept = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kept[self.path] = [{'path': self.path, 'n': i} for i in range(50)]
        body = json.dumps(kept[self.path]).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
'''
NODE = '''
const kept = new Map();
require('http').createServer((request, response) => {
  kept.set(request.url, Array.from({length: 50}, (_, n) => ({path: request.url, n, bytes: n % 10 ? null : Buffer.alloc(5000, 1)})));
  response.end(JSON.stringify(kept.get(request.url)));
}).listen(+process.argv[2], '127.0.0.1');
'''
JAVA = '''
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.concurrent.*;
public class Main {
    public static void main(String[] arguments) throws Exception {
        Map<String, byte[][]> kept = new ConcurrentHashMap<>();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.createContext("/", exchange -> {
            byte[][] parts = new byte[50][1000];
            kept.put(exchange.getRequestURI().getPath(), parts);
            exchange.sendResponseHeaders(200, 1000);
            exchange.getResponseBody().write(parts[0]);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
'''
RUST = '''
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
fn main() {
    let kept: Arc<Mutex<HashMap<String, Vec<Vec<u8>>>>> = Arc::default();
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    for stream in TcpListener::bind(("127.0.0.1", port)).unwrap().incoming() {
        let (mut stream, kept) = (stream.unwrap(), kept.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n) = stream.read(&mut bytes) {
                if n == 0 { break; }
                let path = String::from_utf8_lossy(&bytes[..n]).split(' ').nth(1).unwrap_or("").to_string();
                kept.lock().unwrap().insert(path, (0..50).map(|i| vec![1; 20 * i + 1]).collect());
                if stream.write_all(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok").is_err() { break; }
            }
        });
    }
}
'''
GUNICORN = '''
kept = {}
def app(environ, start):
    kept[environ['PATH_INFO']] = [{'path': environ['PATH_INFO'], 'n': i} for i in range(50)]
    start('200 OK', [('Content-Length', '2')])
    return [b'ok']
'''
LUA = '''
kept = {}
for i = 1, 200000 do kept[i] = {name = "row " .. i, n = i, text = string.rep("x", i % 100)} end
for i = 1, 200000, 3 do kept[i] = nil end
collectgarbage()
io.read()
'''
FRAGMENTED = '''
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
int main() {  // every fifth block of changing sizes stays, in four threads
    std::vector<std::thread> threads;
    static std::vector<std::unique_ptr<std::string>> kept[4];
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t] {
            unsigned seed = t + 1;
            for (int round = 0; round < 8; round++) {
                std::vector<std::unique_ptr<std::string>> all;
                for (int i = 0; i < 40000; i++)
                    all.push_back(std::make_unique<std::string>(rand_r(&seed) % (100 << round), 'x'));
                for (size_t i = 0; i < all.size(); i += 5 * (round + 1))
                    kept[t].push_back(std::move(all[i]));
            }
            pause();
        });
    for (auto &thread : threads)
        thread.join();
}
'''


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)
    return path


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(true, what):
    end = time.monotonic() + 60
    while not true():
        if time.monotonic() > end:
            raise AssertionError('waited in vain for ' + what)
        time.sleep(0.1)


def answers(port):
    with contextlib.suppress(OSError):
        socket.create_connection(('127.0.0.1', port), 1).close()
        return True
    return False


def http_load(port, n=3000):
    connection = http.client.HTTPConnection('127.0.0.1', port)
    for i in range(n):
        connection.request('GET', f'/{i}')
        connection.getresponse().read()


def run(command, **how):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)


def as_user(name):
    return ['setpriv', '--reuid', name, '--regid', name, '--clear-groups'] if ROOT else []


# Each returns (command, load), or None. `%d` is the port; the command becomes what is looked at, or its parent.
def redis(where, port):
    return (['redis-server', '--port', str(port), '--save', '', '--dir', where],
            lambda: run(['redis-benchmark', '-p', str(port), '-n', '300000', '-r', '200000', '-d', '100', '-P', '16', '-t', 'set,lpush,hset']))


def memcached(where, port):
    def load():
        with socket.create_connection(('127.0.0.1', port)) as s, s.makefile('rwb') as f:
            for i in range(100000):
                f.write(b'set key%d 0 0 300 noreply\r\n%s\r\n' % (i, b'v' * 300))
            f.write(b'get key1\r\n')
            f.flush()
            f.readline()
    return ['memcached', '-l', '127.0.0.1', '-p', str(port), '-m', '256', *(['-u', 'root'] if ROOT else [])], load


def postgres(where, port):
    tools = sorted(glob.glob('/usr/lib/postgresql/*/bin'))[-1]
    data = os.path.join(where, 'data')
    run(as_user('postgres') + [tools + '/initdb', '-D', data, '-A', 'trust', '-U', 'test', '--no-sync'])

    def load():  # a connection stays open, with what its backend learned
        wait_for(lambda: subprocess.run([tools + '/pg_isready', '-q', '-h', '127.0.0.1', '-p', str(port)]).returncode == 0, 'postgres')
        client = subprocess.Popen([tools + '/psql', '-h', '127.0.0.1', '-p', str(port), '-U', 'test', '-X', 'postgres'],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        client.stdin.write('set work_mem = "64MB"; create table t as select i, md5(i::text) m from generate_series(1, 200000) i;\n'
                           'begin; declare c cursor for select m, count(*) from t group by m order by m; fetch 5 from c; '
                           "select 'done';\n")
        client.stdin.flush()
        for line in client.stdout:
            if 'done' in line:
                break
        return client
    return as_user('postgres') + [tools + '/postgres', '-D', data, '-p', str(port), '-k', where, '-F'], load


def mariadb(where, port):
    data = os.path.join(where, 'data')
    user = ['--user=root'] if ROOT else []
    os.makedirs(data)
    boot = ''.join(open(f).read() for f in ('/usr/share/mysql/mysql_system_tables.sql',) if os.path.exists(f))
    options = ['--no-defaults', f'--datadir={data}', f'--lc-messages-dir=/usr/share/mysql', *user]
    subprocess.run(['mariadbd', *options, '--bootstrap', '--skip-grant-tables', '--skip-networking'],
                   input='create database if not exists mysql;\nuse mysql;\n' + boot, text=True, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)

    def load():
        run(['mariadb', '--no-defaults', '-h', '127.0.0.1', '-P', str(port), '-u', 'root', '-e',
             'create database d; use d; create table t (i int primary key, m varchar(64)) engine=innodb; '
             'insert into t select seq, md5(seq) from seq_1_to_200000; select count(distinct m) from t'])
    return ['mariadbd', *options, '--skip-grant-tables', '--bind-address=127.0.0.1', f'--port={port}',
            f'--socket={where}/socket', '--innodb-buffer-pool-size=64M'], load


def nginx(where, port):
    write(where + '/index.html', 'x' * 4000)
    conf = write(where + '/nginx.conf', f'''daemon off; worker_processes 1; pid {where}/pid; error_log {where}/error.log;
        {"user root;" if ROOT else ""} events {{ worker_connections 1000; }}
        http {{ access_log off; client_body_temp_path {where}/a; proxy_temp_path {where}/b; fastcgi_temp_path {where}/c;
                uwsgi_temp_path {where}/d; scgi_temp_path {where}/e; gzip on; gzip_types *;
                server {{ listen 127.0.0.1:{port}; root {where}; }} }}''')
    kept = []

    def load():  # connections that stay open hold their pools
        for _ in range(400):
            kept.append(http.client.HTTPConnection('127.0.0.1', port))
        for connection in kept * 5:
            connection.request('GET', '/index.html', headers={'Accept-Encoding': 'gzip'})
            connection.getresponse().read()
        return kept
    return ['nginx', '-c', conf, '-e', where + '/error.log'], load


def python(where, port):
    return ['/usr/bin/python3', '-c', PYTHON, str(port)], lambda: http_load(port)


def node(where, port):
    return ['node', write(where + '/server.js', NODE), str(port)], lambda: http_load(port)


def rust(where, port):
    run(['rustc', '-O', '-o', where + '/server', write(where + '/server.rs', RUST)])
    return [where + '/server', str(port)], lambda: http_load(port)


def java(where, port):
    run(['javac', '-d', where, write(where + '/Main.java', JAVA)])
    return ['java', '-Xmx256m', '-cp', where, 'Main', str(port)], lambda: http_load(port)


def fragmented(where, port):
    run(['c++', '-O2', '-pthread', '-o', where + '/fragmented', write(where + '/fragmented.cpp', FRAGMENTED)])
    return [where + '/fragmented'], lambda server: feed(server, '')


def feed(server, text):
    """Writes to a program that then waits for more. It has read all when it has slept for a second."""
    def times():
        with open(f'/proc/{server.pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[11:13]
    server.stdin.write(text.encode())
    server.stdin.flush()
    before = None
    while before != (before := times()):
        time.sleep(1)


def sqlite(where, port):
    return ['sqlite3', ':memory:'], lambda server: feed(
        server, 'create table t (i integer primary key, m text);\n'
        'with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) insert into t select i, hex(randomblob(30)) from n;\n'
        'create index x on t (m);\ndelete from t where i % 3 = 0;\nselect count(distinct m) from t;\n')


def lua(where, port):
    return ['lua5.4', write(where + '/rows.lua', LUA)], lambda server: feed(server, '')


def gunicorn(where, port):
    write(where + '/app.py', GUNICORN)
    return ['/usr/bin/python3', '-m', 'gunicorn.app.wsgiapp', '-w', '2', '-b', f'127.0.0.1:{port}', '--pythonpath', where, 'app:app'], lambda: http_load(port, 600)


def cc1(where, port):
    compiler = subprocess.run(['gcc', '-print-prog-name=cc1'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    text = ''.join(f'struct s{i} {{ int a, b[{i % 7 + 1}]; }}; int f{i}(struct s{i} *p, int n) {{ int sum = 0; for (int i = 0; i < n; i++) '
                   f'{{ sum += p[i].a * {i} + p->b[0]; if (sum > {i}) sum ^= p->a; }} return sum; }}\n' for i in range(20000))
    return [compiler, '-quiet', '-O1', '-o', '/dev/null', '-'], lambda server: feed(server, text)


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(child) for child in f.read().split()]


def anonymous(pid):
    with open(f'/proc/{pid}/status') as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith('RssAnon:'))


def largest(pid):
    """The process of the family that has the most memory of its own, the first one last if it has children."""
    return max(children(pid) or [pid], key=anonymous)


NEEDS = {'redis': 'redis-server', 'memcached': 'memcached', 'postgres': 'psql', 'mariadb': 'mariadbd', 'nginx': 'nginx',
         'python': '/usr/bin/python3', 'node': 'node', 'rust': 'rustc', 'java': 'javac', 'fragmented': 'c++',
         'sqlite': 'sqlite3', 'gunicorn': 'gunicorn', 'lua': 'lua5.4', 'cc1': 'gcc'}
WITHOUT_PORT = ('fragmented', 'sqlite', 'lua', 'cc1')


def wait_for_port(name, port):
    wait_for(lambda: answers(port), name)


@contextlib.contextmanager
def started(name, conf):
    """Yields the process of a server after its load that has the most memory, and the directory of its profiles; None if it is not
    installed or failed. conf: may have {port}, of a range of a hundred free ports."""
    if not shutil.which(NEEDS[name]):
        print(name, 'is not installed')
        yield None, None
        return
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-', ignore_cleanup_errors=True) as where:
        os.chmod(where, 0o755)
        if ROOT and name == 'postgres':
            shutil.chown(where, 'postgres', 'postgres')
        port, out = free_port(), os.path.join(where, 'profiles')
        command, load = globals()[name](where, port)
        env = {k: v for k, v in os.environ.items() if k not in ('LD_LIBRARY_PATH', 'LD_PRELOAD', 'DELTAPROF_CONF', 'PYTHONPATH')}
        prefix = command[:command.index('--clear-groups') + 1] if '--clear-groups' in command else []
        server = subprocess.Popen([*prefix, DELTAPROF, 'run', '-o', f'{conf},out={out}', '--', *command[len(prefix):]], env=env,
                                  cwd=where, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        kept = pid = None
        try:
            try:
                if name not in WITHOUT_PORT:
                    wait_for_port(name, port)
                kept = load(server) if name in WITHOUT_PORT else load()
                pid = largest(server.pid)
            except (AssertionError, subprocess.CalledProcessError, OSError) as failure:
                print(name, 'failed:', failure, file=sys.stderr)
            yield pid, out
            del kept
        finally:
            server.stdin.close()
            server.send_signal(signal.SIGINT if name == 'postgres' else signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
