# SPDX-License-Identifier: MIT
"""Every header compiles alone; the public ones in C and in C++, pedantically."""
import glob
import os
import shutil
import subprocess
import sys
import unittest

TOP, CC = sys.argv[1], sys.argv[2:]
CXX = shutil.which('c++')


class Headers(unittest.TestCase):
    def compiles(self, name, command, *flags):
        # Included twice: a header may stand in any order and any number of times.
        run = subprocess.run([*command, '-fsyntax-only', '-Wall', '-Wextra', '-Werror', *flags, '-I', TOP + '/include', '-'],
                             input=f'#include "{name}"\n#include "{name}"\n', text=True, capture_output=True)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_public_headers(self):
        names = sorted(glob.glob(TOP + '/include/deltaprof/*.h'))
        self.assertTrue(names)
        for name in names:
            with self.subTest(os.path.basename(name)):
                self.compiles(name, CC, '-xc', '-std=gnu11', '-pedantic')
                if CXX:
                    self.compiles(name, [CXX], '-xc++', '-std=c++11', '-pedantic')

    def test_internal_headers(self):
        names = sorted(glob.glob(TOP + '/src/*/*.h') + glob.glob(TOP + '/src/[ht]o*/*/*.h'))
        self.assertTrue(names)
        for name in names:
            with self.subTest(name):
                self.compiles(name, CC, '-xc', '-std=gnu11', '-D_GNU_SOURCE', '-Wno-unused-parameter', '-Wno-unused-function', '-I', TOP + '/src')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
