# SPDX-License-Identifier: MIT
"""Runs real programs with a scripted load, tick by tick: each gets the work of a tick, then is asked for profiles."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PYTHON_LOOP = '''
import sys
class Bus:
    def __init__(self): self.listeners = []
bus, cache = Bus(), {}
def add_listener(n): bus.listeners.append(lambda data=bytes(1500): data)
def serve(n):
    return [str(i) * 50 for i in range(n, n + 2000)]
for line in sys.stdin:
    tick = int(line)
    for i in range(100):
        serve(i)
        cache[(tick * 100 + i) % 700] = bytes(9000)
    for i in range(LISTENERS):
        add_listener(i)
    print(tick, flush=True)
'''


def wait_for(true):
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until, 'waited in vain'
        time.sleep(0.005)


def n_files(out):
    return sum(name.endswith('.heap.pb.gz') for name in os.listdir(out))


def drive(argv, env, out, n_ticks, work):
    """work(tick) is written to the program's standard input; the program prints the number of the tick when it is done."""
    if not shutil.which(argv[0]):
        raise FileNotFoundError(argv[0])
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            for tick in range(n_ticks):
                program.stdin.write(work(tick))
                program.stdin.flush()
                while program.stdout.readline().strip() != str(tick):
                    assert program.poll() is None, f'ended with {program.returncode}'
                program.send_signal(signal.SIGUSR2)
                wait_for(lambda: n_files(out) > tick)
            program.stdin.close()
            program.wait(60)
        finally:
            program.kill()


def python(n_listeners):
    def run(env, out, n_ticks):
        script = PYTHON_LOOP.replace('LISTENERS', str(n_listeners))
        drive(['python3', '-u', '-c', script], dict(env, PYTHONMALLOC='malloc'), out, n_ticks, lambda tick: f'{tick}\n')
    return run


def sqlite(statement):
    begin = 'CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB);\n'
    traffic = 'SELECT length(group_concat(hex(v))) FROM (SELECT v FROM t LIMIT 300);\n' * 5

    def run(env, out, n_ticks):
        drive(['sqlite3', '-batch'], env, out, n_ticks,
              lambda tick: ('' if tick else begin) + ''.join(statement(tick, i) for i in range(300)) + traffic + f'.print {tick}\n')
    return run


def redis(command):
    def run(env, out, n_ticks):
        if not shutil.which('redis-server'):
            raise FileNotFoundError('redis-server')
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, 's')
            server = subprocess.Popen(['redis-server', '--port', '0', '--unixsocket', path, '--save', '', '--dir', place], env=env, stdout=subprocess.DEVNULL)
            try:
                wait_for(lambda: os.path.exists(path))
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(path)
                    answers = s.makefile('rb')
                    for tick in range(n_ticks):
                        s.sendall(b''.join(command(tick, i) for i in range(600)))
                        for _ in range(600):
                            answers.readline()
                        server.send_signal(signal.SIGUSR2)
                        wait_for(lambda: n_files(out) > tick)
                    answers.close()
                server.terminate()
                server.wait(60)
            finally:
                server.kill()
                server.wait()
    return run


def set_key(key):
    return b'SET key:%d %s\r\n' % (key, b'v' * 1500)


REAL = {
    'python_listeners': python(400),
    'python_steady': python(0),
    'sqlite_grows': sqlite(lambda tick, i: f'INSERT INTO t VALUES ({tick * 300 + i}, zeroblob(3000));\n'),
    'sqlite_updates': sqlite(lambda tick, i: f'REPLACE INTO t VALUES ({(tick * 300 + i) % 2500}, zeroblob(3000));\n'),
    'redis_grows': redis(lambda tick, i: set_key(tick * 600 + i)),
    'redis_steady': redis(lambda tick, i: set_key((tick * 600 + i) % 4000)),
}
