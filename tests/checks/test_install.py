# SPDX-License-Identifier: MIT
"""What `meson install` puts into a directory works from there: run, the libraries by pkg-config, the man page.

    test_install.py SOURCE-ROOT BUILD-ROOT PREFIX LIBDIR CC...
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP, BUILD, PREFIX, LIBDIR, *CC = sys.argv[1:]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(('LD_', 'DELTAPROF_'))}
SERVER = '''
#include <deltaprof/deltaprof.h>
#include <stdio.h>
int main(void) { puts(deltaprof_version()); return 0; }
'''


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()
        subprocess.run(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet', '--destdir', cls.dir], check=True,
                       env=CLEAN, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=100)
        cls.root = cls.dir + PREFIX
        cls.lib = os.path.join(cls.root, LIBDIR)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def out(self, *command, **env):
        done = subprocess.run(command, text=True, capture_output=True, env={**CLEAN, **env}, cwd=self.dir, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_what_is_there(self):
        have = {os.path.relpath(os.path.join(d, f), self.root) for d, _, names in os.walk(self.root) for f in names}
        for name in ('bin/deltaprof', 'share/man/man1/deltaprof.1', 'share/man/man3/deltaprof.3',
                     'share/man/man7/deltaprof.7', *(f'include/deltaprof/{f}' for f in os.listdir(TOP + '/include/deltaprof')),
                     *(f'{LIBDIR}/{f}' for f in (
                         'libdeltaprof.so', 'libdeltaprof.so.0', 'libdeltaprof.a', 'libdeltaprof_preload.so',
                         'libdeltaprof_preload.so.0', 'libdeltaprof_preload.a', 'deltaprof/gzip.so',
                         'libdeltaprof_python.so.0', 'libdeltaprof_wrap.a', 'libdeltaprof_wrap_cxx.a', 'libdeltaprof_modules.a',
                         'pkgconfig/deltaprof.pc', 'pkgconfig/deltaprof-preload.pc', 'pkgconfig/deltaprof-static.pc',
                         'pkgconfig/deltaprof-static-cxx.pc'))):
            self.assertIn(name, have)

    def test_no_file_tells_where_it_was_built(self):
        for directory, _, names in os.walk(self.root):
            for path in (os.path.join(directory, name) for name in names):
                if not os.path.islink(path):
                    with open(path, 'rb') as f:
                        content = f.read()
                    # Bytecode for link-time optimization has the compiler's options; packagers strip it.
                    self.assertFalse(TOP.encode() in content and b'.gnu.lto_' not in content, path)

    def test_python_finds_the_library_from_the_module(self):
        modules = [d for d, _, names in os.walk(self.root + '/lib') if 'deltaprof.py' in names]
        self.assertEqual(len(modules), 1)
        version = self.out('/usr/bin/python3', '-c', 'import deltaprof; print(deltaprof.version)', PYTHONPATH=modules[0])
        self.assertRegex(version, r'^\d+\.\d+\.\d+$')

    @unittest.skipUnless(shutil.which('lua5.4'), 'Lua is not installed')
    def test_lua_finds_the_module_and_the_module_its_library(self):
        if not os.path.exists(self.root + '/lib/lua/5.4/deltaprof.so'):
            self.skipTest('built without the headers of Lua')
        version = self.out('lua5.4', '-e', 'print(require("deltaprof").version)', LUA_CPATH=self.root + '/lib/lua/5.4/?.so')
        self.assertRegex(version, r'^\d+\.\d+\.\d+$')

    def test_run_finds_its_library_where_it_was_moved_to(self):
        maps = self.out(self.root + '/bin/deltaprof', 'run', '-o', 'out=none', 'cat', '/proc/self/maps')
        self.assertIn(self.lib + '/libdeltaprof_preload.so', maps)
        self.assertIn(self.lib + '/libdeltaprof.so', maps)

    def test_run_needs_no_file_of_the_package_for_development(self):
        with tempfile.TemporaryDirectory() as parent:
            root = parent + '/runtime'
            left_out = shutil.ignore_patterns('include', '*.a', 'lib*.so', 'pkgconfig')
            shutil.copytree(self.root, root, symlinks=True, ignore=left_out)
            lib = os.path.join(root, LIBDIR)
            self.assertFalse(os.path.exists(lib + '/libdeltaprof_preload.so'))
            maps = self.out(root + '/bin/deltaprof', 'run', '-o', 'out=none', 'cat', '/proc/self/maps')
            self.assertIn(lib + '/libdeltaprof_preload.so.0', maps)
            self.assertIn(lib + '/libdeltaprof.so.0', maps)

    def flags(self, package):
        define = [f'--define-variable=prefix={self.root}']
        return self.out('pkg-config', *define, '--cflags', '--libs', package,
                        PKG_CONFIG_PATH=self.lib + '/pkgconfig').split()

    def link(self, package):
        with open(self.dir + '/server.c', 'w') as f:
            f.write(SERVER)
        self.out(*CC, '-o', self.dir + '/server', self.dir + '/server.c', '-Wl,--as-needed', *self.flags(package))
        version = self.out(self.dir + '/server', LD_LIBRARY_PATH=self.lib).strip()
        self.assertRegex(version, r'^\d+\.\d+\.\d+$')
        return set(re.findall(r'NEEDED.*\[(.*)\]', self.out('readelf', '-dW', self.dir + '/server')))

    @unittest.skipUnless(shutil.which('pkg-config'), 'pkg-config is not installed')
    def test_a_runtime_links_the_core_alone(self):
        needed = self.link('deltaprof')
        self.assertIn('libdeltaprof.so.0', needed)
        self.assertNotIn('libdeltaprof_preload.so.0', needed)

    @unittest.skipUnless(shutil.which('pkg-config'), 'pkg-config is not installed')
    def test_a_server_keeps_the_interposers_that_it_does_not_name(self):
        self.assertLessEqual({'libdeltaprof.so.0', 'libdeltaprof_preload.so.0'}, self.link('deltaprof-preload'))

    def test_static_libraries_work_in_a_program_of_their_own(self):
        """The interposers and the core inside the executable, nothing of ours beside it but the modules."""
        program = self.dir + '/inside'
        self.out(*CC, '-o', program, TOP + '/examples/server.c', '-I', self.root + '/include',
                 self.lib + '/libdeltaprof_preload.a', self.lib + '/libdeltaprof.a', '-lpthread', '-ldl', '-lm')
        self.assertIn('wrote profile.1.pb.gz', self.out(program, 'profile'))
        with open(self.dir + '/profile.1.pb.gz', 'rb') as f:
            self.assertEqual(f.read(2), b'\x1f\x8b')
        top = self.out(self.root + '/bin/deltaprof', 'top', '--type', 'alloc_objects', self.dir + '/profile.1.pb.gz')
        self.assertIn('inside', top)

    @unittest.skipUnless(shutil.which('pkg-config'), 'pkg-config is not installed')
    def test_a_static_server_profiles_its_own_malloc(self):
        program = self.dir + '/fixed'
        done = subprocess.run([*CC, '-static', '-o', program, TOP + '/examples/server.c', *self.flags('deltaprof-static')],
                              text=True, capture_output=True, env=CLEAN, cwd=self.dir, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ''))  # no warning of the linker's either
        self.assertIn('wrote profile.1.pb.gz', self.out(program, 'profile'))
        top = self.out(self.root + '/bin/deltaprof', 'top', '--type', 'alloc_objects', self.dir + '/profile.1.pb.gz')
        self.assertIn('main', top)

    @unittest.skipUnless(shutil.which('pkg-config'), 'pkg-config is not installed')
    def test_each_name_that_a_static_program_wraps_has_its_hook(self):
        for package, library in (('deltaprof-static', 'wrap'), ('deltaprof-static-cxx', 'wrap_cxx')):
            with open(f'{self.lib}/pkgconfig/{package}.pc') as f:
                names = re.findall(r'--wrap=(\w+)', f.read())
            hooks = re.findall(r' T __wrap_(\w+)', self.out('nm', f'{self.lib}/libdeltaprof_{library}.a'))
            self.assertEqual(sorted(hooks), sorted(names))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
