# SPDX-License-Identifier: MIT
"""The archive of examples/deploy/bundle.sh: what its objects need, and what it does in roots with little more than libc.

    test_bundle.py BUNDLE-DIRECTORY [RELEASE...] [CASE...]
    test_bundle.py BUNDLE-DIRECTORY compile

BUNDLE-DIRECTORY is that of bundle.sh. One root has this machine's libc and nothing else; a root for each RELEASE of
Debian, or Ubuntu's noble, is unpacked by debootstrap. Without root, or without debootstrap, those are skipped; so are all roots if the
archive is for another machine. The second form compiles the programs of the tests, for such a machine: there they are
found in BUNDLE-DIRECTORY/programs.
"""
import collections
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import receiver
from programs import (BUNDLE, CASES, CLEAN, GLIBC_COMPILER, HERE, MACHINE, MUSL, MUSL_COMPILER, MUSL_LIBRARY, TOP, compile_with, copy_glibc, copy_musl,
                      debootstrap, make_all, make_wheel, run, unpack_image)
from reader import by_function, files, load, sum_profiles

RELEASES = [name for name in CASES if name.islower() and name != 'compile']
OLDEST = (2, 28)
MAX_BYTES = 8 << 20
EXACT = {'hundred': 100000, 'thousand': 500000}, 600000
# /proc is mounted in a mount namespace, which ends with the test.
IN_ROOT = ('import os, sys; os.chroot(sys.argv[1]); os.chdir("/"); '
           'os.execve(sys.argv[2], sys.argv[2:], {k[3:]: v for k, v in os.environ.items() if k[:3] == "IN_"})')


def archive():
    found = glob.glob(os.path.join(BUNDLE, 'deltaprof-*.tar.xz'))
    assert len(found) == 1, found
    return found[0]


