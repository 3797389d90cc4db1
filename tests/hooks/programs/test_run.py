# SPDX-License-Identifier: MIT
"""`deltaprof run` becomes COMMAND with the profiler loaded. If it cannot, it prints one line and starts nothing."""
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

DELTAPROF, CC = os.path.abspath(sys.argv[1]), sys.argv[2:]
TRUE = shutil.which('true')


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def run_it(self, *args, env=None, tool=DELTAPROF, **how):
        whole = {k: v for k, v in os.environ.items() if k not in ('LD_PRELOAD', 'LD_LIBRARY_PATH', 'DELTAPROF_CONF', 'DELTAPROF_RUN')}
        whole.update(env or {})
        how.setdefault('cwd', self.dir)
        return subprocess.run([tool, *args], env=whole, text=True, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, **how)

    def refused(self, status, words, *args, **how):
        done = self.run_it('run', *args, **how)
        self.assertEqual(done.returncode, status, done)
        self.assertEqual(done.stdout, '')
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        self.assertTrue(done.stderr.startswith('deltaprof run: '), done.stderr)
        self.assertIn(words, done.stderr)

    def path(self, name):
        return os.path.join(self.dir, name)

    def script(self, name, text, mode=0o755):
        with open(self.path(name), 'w') as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def compile(self, name, text, *options):
        source = self.script(name + '.c', text, 0o644)
        subprocess.run([*CC, '-o', self.path(name), source, *options], check=True, timeout=60)
        return self.path(name)

    def environment(self, *args, **how):
        done = self.run_it('run', *args, '--', 'env', **how)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return dict(line.split('=', 1) for line in done.stdout.splitlines() if '=' in line)

    def test_a_table_of_lock_names_with_bad_lines_starts_nothing(self):
        table = self.script('locks', 'take mutex\ntake mutx\n', 0o644)
        self.refused(2, 'lock_names: bad lines (2)', '-o', 'lock_names=locks', '--', TRUE)
        self.refused(2, 'lock_names=/no/such: ENOENT', '-o', 'lock_names=/no/such', '--', TRUE)
        self.script('locks', 'take mutex\n', 0o644)
        self.assertIn('lock_names=' + table, self.environment('-o', 'lock_names=locks')['DELTAPROF_CONF'])

    def test_a_directory_that_no_process_can_make_starts_nothing(self):
        self.script('file', '', 0o644)
        for out, why in ('no/such', f'{self.dir}/no: No such file'), ('no/such/', f'{self.dir}/no: No such'), ('file/x', 'file: Not a directory'), \
                ('no/%h/x', f'{self.dir}/no: No such'), ('/no/such/%p', '/no/such: No such'):
            self.refused(2, why, '-o', 'out=' + out, '--', TRUE)
            self.refused(2, why, '--', TRUE, env={'DELTAPROF_CONF': 'out=' + out})
        for out in 'new', 'new/', './new/%p', 'other%p', '%h', '%h/%e/x', '/new', '.', 'none':
            self.assertEqual(self.run_it('run', '-o', 'interval=0,out=' + out, '--', TRUE).returncode, 0, out)

    # ---- the environment of COMMAND

    def test_the_library_comes_first_in_ld_preload_and_the_others_stay(self):
        got = self.environment()['LD_PRELOAD']
        self.assertTrue(os.path.isabs(got) and os.path.exists(got), got)
        other = self.path('libother.so')
        self.compile('libother.so', 'int other;', '-shared')
        self.assertEqual(self.environment(env={'LD_PRELOAD': other})['LD_PRELOAD'], got + ':' + other)
        self.assertEqual(self.environment(env={'LD_PRELOAD': got})['LD_PRELOAD'], got)

    def test_the_library_is_loaded(self):
        done = self.run_it('run', 'cat', '/proc/self/maps')
        self.assertIn('libdeltaprof_preload.so', done.stdout)
        self.assertIn('libdeltaprof.so', done.stdout)

    def test_options_override_the_environment_and_paths_are_absolute(self):
        text = self.environment('-o', 'interval=3s', '-okeep=7', env={'DELTAPROF_CONF': 'interval=9s,depth=5'})['DELTAPROF_CONF']
        self.assertEqual(text.split(','), ['interval=9s', 'depth=5', 'interval=3s', 'keep=7', 'out=' + self.dir])
        text = self.environment('-o', 'out=a%p,log=./b')['DELTAPROF_CONF']
        self.assertEqual(text.split(',')[2:], [f'out={self.dir}/a%p', f'log={self.dir}/./b'])
        text = self.environment('-o', 'listen=unix:s,token=t')['DELTAPROF_CONF']
        self.assertEqual(text.split(',')[2:], [f'token={self.dir}/t', f'listen=unix:{self.dir}/s'])
        odd = self.path('50%, odd')
        os.mkdir(odd)
        text = self.environment('-o', 'out=x', cwd=odd)['DELTAPROF_CONF']
        self.assertEqual(text, f'out=x,out={self.dir}/50%%\\, odd/x')
        self.assertEqual(self.environment('-o', 'out=none')['DELTAPROF_CONF'], 'out=none')

    def test_it_becomes_the_command(self):
        self.assertEqual(self.run_it('run', '--', 'sh', '-c', 'exit 7').returncode, 7)
        self.assertEqual(self.run_it('run', 'sh', '-c', 'kill -9 $$').returncode, -9)
        done = self.run_it('run', '-o', 'out=none', 'sh', '-c', 'echo $0 $1 $DELTAPROF_RUN $$', 'a', '-o', 'b')
        self.assertRegex(done.stdout, r'^a -o (\d+) \1\n$')

    def test_scripts_are_followed(self):
        for name, text in [('a', '#!/bin/sh\necho it $1\n'), ('b', '#! /usr/bin/env sh\necho it $1\n'), ('c', 'echo it $1\n')]:
            done = self.run_it('run', self.script(name, text), 'ran')
            self.assertEqual((done.stdout, done.returncode), ('it ran\n', 0), done.stderr)
        done = self.run_it('run', self.script('d', f'#!{self.path("a")}\n'))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_path_is_searched_as_the_shell_does(self):
        os.makedirs(self.path('bin1/tool'), exist_ok=True)
        os.makedirs(self.path('bin2'), exist_ok=True)
        self.script('bin2/tool', '#!/bin/sh\necho second\n')
        path = {'PATH': self.path('bin1') + ':' + self.path('bin2') + ':' + os.environ['PATH']}
        self.assertEqual(self.run_it('run', 'tool', env=path).stdout, 'second\n')

    # ---- refusals

    def profiles(self, program, *options, log='info'):
        """The lines that the program prints at its end, and the directory of its profiles."""
        out = tempfile.mkdtemp(dir=self.dir)
        done = self.run_it('run', '-o', f'log={log},out={out}', *options, '--', *program)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr.splitlines(), out

    GROWS = '''#include <stdlib.h>
#include <string.h>
static __attribute__((noinline)) void *grow(size_t n) { char *p = malloc(n); memset(p, 1, n); return p; }
int main(void) { void *a = grow(30 << 20), *b = grow(10 << 20); free(a); return b == NULL; }
'''

    def test_the_last_line_sums_up_the_heap_and_names_the_next_command(self):
        said, out = self.profiles([self.compile('grows', self.GROWS)], '-o', 'heap_rate=1')
        self.assertRegex(said[-1], r'deltaprof\[\d+\]: 40 MB allocated, peak 40 MB at \d\d:\d\d:\d\d, 10 MB in use at exit -> '
                         'deltaprof ' + out)
        said, out = self.profiles([self.path('grows')], log='stderr')
        self.assertEqual(said, [])

    def test_fractions_of_a_second_are_an_interval(self):
        self.profiles([TRUE], '-o', 'interval=0.5s')

    def test_a_program_run_through_a_link_has_the_links_name(self):
        self.compile('grows', self.GROWS, '-O1', '-s')
        os.symlink('grows', self.path('by-another-name'))
        said, out = self.profiles([self.path('by-another-name')], '-o', 'heap_rate=1')
        self.assertEqual({name.split('.')[0] for name in os.listdir(out)}, {'by-another-name'})
        done = self.run_it('top', '--raw', out)
        self.assertIn('Program: by-another-name\n', done.stdout)
        self.assertRegex(done.stdout, r' 10MB .* by-another-name\+0x[0-9a-f]+\n')
        for file in os.listdir(out):  # the mapping has the name of the link
            copy = os.path.join(self.dir, 'unnamed')
            shutil.copy(os.path.join(out, file), copy)
            self.assertIn('Program: by-another-name\n', self.run_it('top', copy).stdout)

    def test_wrong_options_start_nothing(self):
        self.refused(2, 'did you mean -o out=profiles?', '-o', 'profiles', 'touch', 'started')
        self.refused(2, 'did you mean interval=?', '-o', 'intervall=2s', 'touch', 'started')
        self.refused(2, 'interval=soon', '-o', 'interval=soon', 'touch', 'started')
        self.refused(2, 'DELTAPROF_CONF: ', 'touch', 'started', env={'DELTAPROF_CONF': 'depth=0'})
        self.refused(2, '--fast is not an option', '--fast', 'touch', 'started')
        self.refused(2, 'no COMMAND given')
        self.refused(2, 'no COMMAND given', '-o', 'keep=1', '--')
        self.assertFalse(os.path.exists(self.path('started')))

    def test_commands_that_are_not_there_or_not_executable(self):
        self.refused(127, 'no such command', 'no-such-command')
        self.refused(127, 'No such file', './no-such-command')
        self.refused(126, 'is not executable', self.script('plain', '', 0o644))
        self.refused(126, 'is a directory', self.dir)
        os.symlink('round', self.path('round'))
        self.refused(126, 'Too many levels of symbolic links', self.path('round'))
        self.refused(126, 'Not a directory', self.path('plain') + '/below')
        self.refused(126, 'not executable', 'plain', env={'PATH': self.dir})
        self.refused(126, 'interpreter', self.script('lost', '#!/no/where/sh\n'))
        self.refused(126, 'no-such-command', self.script('lost2', '#!/usr/bin/env no-such-command\n'))
        self.script('loop', f'#!{self.path("loop")}\n')
        self.refused(126, 'too many interpreters', self.path('loop'))
        shutil.copy(TRUE, self.path('busy'))
        with open(self.path('busy'), 'r+b'):  # only the kernel knows that a writer has it open
            self.refused(126, 'Text file busy', self.path('busy'))

    def test_programs_that_load_no_library(self):
        main = 'int main(void) { return 0; }'
        self.refused(126, 'linked statically', self.compile('static', main, '-static'))
        self.refused(126, 'linked statically', self.script('by-static', f'#!{self.path("static")}\n'))
        self.refused(126, 'another C library', self.compile('musl', main, '-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1'))
        with open(TRUE, 'rb') as f:
            elf = bytearray(f.read())
        elf[18:20] = struct.pack('<H', 243)  # RISC-V
        with open(self.path('foreign'), 'wb') as f:
            f.write(elf)
        os.chmod(self.path('foreign'), 0o755)
        self.refused(126, 'another machine', self.path('foreign'))
        elf[4] = 1  # 32 bits
        with open(self.path('foreign'), 'wb') as f:
            f.write(elf[:60])
        self.refused(126, 'another machine', self.path('foreign'))

    def test_sanitized_programs(self):
        main = 'int main(void) { return 0; }'
        for sanitizer in ('address', 'thread', 'leak'):
            try:
                program = self.compile('san-' + sanitizer, main, '-fsanitize=' + sanitizer)
            except subprocess.CalledProcessError:
                continue  # its runtime is not installed
            self.refused(126, 'sanitizer', program)
        # A program with a weak reference to a sanitizer's function, as the profiler has, is not sanitized.
        asks = self.compile('asks', 'extern void __asan_init(void) __attribute__((weak));'
                            'int main(void) { return __asan_init != 0; }')
        self.assertEqual(self.run_it('run', asks).returncode, 0)

    @unittest.skipIf(os.getuid() != 0, 'wants root')
    def test_privileged_programs(self):
        for name, mode in (('suid', stat.S_ISUID), ('sgid', stat.S_ISGID)):
            shutil.copy(TRUE, self.path(name))
            os.chown(self.path(name), 65534, 65534)
            os.chmod(self.path(name), 0o755 | mode)
            self.refused(126, 'is set' + name[1:] if name == 'suid' else 'is setgid', self.path(name))
        shutil.copy(TRUE, self.path('own-suid'))
        os.chmod(self.path('own-suid'), 0o4755)
        self.assertEqual(self.run_it('run', self.path('own-suid')).returncode, 0)  # run by its owner, it gets no more rights
        shutil.copy(TRUE, self.path('capable'))
        try:
            os.setxattr(self.path('capable'), 'security.capability', struct.pack('<5I', 0x02000001, 1 << 13, 0, 0, 0))
        except OSError:
            return  # a file system without capabilities
        self.refused(126, 'file capabilities', self.path('capable'))

    def test_a_path_that_ld_so_would_split_is_refused(self):
        for name in ('with blank', 'with:colon'):
            root = self.path(name)
            os.makedirs(root + '/src/tool/cli')
            os.makedirs(root + '/runtime_hooks/preload')
            open(root + '/runtime_hooks/preload/libdeltaprof_preload.so.0', 'w').close()
            shutil.copy(DELTAPROF, root + '/src/tool/cli')
            self.refused(126, 'blank or a colon', 'true', tool=root + '/src/tool/cli/deltaprof')

    # ---- programs with their own malloc

    def test_a_malloc_that_no_preload_can_hook_is_named(self):
        own = '#include <stddef.h>\nvoid *%s(size_t n) { static char b[64]; (void)n; return b; }\nint main(void) { return 0; }'
        for name, seen in (('je_malloc', 'as a shared library'), ('mi_malloc', 'only those of libraries'), ('malloc', 'will not'),
                           ('_rjem_malloc', 'the crate in runtime_hooks/rust')):
            done = self.run_it('run', '-o', 'out=none', self.compile('own-' + name, own % name, '-fno-builtin'))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'({name})', done.stderr)
            self.assertIn(seen, done.stderr)

    def test_an_allocator_whose_hooks_are_not_recognized_is_named(self):
        own = ('#include <stddef.h>\nvoid *malloc(size_t n) { static char b[64]; (void)n; return b; }\n'
               'int mallctl(void) { return 2; }\n%s\nint main(void) { return 0; }')
        done = self.run_it('run', '-o', 'out=none', self.compile('own-mallctl', own % '', '-fno-builtin'))
        self.assertEqual((done.returncode, done.stderr.count('contains its own malloc (malloc)')), (0, 1), done.stderr)
        path = self.compile('own-known', own % 'int mallctlbymib(void) { return 2; }', '-fno-builtin')
        done = self.run_it('run', '-o', 'out=none,inside=off', path)
        self.assertIn('inside=on shows it', done.stderr)

    def test_an_allocator_without_symbols_is_known_by_its_messages(self):
        own = 'const char text[] = "%s";\nint main(void) { return text[0] == 0; }'
        for name, message in (('jemalloc', '<jemalloc>: Out of memory\\n'), ('mimalloc', 'mimalloc: warning: ')):
            path = self.compile('says-' + name, own % message)
            subprocess.run(['strip', path], check=True)
            done = self.run_it('run', '-o', 'out=none', path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f'contains its own malloc ({name})', done.stderr)

    def test_the_allocator_of_python_s_objects_is_no_malloc(self):
        python = 'const char text[] = "mimalloc: warning: ";\n__attribute__((visibility("default"))) void PyMem_SetAllocator(void) {}\nint main(void) { return text[0] == 0; }'
        path = self.compile('python', python, '-rdynamic')
        subprocess.run(['strip', path], check=True)
        done = self.run_it('run', '-o', 'out=none', path)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    @unittest.skipUnless(os.uname().machine == 'x86_64', 'the code is for x86-64')
    def test_futex_calls_without_libc_are_named_before_the_start(self):
        call = ('int main(void) { static int word; long result = 202;\n'
                '__asm__ volatile("mov $202, %%eax\\n\\tsyscall" : "+a"(result) : "D"(&word), "S"(129), "d"(1) : "rcx", "r11", "memory");\n'
                'return result != 0; }')
        done = self.run_it('run', '-o', 'out=none', '--', self.compile('inlined', call))
        self.assertEqual((done.returncode, done.stderr.count('\n')), (0, 1), done.stderr)
        self.assertIn('makes futex calls of its own', done.stderr)

    def test_a_runtime_with_its_own_heap_is_named(self):
        for name, source, said in (
                ('java', 'int JLI_Launch(void); int main(void) { return JLI_Launch(); }\nint JLI_Launch(void) { return 0; }', 'GC.class_histogram'),
                ('v8', 'int _ZN2v87Isolate3NewEv(void) { return 0; }\nint main(void) { return _ZN2v87Isolate3NewEv(); }', '--heap-prof'),
                ('go', '__attribute__((section(".go.buildinfo"))) int info = 1;\nint main(void) { return !info; }', 'net/http/pprof'),
                ('chromium', '__attribute__((section("malloc_hook"))) int hook(void) { return 0; }\nint main(void) { return hook(); }',
                 'use_partition_alloc_as_malloc')):
            done = self.run_it('run', '-o', 'out=none', self.compile('like-' + name, source))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stderr.count('\n'), 1, done.stderr)

    def test_abseil_is_not_taken_for_chromiums_allocator(self):
        abseil = '__attribute__((section("malloc_hook"))) int _ZN4absl13base_internal13LowLevelAlloc5AllocEm(void) { return 0; }\n'
        start = 'int main(void) { return _ZN4absl13base_internal13LowLevelAlloc5AllocEm(); }'
        done = self.run_it('run', '-o', 'out=none', self.compile('abseil', abseil + start))
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        done = self.run_it('run', '-o', 'out=none', self.compile('node', abseil + 'int _ZN2v87Isolate3NewEv(void) { return 0; }\n' + start))
        self.assertIn('--heap-prof', done.stderr)
        done = self.run_it('run', '-o', 'out=none', self.compile('debug', abseil + 'int _ZN15partition_alloc5AllocEm(void) { return 0; }\n' + start))
        self.assertIn('use_partition_alloc_as_malloc', done.stderr)

    def test_a_program_that_a_wrapper_becomes_is_named_by_the_library(self):
        program = self.compile('wrapped', '__attribute__((section("malloc_hook"))) int hook(void) { return 0; }\nint main(void) { return hook(); }')
        script = self.script('wrapper', f'#!/bin/sh\nLIBDIR={self.dir}\n/bin/true\nexec $LIBDIR/wrapped "$@"\n')
        for command in ([script], ['env', 'A=b', program], ['sh', '-c', f'exec {script}']):
            done = self.run_it('run', '-o', 'out=none', '--', *command)
            self.assertEqual((done.returncode, done.stderr.count('\n')), (0, 1), done.stderr)
            self.assertRegex(done.stderr, rf'^deltaprof\[\d+\]: {program} has PartitionAlloc inside')
        for command in ([program], ['sh', '-c', f'{program}; true']):  # known before; a child, and not the program itself
            done = self.run_it('run', '-o', 'out=none', '--', *command)
            self.assertNotRegex(done.stderr, r'deltaprof\[')
        done = self.run_it('run', '-o', 'out=none,exe=sh', '--', script)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_a_file_that_was_cut_is_not_called_static(self):
        with open(TRUE, 'rb') as f:
            elf = f.read()
        for n in (8, 60, 100, 1000, len(elf) // 2):
            with open(self.path('cut'), 'wb') as f:
                f.write(elf[:n])
            os.chmod(self.path('cut'), 0o755)
            self.refused(126, 'cannot be read: the file ends before the program does', self.path('cut'))

    # ---- the rest of the command line

    def test_help_and_version(self):
        done = self.run_it('--version')
        self.assertRegex(done.stdout, r'^deltaprof \d+\.\d+\.\d+\nchanges, .*: man 7 deltaprof\n$')
        for args in (['--help'], ['run', '--help'], ['run', '-h']):
            done = self.run_it(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            self.assertIn('usage: deltaprof', done.stdout)
        self.assertEqual(self.run_it().returncode, 2)
        done = self.run_it('fly')
        self.assertEqual((done.returncode, done.stdout), (2, ''))
        self.assertIn('fly', done.stderr)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
