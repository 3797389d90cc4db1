# SPDX-License-Identifier: MIT
"""What the libraries export is written down beside this file; what they need is libc; what the floors inside the hooks call
is known one by one.

    check_symbols.py SOURCE-ROOT CORE.so PRELOAD.so RECORD.a... [MODULE.so...] --rooms ROOM.a...
"""
import glob
import os
import re
import subprocess
import sys
import unittest

TOP, CORE, PRELOAD, *REST = sys.argv[1:]
REST, ROOMS = REST[:REST.index('--rooms')], REST[REST.index('--rooms') + 1:]
RECORD = [name for name in REST if name.endswith('.a')]
MODULES = [name for name in REST if not name.endswith('.a')]
HERE = os.path.dirname(os.path.abspath(__file__))

# What code that runs inside a hook may call beside ours: it neither allocates, locks, logs nor enters the loader.
RECORD_MAY_CALL = set('''
_GLOBAL_OFFSET_TABLE_ __errno_location __libc_single_threaded
bcmp memchr memcmp memcpy memmove memset strcmp strlen strncmp strnlen
getauxval getpid gettid madvise sched_getcpu sched_yield syscall
_dl_find_object __divti3 __udivti3
pthread_self pthread_key_create pthread_key_delete pthread_getspecific pthread_setspecific
'''.split())  # the key is made at init and is one of the first 32, which live in the thread itself

# Words that many meanings share: a name says lock or unlock, add or remove, begin or end, read or drop.
VAGUE = re.compile(r'_(take|give|leave(?!_out)|maybe|forget|hold|release)s?(_|$)')

# Two of them are parts of libc before 2.34.
LIBC = {'libc', 'ld-linux-x86-64', 'ld-linux-aarch64', 'libpthread', 'libdl'}