class Objects(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)
        run('tar', '-C', self.dir, '-xJf', archive())
        self.objects = []
        for directory, _, names in os.walk(self.dir):
            for path in (os.path.join(directory, name) for name in names):
                with open(path, 'rb') as f:
                    if not os.path.islink(path) and f.read(4) == b'\x7fELF':
                        self.objects.append(path)

    def test_the_archive_is_small_and_has_everything(self):
        self.assertLessEqual(os.path.getsize(archive()), MAX_BYTES)
        names = {os.path.basename(path) for path in self.objects}
        self.assertLessEqual({'deltaprof', 'deltaprof-push', 'gzip.so', 'symbolize.so', 'lines.so', 'http.so', 'unwind.so'}, names)

    def test_no_object_needs_a_newer_glibc_or_another_library(self):
        for path in self.objects:
            versions = re.findall(r'Name: GLIBC_([\d.]+)', run('readelf', '-VW', path).stdout)
            newest = max((tuple(map(int, version.split('.'))) for version in versions), default=OLDEST)
            print('%-24s %s' % (os.path.basename(path), '.'.join(map(str, newest))))
            self.assertLessEqual(newest, OLDEST, path)
            needed = set(re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-dW', path).stdout))
            needed = {re.sub(r'\.so.*', '', name) for name in needed}
            self.assertLessEqual(needed, {'libc', 'libm', 'libpthread', 'libdl', 'librt', 'ld-linux-x86-64', 'ld-linux-aarch64',
                                          'libdeltaprof'}, path)

    def test_objects_are_hardened(self):
        for path in self.objects:
            self.assertIn('BIND_NOW', run('readelf', '-dW', path).stdout, path)
            headers = run('readelf', '-lW', path).stdout
            self.assertIn('GNU_RELRO', headers, path)
            self.assertRegex(headers, r'GNU_STACK.* RW ', path)
            if MACHINE == 'x86_64':
                self.assertRegex(run('readelf', '-nW', path).stdout, r'x86 feature:.*\bSHSTK\b', path)
                self.assertRegex(headers, r'NOTE .* R +0x8\n', path)  # where glibc reads it

    def test_tables_can_be_told_from_those_of_another_build(self):
        libraries = [path for path in self.objects if os.path.basename(path).startswith('libdeltaprof.so')]
        ids = {re.search(r'Build ID: (\w+)', run('readelf', '-nW', path).stdout).group(1) for path in libraries}
        self.assertEqual(len(ids), 2)  # for glibc and for musl


def made_wheel():
    if os.path.exists(BUNDLE + '/root'):
        make_wheel()
    wheel, = glob.glob(BUNDLE + '/*.whl')
    return wheel


class Wheel(unittest.TestCase):
    def test_pip_installs_the_command_and_the_module(self):
        with tempfile.TemporaryDirectory() as directory:
            wheel = made_wheel()
            run(sys.executable, '-m', 'venv', directory + '/venv', timeout=600)
            bin = directory + '/venv/bin/'
            run(bin + 'pip', 'install', '--no-index', wheel, timeout=600)
            self.assertRegex(run(bin + 'deltaprof', '--version').stdout, r'\d+\.\d+\.\d+')
            self.assertRegex(run(bin + 'python3', '-c', 'import deltaprof; print(deltaprof.version)').stdout, r'^\d+\.\d+\.\d+$')
            program = 'import deltaprof\nwith deltaprof.labels(part="x"): kept = [bytearray(1000) for _ in range(1000)]'
            run(bin + 'deltaprof', 'run', '-o', f'heap_rate=1,out={directory}/out', '--', bin + 'python3', '-c', program)
            profiles = [load(path) for path in files(directory + '/out')]
            self.assertGreaterEqual(sum(sample.values['alloc_space'] for profile in profiles for sample in profile.samples
                                        if ('part', 'x') in sample.labels), 1000 * 1000)


def not_whole(profiles, kind):
    """The share of a kind's values in stacks that do not go up to where libc starts a thread or main, and the most frequent of these
    stacks. CPU time without a stack is left out, and the profiler's own, which begins before main: on a busy emulator that is a tenth
    of all."""
    samples = [(sample.values[kind], sample.names) for profile in profiles for sample in profile.samples
               if sample.names != ('[between samples]',) and not any('deltaprof' in name for name in sample.names)]
    cut = collections.Counter()
    for n, names in samples:
        if not {'main', 'work_in_thread', 'bioProcessBackgroundJobs'} & set(names):
            cut[names] += n
    return sum(cut.values()) / sum(n for n, _ in samples), cut.most_common(12)


class Root:
    """A root that has the victim and the bundle."""
    compilers = {'/victim': GLIBC_COMPILER}
    top = '/opt/deltaprof'
    name = 'deltaprof'

    def command(self, *arguments):
        return f'{self.top}/bin/{self.name}', *arguments

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest('not root, so no chroot')
        if MACHINE != os.uname().machine:
            raise unittest.SkipTest('the archive is for ' + MACHINE)
        cls.root = tempfile.mkdtemp()
        cls.tables = tempfile.mkdtemp(dir='/dev/shm')  # is /dev/shm in the root
        cls.fill()
        for name in ('opt', 'tmp', 'proc', 'dev/shm'):
            os.makedirs(os.path.join(cls.root, name), exist_ok=True)
        run('tar', '-C', cls.root + '/opt', '-xJf', archive())
        for program, compiler in cls.compilers.items():
            compile_with(compiler, HERE + '/victim.c', cls.root + program)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root)
        shutil.rmtree(cls.tables)

    def start(self, *command, before=(), env={}, has_proc=True):
        script = ('mount -t proc proc "$1/proc" && ' if has_proc else '') + 'mount --bind "$2" "$1/dev/shm" && shift 2 && exec "$@"'
        return subprocess.Popen(['unshare', '--mount', *before, 'sh', '-c', script, 'sh', self.root, self.tables, sys.executable, '-c', IN_ROOT,
                                 self.root, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={'IN_' + name: value for name, value in env.items()})

    def out(self, *command, said=''):
        process = self.start(*command)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertRegex(err, rf'\A{said}\Z')
        return out

    def run_victim(self, conf, program='/victim', *arguments, said=''):
        return self.out(*self.command('run', '-o', 'exit_timeout=60s,' + conf, '--', program, *arguments), said=said)

    def profiles(self, out, kind):
        found = [load(path) for path in files(self.root + out, kind=kind)]
        self.assertTrue(found)
        return found

    def are_whole(self, out):
        for kind, value, most in ('heap', 'alloc_objects', 0.01), ('cpu', 'cpu', 0.05):
            share, stacks = not_whole(self.profiles(out, kind), value)
            self.assertLessEqual(share, most, stacks)

    def free_port(self):
        with socket.socket() as listener:
            listener.bind(('127.0.0.1', 0))
            return listener.getsockname()[1]


class InRoot(Root):
    """What works in such a root."""

    def sums(self, out):
        """Of the program and its child: by name, and the sum of the child, in which no module is opened."""
        by_process = {}
        for profile in self.profiles(out, 'heap'):
            by_process.setdefault(profile.pid, []).append(profile)
        program = by_process.pop(self.profiles(out, 'mutex')[0].pid)  # the child waits for no lock
        child, = by_process.values()
        return by_function(sum_profiles(program), 'alloc_space', {'hundred', 'thousand'}), sum(p.total('alloc_space') for p in child)

    def test_sums_are_exact_also_of_a_child(self):
        shutil.rmtree(self.root + '/tmp/exact', ignore_errors=True)
        self.run_victim('heap_rate=1,out=/tmp/exact')
        for path in files(self.root + '/tmp/exact'):
            with open(path, 'rb') as f:
                self.assertEqual(f.read(2), b'\x1f\x8b')
        self.assertEqual(self.sums('/tmp/exact'), EXACT)
        top = self.out(*self.command('top', '--type', 'alloc_space', '/tmp/exact'))
        self.assertIn('thousand', top)

    def recovered(self, out, program, reader):
        process = self.start(*self.command('run', '-o', f'heap_rate=1,interval=0,out={out}', '--', program))
        self.assertEqual(process.stdout.readline(), 'ready\n')
        process.kill()
        self.assertEqual(''.join(process.communicate(timeout=60)), '')
        self.assertEqual(self.out(f'{self.top}/bin/{reader}', 'recover'), '1 process recovered\n')
        self.assertEqual(self.sums(out), EXACT)

    def test_a_killed_program_is_recovered(self):
        self.recovered('/tmp/killed', next(iter(self.compilers)), self.name)

    def test_mutex_total_is_block_total(self):
        self.run_victim('heap_rate=0,block_rate=1ns,mutex_rate=1,out=/tmp/locks')
        block, mutex = (sum(sample.values['delay'] for profile in self.profiles('/tmp/locks', kind) for sample in profile.samples
                            if kind == 'mutex' or ('lock', 'mutex') in sample.labels) for kind in ('block', 'mutex'))
        self.assertGreater(mutex, 0)
        self.assertEqual(mutex, block)

    def test_stacks_are_whole_also_through_libc(self):
        program, compiler = next(iter(self.compilers.items()))
        compile_with(compiler, HERE + '/victim_libc.c', f'{self.root}{program}_libc')
        shutil.rmtree(self.root + '/tmp/libc', ignore_errors=True)
        self.run_victim('heap_rate=1,cpu_rate=1ms,out=/tmp/libc', program + '_libc')
        heap = self.profiles('/tmp/libc', 'heap')
        among = {'duplicate': 1000, 'without_unwind_data': 1000}
        self.assertEqual(by_function(sum_profiles(heap), 'alloc_objects', set(among)), among)
        self.are_whole('/tmp/libc')

    def test_lines(self):
        self.run_victim('heap_rate=1,symbolize=lines,out=/tmp/lines')
        with open(HERE + '/victim.c') as f:
            line = 1 + [text.strip() for text in f].index('kept = malloc(100);')
        leaves = {(frame.function, os.path.basename(frame.file), frame.line) for profile in self.profiles('/tmp/lines', 'heap')
                  for sample in profile.samples for frame in sample.frames[:1]}
        self.assertIn(('hundred', 'victim.c', line), leaves)

    def asked(self, process, port, headers={}):
        """The endpoint's profile of a victim, which ends then."""
        self.assertEqual(process.stdout.readline(), 'ready\n')
        request = urllib.request.Request(f'http://127.0.0.1:{port}/debug/pprof/delta_heap', headers=headers)
        for tries_left in range(100, 0, -1):  # the endpoint opens a while after the program has started
            try:
                with urllib.request.urlopen(request, timeout=30) as reply:
                    profile = load(reply.read())
                break
            except OSError:
                self.assertGreater(tries_left, 1)
                time.sleep(0.1)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(err, '')
        return profile

    def test_the_endpoint_answers(self):
        port = self.free_port()
        process = self.start(*self.command('run', '-o', f'heap_rate=1,listen=127.0.0.1:{port}', '--', '/victim'))
        total = sum_profiles([self.asked(process, port)])
        self.assertEqual(by_function(total, 'alloc_space', {'hundred', 'thousand'}), EXACT[0])

    def push(self, taking, *options):
        self.run_victim('heap_rate=1,out=/tmp/push')
        self.out(*self.command('push', '/tmp/push', '--once', '--to', taking.url('pprof', 'localhost'), *options))
        self.assertTrue(taking.taken)
        self.assertEqual(taking.refused, [])

    def test_push(self):
        with receiver.Receiver() as taking:
            self.push(taking)

    def test_a_changed_place(self):
        self.top = '/tmp/moved'
        shutil.copytree(self.root + '/opt/deltaprof', self.root + self.top, symlinks=True)
        self.run_victim('heap_rate=1,out=/tmp/elsewhere')
        self.assertEqual(self.sums('/tmp/elsewhere'), EXACT)


class Slim(InRoot, unittest.TestCase):
    @classmethod
    def fill(cls):
        copy_glibc(cls.root)
        os.makedirs(cls.root + '/etc')
        with open(cls.root + '/etc/hosts', 'w') as f:
            f.write('127.0.0.1 localhost\n')

    def test_a_root_without_proc(self):
        process = self.start(*self.command('run', '-o', 'heap_rate=1,out=/tmp/without', '--', '/victim'), has_proc=False)
        self.assertEqual(process.communicate(timeout=60), ('ready\n', ''))
        self.assertEqual(self.sums('/tmp/without'), EXACT)


class Image(Slim):
    """A root like that with the image of examples/deploy/oci.sh mounted, as two other programs read it."""
    top = '/deltaprof'
    test_push = test_a_changed_place = test_a_root_without_proc = None

    @classmethod
    def fill(cls):
        cls.image = BUNDLE + '/programs/unpacked/rootfs'
        if not (os.path.exists(cls.image) or shutil.which('skopeo') and shutil.which('umoci')):
            raise unittest.SkipTest('skopeo or umoci is not installed')
        super().fill()
        os.mkdir(cls.root + cls.top)
        if not os.path.exists(cls.image):
            unpack_image(cls.root)
            cls.image = cls.root + '/unpacked/rootfs'

    def start(self, *command, env={}):
        image = ['sh', '-c', 'mount --bind "$1$2" "$3$2" && mount -o remount,bind,ro "$3$2" && shift 3 && exec "$@"', 'sh']
        return super().start(*command, before=[*image, self.image, self.top, self.root], env=env)

    def test_it_has_deltaprof_and_nothing_else(self):
        self.assertEqual(os.listdir(self.image), ['deltaprof'])
        version = re.search(r'deltaprof-([\d.]+)-', archive())[1]
        self.assertEqual(self.out(*self.command('--version')).split('\n')[0], f'deltaprof {version}')


class Musl(InRoot, unittest.TestCase):
    """A root with musl and nothing else."""
    compilers = {'/victim': MUSL_COMPILER}
    name = 'deltaprof-musl'
    test_lines = test_push = None  # the archive has neither for musl

    @classmethod
    def fill(cls):
        copy_musl(cls.root)

    def test_libc_has_every_function_that_the_libraries_want(self):
        lib = self.root + '/opt/deltaprof/lib/musl'
        files = [MUSL, *(os.path.join(d, n) for d, _, names in os.walk(lib) for n in names)]
        symbols = [line.split() for f in files for line in run('nm', '-D', f).stdout.splitlines()]
        wanted, there = ({s[-1].split('@')[0] for s in symbols if (s[-2] == 'U') == undefined} for undefined in (True, False))
        self.assertEqual(wanted - there, set())

    @unittest.skipUnless(os.path.exists(BUNDLE + '/python'), 'no pip')
    def test_pip_takes_the_wheel_for_musl(self):
        """The command of musl's half runs in the root; no object of that half asks for glibc."""
        wheel, target = made_wheel(), self.root + '/wheel'
        run(BUNDLE + '/python/bin/pip', 'install', '--no-index', '--only-binary', ':all:', '--platform', 'musllinux_1_2_' + MACHINE, '--target', target, wheel)
        self.top, self.name = '/wheel/deltaprof_files/lib/musl', 'deltaprof'
        self.run_victim('heap_rate=1,out=/tmp/wheel')
        self.assertEqual(self.sums('/tmp/wheel'), EXACT)
        objects = [path for path in glob.glob(self.root + self.top + '/**', recursive=True) if os.path.isfile(path)]
        self.assertIn(f'{self.root}{self.top}/libdeltaprof_python.so.0', objects)
        for path in objects:
            self.assertNotIn('GLIBC_', run('readelf', '-VW', path).stdout, path)

    def test_a_running_program_opens_the_library(self):
        """Threads that began before, signals inside hooks. An event in a handler that interrupted a hook is left out."""
        compile_with(self.compilers['/victim'], HERE + '/victim_opens.c', self.root + '/opens')
        compile_with(MUSL_LIBRARY, HERE + '/opened.c', self.root + '/opened.so')
        core = f'{self.top}/lib/musl/libdeltaprof.so.0'
        in_thread, in_main = map(int, self.out('/opens', core, '/opened.so', 'heap_rate=1,out=/tmp/opens').split())
        total = sum_profiles(self.profiles('/tmp/opens', 'heap'))
        counted, in_use = (by_function(total, kind, {'in_thread', 'in_main', 'in_handler'}) for kind in ('alloc_objects', 'inuse_objects'))
        self.assertEqual((counted['in_thread'], counted['in_main']), (in_thread, in_main))
        self.assertEqual((in_use.get('in_thread', 0), in_use['in_main']), (0, in_main))
        self.assertLessEqual(counted.get('in_handler', 0), in_main)

    def test_a_program_becomes_another_user_where_no_signal_is_queued(self):
        """musl would signal the library's thread for ever."""
        compile_with(self.compilers['/victim'], HERE + '/victim_user.c', self.root + '/user')
        process = self.start(*self.command('run', '-o', 'listen=unix:/tmp/user,log=none', '--', '/user'))
        try:
            process.communicate(timeout=60)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 0)


