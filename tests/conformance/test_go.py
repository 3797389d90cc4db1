# SPDX-License-Identifier: MIT
"""The allocation records of a real runtime: a Go program hands in what runtime.MemProfile gives, and computes the deltas itself."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import reader

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.dirname(os.environ['LIBDELTAPROF'])
INCLUDE = os.path.join(HERE, '../../include')


def build(directory):
    """The program, or None where Go or its C compiler is missing."""
    program = os.path.join(directory, 'program')
    env = {**os.environ, 'CGO_ENABLED': '1', 'GO111MODULE': 'off', 'GOFLAGS': '', 'CGO_CFLAGS': f'-I{INCLUDE}', 'CGO_LDFLAGS': f'-L{LIBRARY}',
           'GOCACHE': os.environ.get('GOCACHE', os.path.join(tempfile.gettempdir(), 'deltaprof-go-cache'))}
    done = subprocess.run(['go', 'build', '-o', program, os.path.join(HERE, 'go/main.go')], env=env, text=True, capture_output=True,
                          cwd=directory)
    assert done.returncode == 0, done.stderr
    return program


class Go(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.program = build(cls.directory.name)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def deltas(self, rate):
        """[(ours, Go's)], each {(addresses, size): values}."""
        out = tempfile.mkdtemp(dir=self.directory.name)
        env = {**os.environ, 'LD_LIBRARY_PATH': LIBRARY, 'DELTAPROF_CONF': 'symbolize=functions'}
        done = subprocess.run([self.program, str(rate), out], env=env, check=True, text=True, capture_output=True)
        expected = {}
        for line in done.stdout.splitlines():
            number, stack, size, *values = line.split()
            key = tuple(int(a, 16) for a in stack.split(',')), int(size)
            expected.setdefault(int(number), {})[key] = tuple(map(int, values))
        result = []
        for number in sorted(expected):
            path = os.path.join(out, f'{number}.pb.gz')
            with open(path, 'rb') as f:
                profile = reader.load(f.read())
            ours = {(tuple(f.address for f in s.frames), dict(s.labels)['bytes']): tuple(s.values.values()) for s in profile.samples}
            result.append((ours, expected[number], profile))
        return result

    def test_every_allocation(self):
        for ours, theirs, profile in self.deltas(1):
            self.assertEqual(ours, theirs)
            self.assertTrue(ours)

    def test_sampled_and_scaled(self):
        for ours, theirs, profile in self.deltas(65536):
            self.assertEqual(ours, theirs)

    def test_functions_of_go_are_named(self):
        names = {name for _, _, profile in self.deltas(1) for s in profile.samples for name in s.names}
        self.assertTrue({'main.small', 'main.large', 'main.temporary', 'main.main'} <= names, names)


if __name__ == '__main__':
    if not shutil.which('go') or not shutil.which('gcc'):
        sys.exit(77)
    unittest.main()
