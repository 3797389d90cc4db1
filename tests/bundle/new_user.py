# SPDX-License-Identifier: MIT
"""What a new user types in a root of each kind, and the seconds that it takes. No test: it prints a table.

    new_user.py BUNDLE-DIRECTORY ROOT...

BUNDLE-DIRECTORY is that of bundle.sh. A ROOT is a release of Debian or Ubuntu, which debootstrap fetches with redis-server;
`glibc` or `musl`, which has this C library and nothing else; or `here`, this machine with its python3. In a root with a C
library only, the program is that of test_bundle.py, with heap_rate=1: it allocates 600 kB, of which the default rate
often takes no sample. The columns: the archive is unpacked; the program answers, under `run`;
it has worked; `top PID` has answered; `top` over its files has answered.
"""
import atexit
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from programs import BUNDLE, CASES, CLEAN, GLIBC_COMPILER, HERE, MUSL_COMPILER, compile_with, copy_glibc, copy_musl, debootstrap, run

WORK = '''import json, threading
def parse(): return [json.loads('{"a": [1, 2.5, "x"]}') for _ in range(20000)]
threads = [threading.Thread(target=parse) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
kept = parse()
print("ready", flush=True)
input()'''


class Root:
    def __init__(self, name):
        self.name, self.path = name, '/' if name == 'here' else tempfile.mkdtemp()
        self.top, self.command = '/opt/deltaprof', 'deltaprof-musl' if name == 'musl' else 'deltaprof'
        if name == 'here':
            self.top = tempfile.mkdtemp() + '/deltaprof'
        elif name in ('glibc', 'musl'):
            (copy_musl if name == 'musl' else copy_glibc)(self.path)
            compile_with(MUSL_COMPILER if name == 'musl' else GLIBC_COMPILER, HERE + '/victim.c', self.path + '/victim')
        else:
            debootstrap(name, self.path, 'redis-server')
        for directory in 'opt', 'tmp', 'proc', 'dev/shm':
            os.makedirs(os.path.join(self.path, directory), exist_ok=True)
        self.tables = tempfile.mkdtemp(dir='/dev/shm')

    def remove(self):
        shutil.rmtree(os.path.dirname(self.top) if self.name == 'here' else self.path)
        shutil.rmtree(self.tables)

    def start(self, *command):
        if self.name == 'here':
            words = command
        else:
            script = 'mount -t proc proc "$1/proc" && mount --bind "$2" "$1/dev/shm" && root=$1 && shift 2 && exec python3 -c "$0" "$root" "$@"'
            enter = 'import os, sys; os.chroot(sys.argv[1]); os.chdir("/"); os.execvp(sys.argv[2], sys.argv[2:])'
            words = ['unshare', '--mount', 'sh', '-c', script, enter, self.path, self.tables, *command]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=CLEAN)

    def out(self, *command):
        process = self.start(*command)
        out = process.communicate(timeout=120)[0]
        if process.returncode:
            sys.exit(f'{self.name}: {command}: status {process.returncode}\n{out}')
        return out

    def deltaprof(self, *arguments):
        return f'{self.top}/bin/{self.command}', *arguments


def ready_by_word(process):
    while process.stdout.readline() != 'ready\n':
        pass


def redis_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return str(listener.getsockname()[1])


def answers(port):
    for tries_left in range(600, 0, -1):
        try:
            with socket.create_connection(('127.0.0.1', int(port)), timeout=5) as redis:
                redis.sendall(b'PING\r\n')
                if redis.recv(16):
                    return
        except OSError:
            time.sleep(0.05)
    sys.exit('redis-server does not answer')


def seconds_of(function, *arguments):
    began = time.monotonic()
    value = function(*arguments)
    return time.monotonic() - began, value


def try_in(name):
    root = Root(name)
    atexit.register(root.remove)
    archive, = glob.glob(BUNDLE + '/deltaprof-*.tar.xz')
    place = os.path.join(root.path, os.path.dirname(root.top).lstrip('/'))
    unpacked, _ = seconds_of(lambda: run('tar', '-C', place, '-xJf', archive, timeout=300))
    out = root.top + '-profiles' if name == 'here' else '/tmp/profiles'
    rate = 'heap_rate=1,' if name in ('glibc', 'musl') else ''
    runs = root.deltaprof('run', '-o', f'{rate}interval=1s,out={out}', '--')
    port = redis_port()
    program = {'here': ['/usr/bin/python3', '-c', WORK], 'glibc': ['/victim'], 'musl': ['/victim']}.get(
        name, ['redis-server', '--save', '', '--port', port])
    began = time.monotonic()
    process = root.start(*runs, *program)
    (answers if program[0] == 'redis-server' else lambda _: ready_by_word(process))(port)
    started = time.monotonic() - began
    worked = 0
    if program[0] == 'redis-server':
        worked, _ = seconds_of(root.out, 'redis-benchmark', '-p', port, '-t', 'set,lpush', '-n', '20000', '-P', '16', '-q')
    pid = re.findall(r'^ *(\d+) ', root.out(*root.deltaprof('ps')), re.M)[0]
    asked, said = seconds_of(root.out, *root.deltaprof('top', '--type', 'alloc_space', '-n', '5', pid))
    if program[0] == 'redis-server':
        root.out('redis-cli', '-p', port, 'shutdown', 'nosave')
    rest = process.communicate('\n' if name == 'here' else '', timeout=120)[0]
    top, files = seconds_of(root.out, *root.deltaprof('top', '--type', 'alloc_space', '-n', '5', out))
    first = [line.split()[-1] for line in said.splitlines() if re.match(r' *[\d.]+\w* +[\d.]+%', line)]
    print(f'{name:<10} {unpacked:6.1f} {started:6.2f} {worked:6.2f} {asked:6.2f} {top:6.2f}  {program[0]}: {", ".join(first[:3])}; status {process.returncode}',
          flush=True)
    if process.returncode or not first or not files:
        print(said, rest, files, sep='\n')
    atexit.unregister(root.remove)
    root.remove()


print('root       tar -x     run   work    PID  files  the first names')
for each in CASES:
    try_in(each)
