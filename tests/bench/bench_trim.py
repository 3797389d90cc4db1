# SPDX-License-Identifier: MIT
"""What `deltaprof waste` says that malloc_trim would give back, and that settings and other allocators could save at most, in ten
programs with fragmented heaps, the last five of which do what servers do; and what each saves when it is tried. Times of decay are
0 for jemalloc. Then the same programs with jemalloc and without decay: what it says that decay would give back, and what it gives
back."""
import glob
import json
import os
import subprocess

from alternate import BUILD
from servers import DELTAPROF, free_port, wait_for_port

PROGRAM = os.path.join(BUILD, 'tests/bench/fragmented')
SHAPES = 'many_arenas', 'large_and_small', 'large_blocks', 'pinned_top', 'containers', 'import_peak', 'workers', 'tides', 'images', 'parser'
JEMALLOC = next(iter(sorted(glob.glob('/usr/lib/*/libjemalloc.so.2'))), None)
TRIALS = {
    'MALLOC_ARENA_MAX=1': {'MALLOC_ARENA_MAX': '1'},
    'MALLOC_MMAP_THRESHOLD_=128k': {'MALLOC_MMAP_THRESHOLD_': '131072'},
    'jemalloc': {'LD_PRELOAD': JEMALLOC, 'MALLOC_CONF': 'dirty_decay_ms:0,muzzy_decay_ms:0'},
}


class Program:
    """In `with`: the program, with what it says of its resident memory."""

    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.resident = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def trim(self):
        """What a call of malloc_trim gives back. The bytes before it are read again: what a profile used is no part."""
        values = []
        for line in 'now\n', 'trim\n':
            self.process.stdin.write(line)
            self.process.stdin.flush()
            values.append(int(self.process.stdout.readline()))
        return values[0] - values[1]


def mb(n_bytes):
    return f'{n_bytes / 2**20:.2f} MB'


def ask_and_trim(shape, env=None):
    """What `deltaprof waste` says of malloc, and what the program then gives back."""
    port = free_port()
    with Program([DELTAPROF, 'run', '-o', f'out=none,heap_rate=64k,interval=1h,listen=127.0.0.1:{port}', '--', PROGRAM, shape], env) as p:
        wait_for_port(shape, port)
        done = subprocess.run([DELTAPROF, 'waste', '--json', str(p.process.pid)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)['malloc'], p.trim()


def print_told(shape, what, told, gave):
    print(f'{shape} {what}: told {mb(told)}, gave {mb(gave)} ({100 * (told / gave - 1) if gave else 0:+.1f} %)', flush=True)


for shape in SHAPES:
    malloc, trimmed = ask_and_trim(shape)
    told, most = malloc['trim_bytes'], malloc['pinned_bytes'] + malloc['top_bytes'] + malloc['cached_bytes']
    print_told(shape, 'malloc_trim', told, trimmed)
    with Program([PROGRAM, shape]) as p:
        plain = p.resident
    for name, env in TRIALS.items():
        if None in env.values():
            continue
        with Program([PROGRAM, shape], env) as p:
            bound = malloc['arena_bytes'] + malloc['cached_bytes'] if 'ARENA' in name else told + most
            print(f'{shape} {name}: told at most {mb(bound)}, saved {mb(plain - p.resident)} of {mb(plain)}', flush=True)
    if JEMALLOC:
        malloc, purged = ask_and_trim(shape, {'LD_PRELOAD': JEMALLOC, 'MALLOC_CONF': 'dirty_decay_ms:-1'})
        print_told(shape, "jemalloc's decay", malloc['decay_bytes'], purged)
