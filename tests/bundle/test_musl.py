# SPDX-License-Identifier: MIT
"""Lua, SQLite and Redis from Debian's sources, built for musl, under the archive of examples/deploy/bundle.sh for x86_64.

    test_musl.py BUNDLE-DIRECTORY [CASE...]

What counts their allocations shares no code with deltaprof.
"""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

from programs import BUNDLE, CASES, CLEAN, HERE, MUSL_COMPILER, copy_musl, run
from test_bundle import Root

COUNTED = ['-fno-optimize-sibling-calls', '-fPIE', '-pie', '-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc']


def source_of(package):
    """Unpacks Debian's source once, with bundle.sh's lists of sources."""
    at = BUNDLE + '/sources'
    found = [path for path in glob.glob(f'{at}/{package}-[0-9]*') if os.path.isdir(path)]
    if not found:
        done = subprocess.run(['apt-get', 'source', package], cwd=at, env={**CLEAN, 'APT_CONFIG': at + '/apt.conf'}, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise unittest.SkipTest(f'the source of {package} could not be fetched: ' + done.stderr[-300:])
        found = [path for path in glob.glob(f'{at}/{package}-[0-9]*') if os.path.isdir(path)]
    return found[0]


class Programs(Root, unittest.TestCase):
    """In a root with musl and nothing else."""
    compilers = {'/victim': MUSL_COMPILER}
    name = 'deltaprof-musl'

    @classmethod
    def fill(cls):
        copy_musl(cls.root)

    def is_exact(self, out, said):
        """The profiles of stacks through the functions that count, and what these have counted."""
        counted = [int(number) for number in re.search(r'^counted (\d+) (\d+)$', said, re.M).groups()]
        samples = [sample for profile in self.profiles(out, 'heap') for sample in profile.samples if any(name.startswith('__wrap_') for name in sample.names)]
        self.assertEqual([sum(sample.values[kind] for sample in samples) for kind in ('alloc_objects', 'alloc_space')], counted)
        self.assertGreater(counted[0], 10000)

    def test_lua_is_exact_and_its_stacks_are_whole(self):
        source = source_of('lua5.4')
        os.mkdir(self.root + '/include')
        open(self.root + '/include/lua5.4-deb-multiarch.h', 'w').close()
        compiler = [*self.compilers['/victim'], '-g', '-O1', '-std=gnu99', '-I', self.root + '/include', '-DDEB_HOST_MULTIARCH=""', '-DLUA_USE_POSIX',
                    *(name for name in glob.glob(source + '/src/*.c') if not name.endswith('/luac.c'))]
        for program, more in ('/plain/lua', []), ('/count/lua', [HERE + '/count.c']):  # Lua keeps its own path
            os.mkdir(self.root + os.path.dirname(program))
            run(*compiler, *more, '-Wl,-E', '-o', self.root + program, '-lm', timeout=300)
        shutil.copy(HERE + '/work.lua', self.root)
        output, counted = self.out('/count/lua', '/work.lua').splitlines()
        self.assertEqual(self.run_victim('heap_rate=1,cpu_rate=1ms,out=/tmp/lua', '/plain/lua', '/work.lua'), output + '\n')
        heap = self.profiles('/tmp/lua', 'heap')
        self.assertEqual([sum(profile.total(kind) for profile in heap) for kind in ('alloc_objects', 'alloc_space')],
                         [int(number) for number in counted.split()])
        self.are_whole('/tmp/lua')

    def test_sqlite_is_exact_and_its_stacks_are_whole(self):
        if not shutil.which('tclsh'):
            self.skipTest('no tclsh, which puts the source of SQLite together')
        built = self.root + '/built'
        os.mkdir(built)
        run(source_of('sqlite3') + '/configure', '--disable-tcl', '--disable-readline', '--disable-shared', cwd=built, timeout=300)
        run('make', 'sqlite3.c', 'shell.c', cwd=built, timeout=300)
        run(*MUSL_COMPILER, *COUNTED, '-g', '-O1', '-w', '-DSQLITE_OMIT_LOAD_EXTENSION', built + '/shell.c', built + '/sqlite3.c', HERE + '/counted.c',
            '-o', self.root + '/sqlite3', '-lm', timeout=300)
        shutil.copy(HERE + '/work.sql', self.root)
        work = '/sqlite3', ':memory:', '.read /work.sql'
        plain = self.start(*work).communicate(timeout=60)[0]
        process = self.start(*self.command('run', '-o', 'heap_rate=1,cpu_rate=1ms,exit_timeout=60s,out=/tmp/sqlite', '--', *work))
        output, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (0, plain))
        self.is_exact('/tmp/sqlite', said)
        self.are_whole('/tmp/sqlite')

    def test_redis_is_exact_and_its_stacks_are_whole(self):
        """With its threads of work in the background, which wait for conditions."""
        built, headers = self.root + '/built-redis', self.root + '/headers'
        shutil.copytree(source_of('redis'), built)
        os.mkdir(headers)
        for name, to in ('linux', '/usr/include/linux'), ('asm', '/usr/include/x86_64-linux-gnu/asm'), ('asm-generic', '/usr/include/asm-generic'):
            os.symlink(to, f'{headers}/{name}')
        compiler = ' '.join([*MUSL_COMPILER, '-idirafter', headers, *COUNTED[:2]])
        run(*compiler.split(), '-c', '-O1', HERE + '/counted.c', '-o', headers + '/counted.o')
        run('make', '-j2', '-C', built + '/src', 'redis-server', 'MALLOC=libc', 'OPTIMIZATION=-O1', 'CC=' + compiler,
            'LDFLAGS=' + ' '.join([*COUNTED[2:], headers + '/counted.o']), timeout=600)
        shutil.copy(built + '/src/redis-server', self.root)
        port = self.free_port()
        process = self.start(*self.command('run', '-o', 'heap_rate=1,cpu_rate=1ms,block_rate=1ns,mutex_rate=1,exit_timeout=60s,out=/tmp/redis', '--', '/redis-server',
                                           '--save', '', '--port', str(port)))
        deadline = time.monotonic() + 60
        while True:
            try:
                client = socket.create_connection(('127.0.0.1', port), timeout=60)
                break
            except OSError:
                self.assertTrue(process.poll() is None and time.monotonic() < deadline)
                time.sleep(0.1)
        with client:
            client.sendall(b''.join(b'set key:%d %s\r\nlpush list %d\r\n' % (i, b'x' * (i % 90), i) for i in range(20000)) + b'shutdown nosave\r\n')
            while client.recv(1 << 16):
                pass
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        self.is_exact('/tmp/redis', said)
        self.are_whole('/tmp/redis')
        stacks = [sample.names for profile in self.profiles('/tmp/redis', 'block') for sample in profile.samples]
        self.assertTrue(any('bioProcessBackgroundJobs' in names for names in stacks), stacks)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + CASES)
