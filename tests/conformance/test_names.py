# SPDX-License-Identifier: MIT
"""What locations say: names, lines, files and addresses, also where a file or a module is missing."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import deltas
from deltas import HEAP, Delta, heap, stack


def call_in(function):
    """The return address of a near call in a function of a library."""
    code = ctypes.string_at(function, 512)
    at = next(i for i in range(500) if code[i] == 0xE8 and
              abs(int.from_bytes(code[i + 1:i + 5], 'little', signed=True)) < 1 << 22)
    return function + at + 5


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def leaf(value, conf=None):
    d = Delta(HEAP, conf)
    try:
        profile = d.write_heap([heap(stack(value), 1, 8)], 1)
        return profile.samples[0].frames, profile
    finally:
        d.close()


def mapping(profile, name):
    s = profile.message.string_table
    return next(m for m in profile.message.mapping if name in s[m.filename])


def load_bias(name):
    with open('/proc/self/maps') as maps:
        return min(int(line.split('-')[0], 16) for line in maps if name in line)


def run(code, **env):
    """A child of ours that imports this module; its standard error."""
    done = subprocess.run([sys.executable, '-c', 'import test_names as t\nfrom test_names import *\n' + code],
                          env=dict(os.environ, PYTHONPATH=os.environ['PYTHONPATH'] + ':' + os.path.dirname(__file__), **env),
                          text=True, capture_output=True, timeout=60)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stderr


@unittest.skipUnless(os.uname().machine == 'x86_64', 'looks for a call of x86-64')
class Names(unittest.TestCase):
    def setUp(self):
        self.setenv = call_in(address_of(ctypes.CDLL(None).setenv))

    def test_functions(self):
        frames, profile = leaf(self.setenv)
        self.assertEqual(frames[0].function, 'setenv')
        libc = mapping(profile, 'libc')
        self.assertTrue(libc.has_functions and not libc.has_line_numbers)

    def test_none(self):
        frames, profile = leaf(self.setenv, 'symbolize=none')
        self.assertEqual((frames[0].function, frames[0].address), (None, self.setenv - 1))
        self.assertFalse(mapping(profile, 'libc').has_functions)

    def test_names_of_one_consumer_are_not_those_of_another(self):
        for conf in ('symbolize=none', 'symbolize=functions', 'symbolize=none'):
            self.assertEqual(leaf(self.setenv, conf)[0][0].function is None, conf == 'symbolize=none')

    def test_names_kept_from_delta_to_delta_follow_the_settings(self):
        d = Delta(HEAP, 'symbolize=functions')
        self.addCleanup(d.close)
        caller = call_in(address_of(ctypes.CDLL(None).putenv))

        def write(n):
            profile = d.write_heap([heap(stack(self.setenv, caller), n, 8 * n)], 1)
            return profile.samples[0].frames, mapping(profile, 'libc')

        def expected(conf):
            frames = leaf(self.setenv, conf)[0] + leaf(caller, conf)[0]
            return [(f.function, f.file, f.line, f.address) for f in frames]

        for n, conf in enumerate('functions functions none functions lines lines functions'.split(), 1):
            d.call('set', ('symbolize=' + conf).encode())
            frames, libc = write(n)
            self.assertEqual([(f.function, f.file, f.line, f.address) for f in frames], expected('symbolize=' + conf))
            self.assertEqual(libc.has_functions, conf != 'none')
        pid = os.fork()
        if not pid:
            try:
                write(n)  # the baseline of a child
                frames = write(n + 1)[0]
                os._exit([f.function for f in frames] != [f[0] for f in expected('symbolize=functions')])
            except BaseException:
                os._exit(2)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_elf_addresses(self):
        check = deltas.check_profile.check
        deltas.check_profile.check = lambda path, **how: check(path, elf_addresses=True, **how)
        try:
            frames, profile = leaf(self.setenv, 'address=elf')
        finally:
            deltas.check_profile.check = check
        bias = load_bias('/libc')
        self.assertEqual(frames[0].address, self.setenv - 1 - bias)
        libc = mapping(profile, 'libc')
        self.assertTrue(libc.memory_start <= frames[0].address < libc.memory_limit)
        self.assertEqual(libc.memory_start, libc.file_offset)

    def test_a_program_that_was_deleted_is_named_all_the_same(self):
        with tempfile.TemporaryDirectory() as top:
            program = os.path.join(top, 'program')
            shutil.copy(os.path.realpath(sys.executable), program)
            code = '''
os.unlink(%r)
frames, profile = leaf(call_in(address_of(ctypes.pythonapi.PyList_Append)))
assert frames[0].function and frames[0].function.startswith('PyList_'), frames
assert profile.message.string_table[profile.message.mapping[0].filename] == %r
''' % (program, program)
            env = dict(os.environ, PYTHONPATH=os.environ['PYTHONPATH'] + ':' + os.path.dirname(__file__),
                       PYTHONHOME=sys.prefix)
            code = ('import deltas; deltas.check_profile.check = lambda *a, **k: None\n'
                    'import test_names as t\nfrom test_names import *\n') + code
            done = subprocess.run([program, '-c', code], env=env, text=True, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_without_modules_there_is_one_line_each_and_a_valid_profile(self):
        with tempfile.TemporaryDirectory() as top:
            bare = os.path.join(top, 'libdeltaprof.so')
            with open(os.environ['LIBDELTAPROF'], 'rb') as core, open(bare, 'wb') as copy:  # nor any that are installed
                installed = re.compile(rb'(?<=\0)/[^\0]+(?=/deltaprof\0)')
                copy.write(installed.sub(lambda dir: dir[0].replace(b'/', b'x'), core.read()))
            said = run('''
for again in range(3):
    frames, profile = leaf(call_in(address_of(ctypes.CDLL(None).setenv)))
    assert re.fullmatch(r'libc[^/]*\\+0x[0-9a-f]+', frames[0].function), frames
    assert not mapping(profile, 'libc').has_functions
''', LIBDELTAPROF=bare)
            self.assertEqual(len(said.splitlines()), 2, said)
            self.assertIn('module symbolize', said)
            self.assertIn('module gzip', said)

    @unittest.skipUnless(shutil.which('cc'), 'builds two libraries')
    def test_another_library_at_the_address_of_a_closed_one_has_its_own_names(self):
        dlclose = ctypes.CDLL(None).dlclose
        dlclose.argtypes = [ctypes.c_void_p]
        with tempfile.TemporaryDirectory() as top:
            delta, seen = Delta(HEAP), {}
            self.addCleanup(delta.close)
            for name in ('first', 'other'):
                path = os.path.join(top, name + '.so')
                subprocess.run(['cc', '-shared', '-fPIC', '-O0', '-Wl,--build-id', '-x', 'c', '-o', path, '-'],
                               check=True, text=True,
                               input='static int f(int x) { return x; } int %s(int x) { return f(x) + 1; }' % name)
            for turn, name in enumerate(('first', 'other', 'first', 'other')):
                library = ctypes.CDLL(os.path.join(top, name + '.so'))
                value = call_in(address_of(getattr(library, name)))
                for again in range(2):
                    profile = delta.write_heap([heap(stack(value), 2 * turn + again + 1, 8)], 1)
                    self.assertEqual(profile.samples[0].frames[0].function, name)
                    self.assertIn(name, profile.samples[0].frames[0].mapping)
                seen.setdefault(value, set()).add(name)
                dlclose(library._handle)
            if {'first', 'other'} not in seen.values():
                self.skipTest('the loader chose other addresses')

    def test_a_child_of_a_threaded_process_loads_nothing_and_names_nothing(self):
        code = '''
import threading
gate = threading.Event()
threading.Thread(target=gate.wait).start()
%s
value = call_in(address_of(ctypes.CDLL(None).setenv))
pid = os.fork()
if not pid:
    frames, profile = leaf(value)
    loaded = 'symbolize.so' in open('/proc/self/maps').read()
    os._exit(0 if (frames[0].function == 'setenv') == loaded == %s else 1)
assert os.waitpid(pid, 0)[1] == 0
gate.set()
'''
        run(code % ('Delta(HEAP)', False))
        run(code % ('leaf(call_in(address_of(ctypes.CDLL(None).setenv)))', True))

    def test_lines(self):
        with tempfile.TemporaryDirectory() as top:
            source = os.path.join(top, 'plugin.c')
            with open(source, 'w') as f:
                f.write('int getpid(void);\n'
                        'static inline __attribute__((always_inline)) int inner(void)\n{\n    return getpid() + 1;\n}\n'
                        'int outer(void)\n{\n    return inner() + 2;\n}\n')
            plugin = os.path.join(top, 'plugin.so')
            compiler = shutil.which('cc') or self.skipTest('no compiler')
            subprocess.run([compiler, '-shared', '-fPIC', '-g', '-O1', '-o', plugin, source], check=True)
            frames, profile = leaf(call_in(address_of(ctypes.CDLL(plugin).outer)), 'symbolize=lines')
            self.assertEqual([(f.function, os.path.basename(f.file), f.line) for f in frames],
                             [('inner', 'plugin.c', 4), ('outer', 'plugin.c', 8)])
            m = mapping(profile, 'plugin')
            self.assertTrue(m.has_functions and m.has_filenames and m.has_line_numbers and m.has_inline_frames)


if __name__ == '__main__':
    unittest.main()
