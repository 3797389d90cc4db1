# SPDX-License-Identifier: MIT
"""README, man page and --help tell of the same verbs and the same keys, and every file that README names is there.

    check_docs.py SOURCE-ROOT DELTAPROF MAN-PAGE
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

TOP, DELTAPROF, MAN = sys.argv[1:]
MAN3 = os.path.join(TOP, 'src/man/deltaprof.3')
MAN7 = os.path.join(TOP, 'src/man/deltaprof.7')


def run(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def keys():
    """[(key, type, default, help)] as `deltaprof run --help` prints the table."""
    return re.findall(r'^  (\w+)=(\S+) \(default (.*)\)\n +(.*)$', run(DELTAPROF, 'run', '--help'), re.M)


def verbs():
    return re.findall(r'^  deltaprof ([a-z]+) ', run(DELTAPROF, '--help'), re.M)


class Docs(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        with open(os.path.join(TOP, 'README.md')) as f:
            self.readme = f.read()

    def test_the_keys_that_readme_names_are_told_as_the_program_tells_them(self):
        rows = re.findall(r'^\| `(\w+)` \| (.*?) \| (.*) \|$', self.readme, re.M)
        known = [(key, default, text.replace('|', '\\|')) for key, _, default, text in keys()]
        self.assertGreaterEqual(len(rows), 6)
        for row in rows:
            self.assertIn(row, known)

    def test_readme_is_short(self):
        self.assertLessEqual(len(self.readme.encode()), 10000)

    def test_the_man_page_has_every_key_and_every_verb(self):
        with open(MAN) as f:
            man = f.read().replace('\\-', '-').replace('\\e', '\\')
        for key, kind, default, text in keys():
            self.assertIn(f'\\fB{key}\\fR={kind} (default {default})\n{text}\n', man)
        for verb in verbs():
            self.assertIn(f'\n.SS {verb}\n', man)

    @unittest.skipUnless(shutil.which('man'), 'man is not installed')
    def test_the_man_pages_render_without_a_warning(self):
        for page in (MAN, MAN3, MAN7):
            done = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', page], text=True, capture_output=True,
                                  env={**os.environ, 'MANWIDTH': '100', 'LC_ALL': 'C.UTF-8'})
            self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_the_second_man_page_has_every_function_but_those_for_hooks(self):
        with open(MAN3) as f:
            page = f.read()
        for header in ('deltaprof', 'records', 'http'):
            with open(os.path.join(TOP, f'include/deltaprof/{header}.h')) as f:
                declared = re.findall(r'^DELTAPROF_API [^;(]*?(\w+)\(', f.read(), re.M)
            self.assertTrue(declared)
            for name in declared:
                if not name.endswith('_records_uncommitted'):
                    self.assertIn(f'{name}(', page)
        self.assertIn(f'"{run(DELTAPROF, "--version").splitlines()[0]}"', page.split('\n')[1])

    def test_the_guides_name_files_functions_and_frames_that_exist(self):
        with open(MAN7) as f:
            page = f.read()
        with open(os.path.join(TOP, 'src/host/meson.build')) as f:  # its first comment is a tour of the source
            tour = '\n'.join(line for line in f.read().split('\n') if line.startswith('#'))
        paths = re.findall(r'(?<![\w/.])((?:examples|include|src|runtime_hooks)/[\w./]*\w)', page + tour)
        self.assertGreater(len(paths), 20)
        for path in paths:
            self.assertTrue(os.path.exists(os.path.join(TOP, path)), path)
        hooks = ''
        for header in ('thread', 'heap', 'locks', 'frames', 'interpose'):
            with open(os.path.join(TOP, f'include/deltaprof/{header}.h')) as f:
                hooks += f.read()
        for name in re.findall(r'\bdeltaprof_(?:frames|function|sample)_\w+', page):
            self.assertIn(name + '(', hooks)
        with open(os.path.join(TOP, 'src/host/objects/frames.c')) as f:
            frames = f.read()
        for name in re.findall(r'^\.B A frame (.*)$', page, re.M):
            self.assertIn(f'"{name}"', frames)
        self.assertIn(f'"{run(DELTAPROF, "--version").splitlines()[0]}"', page.split('\n')[1])

    @unittest.skipUnless(shutil.which('cc'), 'no compiler is named cc')
    def test_the_code_in_the_guide_compiles(self):
        with open(MAN7) as f:
            code = re.search(r'^\.nf\n(#include .*?)^\.fi$', f.read(), re.M | re.S).group(1)
        done = subprocess.run(['cc', '-std=gnu11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-x', 'c', '-I',
                               os.path.join(TOP, 'include'), '-'], input=code, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_readme_tells_of_every_verb_and_of_files_that_are_there(self):
        for verb in verbs():
            self.assertIn('deltaprof ' + verb, self.readme)
        for path in re.findall(r'(?<![\w/])((?:examples|tests|include|src|runtime_hooks)/[\w./-]+\w)', self.readme):
            self.assertTrue(os.path.exists(os.path.join(TOP, path)), path)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