class Both(InRoot, unittest.TestCase):
    """A root with both libraries: each command profiles programs of both, and a child with the other one is left alone."""
    compilers = {'/victim': GLIBC_COMPILER, '/victim-musl': MUSL_COMPILER}

    @classmethod
    def fill(cls):
        copy_glibc(cls.root)
        copy_musl(cls.root)

    def test_the_other_command(self):
        self.name = 'deltaprof-musl'
        self.test_sums_are_exact_also_of_a_child()

    def test_a_program_with_musl(self):
        self.run_victim('heap_rate=1,log=info,out=/tmp/musl', '/victim-musl', said=r'(?s:.*deltaprof\[\d+\]: musl: no lines.*)')
        self.assertEqual(self.sums('/tmp/musl'), EXACT)

    def test_a_killed_program_is_recovered_by_both_commands(self):
        for program in self.compilers:
            for reader in 'deltaprof', 'deltaprof-musl':
                self.recovered(f'/tmp/killed-{reader}{program}'.replace('/v', '-v'), program, reader)

    def alone(self, out, program, child, said=''):
        self.assertEqual(self.run_victim(f'heap_rate=1,out={out}', program, child, said=said), 'ready\nready\n')
        profiles = self.profiles(out, 'heap')
        self.assertEqual(len({profile.pid for profile in profiles}), 1)
        self.assertEqual(by_function(sum_profiles(profiles), 'alloc_space', {'hundred', 'thousand'}), EXACT[0])

    def test_a_child_with_the_other_library_is_left_alone(self):
        self.alone('/tmp/child-glibc', '/victim-musl', '/victim', r'ERROR: ld\.so: object .* cannot be preloaded .*: ignored\.\n')
        self.alone('/tmp/child-musl', '/victim', '/victim-musl', r'deltaprof\[\d+\]: /victim-musl: uses musl, so it runs without the profiler; .*\n')


def of_release(release):
    class Release(InRoot, unittest.TestCase):
        @classmethod
        def fill(cls):
            if not shutil.which('debootstrap'):
                raise unittest.SkipTest('debootstrap is not installed')
            os.rmdir(cls.root)
            debootstrap(release, cls.root)

    Release.__name__ = Release.__qualname__ = release.capitalize()
    return Release


for each in RELEASES:
    globals()[each.capitalize()] = of_release(each)


if __name__ == '__main__':
    if CASES == ['compile']:
        make_all()
    else:
        unittest.main(argv=sys.argv[:1] + [name for name in CASES if name not in RELEASES])
