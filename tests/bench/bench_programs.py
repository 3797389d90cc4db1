# SPDX-License-Identifier: MIT
"""Measures what lock profiles cost programs that use locks: processor time with and without them, both under the preload
object, and without it. Runs alternate; a ratio is the median of the ratios of the rounds. Programs that are not installed
are left out."""
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from alternate import BUILD, PRELOAD, ROUNDS

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CONFS = {'without us': None, 'locks off': 'mutex_rate=0,block_rate=0', 'locks on': 'heap_rate=512k'}
PYTHON_THREADS = '''
import queue, threading
jobs, results, lock, total = queue.Queue(64), queue.Queue(), threading.Lock(), 0
def work():
    global total
    while (n := jobs.get()) is not None:
        text = ' '.join(str(i * n % 97) for i in range(200))
        with lock:
            total += len(set(text.split()))
        results.put(n)
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for n in range(12000): jobs.put(n)
for t in threads: jobs.put(None)
for t in threads: t.join()
'''
RUST = '''use std::collections::{BTreeMap, HashMap};
#[derive(Debug, Clone, PartialEq)]
pub enum Kind { Word(String), Number(i64) }
MODULES
fn main() { let text = std::env::args().collect::<Vec<_>>().join(" "); CALLS }
'''
RUST_MODULE = '''mod mNUMBER { use super::*;
pub fn words(text: &str) -> BTreeMap<String, Vec<Kind>> {
    let mut all = HashMap::new();
    for word in text.split_whitespace() {
        let kind = word.parse().map(Kind::Number).unwrap_or_else(|_| Kind::Word(word.to_string()));
        all.entry(word.to_lowercase()).or_insert_with(Vec::new).push(kind);
    }
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_by(|a, b| (b.1.len() + NUMBER).cmp(&a.1.len()).then(a.0.cmp(&b.0)));
    sorted.into_iter().collect()
} }
'''
NGINX = '''daemon off; worker_processes 2; pid %(dir)s/pid; error_log %(dir)s/error.log;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %(dir)s/body; proxy_temp_path %(dir)s/proxy; fastcgi_temp_path %(dir)s/fastcgi;
uwsgi_temp_path %(dir)s/uwsgi; scgi_temp_path %(dir)s/scgi;
server { listen 127.0.0.1:%(port)d; location / { root %(dir)s; } } }
'''


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)
    return path


def programs(where):
    """{name: (command, load)}; load starts what asks a server, and returns the number of answers."""
    rust = RUST.replace('MODULES', ''.join(RUST_MODULE.replace('NUMBER', str(i)) for i in range(12)))
    rust = rust.replace('CALLS', ''.join(f'println!("{{:?}}", m{i}::words(&text));' for i in range(12)))
    write(os.path.join(where, 'main.rs'), rust)
    write(os.path.join(where, 'index.html'), 'hello\n' * 100)
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    conf = write(os.path.join(where, 'nginx.conf'), NGINX % {'dir': where, 'port': port})
    url = f'http://127.0.0.1:{port}/index.html'
    every = {
        'git log --stat': (['git', '-C', SOURCE, '--no-pager', 'log', '--stat', '-400'], None),
        'ripgrep': (['rg', '-c', 'struct [a-z]+_ops', '/usr/include'], None),
        'rustc -O': (['rustc', '-O', '--emit=obj', '-o', os.path.join(where, 'main.o'), os.path.join(where, 'main.rs')], None),
        'python threads': (['/usr/bin/python3', '-c', PYTHON_THREADS], None),
        'nginx': (['nginx', '-e', 'stderr', '-c', conf], lambda: requests(port, url)),
    }
    return {name: what for name, what in every.items() if shutil.which(what[0][0]) and (name != 'nginx' or shutil.which('wrk'))}


def requests(port, url):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            break
        except OSError:
            time.sleep(0.02)
    text = subprocess.run(['wrk', '-t1', '-c16', '-d3', url], check=True, stdout=subprocess.PIPE, text=True).stdout
    return int(next(line for line in text.splitlines() if 'requests in' in line).split()[0])


def once(command, load, conf, out):
    """Milliseconds of processor time of the command and its children; of a server, microseconds an answer."""
    env = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'DELTAPROF_CONF')}
    if conf is not None:
        env.update(LD_PRELOAD=PRELOAD, DELTAPROF_CONF=f'{conf},out={out}')
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    n = load() / 1e3 if load else 1
    if load:
        process.send_signal(signal.SIGQUIT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f'{command[0]} ended with {process.returncode} under {conf}')
    return 1e3 * (used.ru_utime + used.ru_stime) / n


with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as where:
    os.chmod(where, 0o755)
    for name, (command, load) in programs(where).items():
        values = {c: [] for c in CONFS}
        for _ in range(ROUNDS):
            for c, conf in CONFS.items():
                values[c].append(once(command, load, conf, os.path.join(where, 'profiles')))
                shutil.rmtree(os.path.join(where, 'profiles'), ignore_errors=True)
        unit = 'us of CPU an answer' if load else 'ms of CPU'
        for c in CONFS:
            print(f'{name} {c}: {statistics.median(values[c]):.1f} {unit}')
        for base, other in ('locks off', 'locks on'), ('without us', 'locks on'):
            ratios = sorted(b / a for a, b in zip(values[base], values[other]))
            print(f'{name} {other} to {base}: {statistics.median(ratios):.4f} ({ratios[0]:.3f} to {ratios[-1]:.3f})', flush=True)
