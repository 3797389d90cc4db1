# SPDX-License-Identifier: MIT
"""The packages of examples/deploy/deb.sh: lintian finds nothing, and they work in clean roots of Debian.

    test_debs.py DEB-DIRECTORY RELEASE...

DEB-DIRECTORY is that of deb.sh. mmdebstrap makes a root for each RELEASE, in which apt installs the packages.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from reader import by_function, files, load, sum_profiles

HERE = os.path.dirname(os.path.abspath(__file__))
DEBS, *RELEASES = sys.argv[1:]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(('LD_', 'DELTAPROF_'))}
EXACT = {'hundred': 100000, 'thousand': 500000}
INSTALLED = 'deltaprof', 'deltaprof-push', 'lua-deltaprof', 'python3-deltaprof'


def run(*command, timeout=600, **how):
    done = subprocess.run(command, text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout, **{'env': CLEAN, **how})
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done


class Packages(unittest.TestCase):
    @unittest.skipUnless(shutil.which('lintian'), 'lintian is not installed')
    def test_lintian_finds_nothing(self):
        changes, = glob.glob(DEBS + '/*.changes')
        self.assertEqual(run('lintian', '--allow-root', '--fail-on', 'none', changes).stdout, '')


class InRelease:
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which('mmdebstrap'):
            raise unittest.SkipTest('not root, or mmdebstrap is not installed')
        cls.dir = tempfile.mkdtemp()
        cls.root = cls.dir + '/root'
        os.chmod(cls.dir, 0o755)  # apt reads the packages as another user
        os.mkdir(cls.dir + '/debs')
        for deb in glob.glob(DEBS + '/*.deb'):
            shutil.copy(deb, cls.dir + '/debs')
        with open(cls.dir + '/debs/Packages', 'w') as f:
            f.write(run('dpkg-scanpackages', '-m', '.', cwd=cls.dir + '/debs').stdout)
        run('mmdebstrap', '--quiet', '--variant=apt', '--include=lua5.4,' + ','.join(INSTALLED), cls.release, cls.root,
            f'deb http://deb.debian.org/debian {cls.release} main', f'deb [trusted=yes] copy:{cls.dir}/debs ./')
        run('gcc', '-g', '-O1', '-fno-optimize-sibling-calls', '-o', cls.root + '/victim', HERE + '/victim.c', '-lpthread')

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def out(self, *command):
        script = 'mount -t proc proc "$1/proc" && exec chroot "$@"'
        done = run('unshare', '--mount', 'sh', '-c', script, 'sh', self.root, *command, env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'}, timeout=60)
        self.assertEqual(done.stderr, '')
        return done.stdout

    def test_run_profiles_and_top_names(self):
        self.out('deltaprof', 'run', '-o', 'heap_rate=1,out=/tmp/out', '--', '/victim')
        by_process = {}
        for profile in map(load, files(self.root + '/tmp/out', kind='heap')):
            by_process.setdefault(profile.pid, []).append(profile)
        sums = [by_function(sum_profiles(profiles), 'alloc_space', set(EXACT)) for profiles in by_process.values()]
        self.assertIn(EXACT, sums)
        self.assertIn('thousand', self.out('deltaprof', 'top', '--type', 'alloc_space', '/tmp/out'))

    def test_modules_of_languages_find_their_library(self):
        self.assertRegex(self.out('python3', '-c', 'import deltaprof; print(deltaprof.version)'), r'^\d+\.\d+\.\d+$')
        self.assertRegex(self.out('lua5.4', '-e', 'print(require("deltaprof").version)'), r'^\d+\.\d+\.\d+$')

    def test_push_is_there(self):
        self.assertIn('usage: deltaprof push', self.out('deltaprof', 'push', '--help'))


for each in RELEASES:
    globals()[each.capitalize()] = type(each.capitalize(), (InRelease, unittest.TestCase), {'release': each})

if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