def run(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def exported(library):
    names = {line.split()[-1].split('@')[0] for line in run('nm', '-D', '--defined-only', library).splitlines()}
    return sorted(n for n in names if not n.startswith('DELTAPROF_'))


def written(name):
    with open(os.path.join(HERE, name)) as f:
        return [line.strip() for line in f if line.strip() and not line.startswith('#')]


class Symbols(unittest.TestCase):
    maxDiff = None

    def test_the_core_exports_what_is_written_down_and_declared(self):
        self.assertEqual(exported(CORE), written('libdeltaprof.symbols'))
        declared = set()
        for header in set(glob.glob(TOP + '/include/deltaprof/*.h')) - {TOP + '/include/deltaprof/lua.h'}:  # a library of its own
            with open(header) as f:
                text = re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)
            for declaration in re.findall(r'^[^#\n]*\bDELTAPROF_API\b([^;{]*)', text, re.M):
                name = re.search(r'\b(deltaprof_\w+)\s*(\(|__attribute__|DELTAPROF_TLS_MODEL|$|\[)', declaration.strip())
                declared.add(name.group(1))
        self.assertEqual(sorted(declared), written('libdeltaprof.symbols'))

    def test_public_names_say_what_the_functions_do(self):
        names = set(written('libdeltaprof.symbols'))
        for header in glob.glob(TOP + '/include/deltaprof/*.h'):
            with open(header) as f:
                names |= set(re.findall(r'\b(deltaprof_\w+)\(', f.read()))
        self.assertEqual([n for n in sorted(names) if VAGUE.search(n)], [])

    def test_every_function_that_rooms_share_has_a_prefix_and_a_plain_verb(self):
        for room in ROOMS:
            shared = {line.split()[-1] for line in run('nm', '-g', '--defined-only', room).splitlines() if len(line.split()) == 3}
            shared.discard('_.stapsdt.base')  # by its name it is one with those of other files that have probes
            self.assertTrue(shared, room)
            self.assertEqual([n for n in sorted(shared) if not re.match('(dp|deltaprof)_', n) or VAGUE.search(n)], [], room)

    def test_the_preload_object_exports_what_is_written_down_without_a_version(self):
        self.assertEqual(exported(PRELOAD), written('libdeltaprof_preload.symbols'))
        # ld.so skips interposers that stand under a named version. One name is there to be skipped (other_libc.c).
        self.assertEqual(re.findall(r'\S+@\S+', run('nm', '-D', '--defined-only', PRELOAD)), ['stdin@@DELTAPROF_OTHER_LIBC'])

    def test_nothing_but_libc_is_needed(self):
        for library in (CORE, PRELOAD):
            needed = set(re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-dW', library)))
            self.assertLessEqual({re.sub(r'\.so.*', '', n) for n in needed},LIBC | {'libdeltaprof'})
        for module in MODULES:
            self.assertEqual([n for n in exported(module) if not n.startswith('dp_module_')], [])
            self.assertEqual(len(exported(module)), 1)

    def test_nothing_is_left_unresolved(self):
        # ld.so ends a program for one of these, and it is not ours.
        for library, others in ((CORE, []), (PRELOAD, exported(CORE))):
            undefined = [line.split() for line in run('nm', '-D', '-u', library).splitlines()]
            self.assertEqual([n for kind, n in undefined if kind == 'U' and '@GLIBC' not in n and n.split('@')[0] not in others], [])
            if tuple(map(int, os.confstr('CS_GNU_LIBC_VERSION').split()[1].split('.'))) >= (2, 34):
                self.assertEqual([n for _, n in undefined if '@GLIBC_PRIVATE' in n], [])  # packagers' tools refuse these

    def test_a_module_needs_nothing_of_the_core(self):
        for module in MODULES:  # the core exports nothing of its own to them: such a module would not load
            undefined = [line.split()[-1] for line in run('nm', '-D', '-u', module).splitlines()]
            self.assertEqual([n for n in undefined if n.startswith(('dp_', 'deltaprof_'))], [], module)

    def test_thread_state_is_static_and_small(self):
        total = 0
        for library in (CORE, PRELOAD):
            self.assertNotIn('__tls_get_addr', run('nm', '-D', '-u', library))
            for size in re.findall(r'^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)', run('readelf', '-lW', library), re.M):
                total += int(size, 16)
        self.assertLessEqual(total, 192, 'bytes of static TLS')

    def test_libraries_stay_loaded_and_their_stacks_are_not_executable(self):
        for library in (CORE, PRELOAD):
            self.assertIn('NODELETE', run('readelf', '-dW', library))
            # A first call through a lazy PLT inside a hook would run the loader's fixup, which may take its lock.
            self.assertIn('NOW', run('readelf', '-dW', library))
            self.assertRegex(run('readelf', '-lW', library), r'GNU_STACK.* RW ')

    def test_nothing_but_our_own_constructor_runs_in_a_process_that_we_are_loaded_into(self):
        # Eight bytes are the compiler's frame_dummy. libgcc's __cpu_indicator_init, which __builtin_cpu_supports brings,
        # is 100 us of every process in a virtual machine.
        for library, constructors in ((CORE, 0), (PRELOAD, 1)):
            size = re.search(r'\.init_array +\S+ +\S+ +\S+ +([0-9a-f]+)', run('readelf', '-SW', library))
            self.assertLessEqual(int(size.group(1), 16) if size else 0, 8 + 8 * constructors, library)

    def test_the_floors_inside_the_hooks_call_nothing_that_a_hook_must_not(self):
        used = {line.split()[-1] for line in run('nm', '-u', *RECORD).splitlines() if re.match(r'\s+U ', line)}
        strange = {n for n in used if not re.match(r'dp_|deltaprof_', n)} - RECORD_MAY_CALL
        self.assertEqual(strange, set())
        # dp_module_open: libunwind.c opens the unwinder, at start and never in a hook.
        forbidden = {n for n in used if re.match(r'dp_(log|config|text|module(?!_open)|lock_lock)\w*$', n)}
        self.assertEqual(forbidden, set())


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
