# SPDX-License-Identifier: MIT
"""Compares `deltaprof diff` with google/pprof's own Merge, on random profiles and on those of a Go program.

    test_golden.py DELTAPROF OURS BUILD-DIRECTORY
"""
import os
import random
import shutil
import subprocess
import sys
import unittest

from random_profile import FLOWS, Model, meaning, parse, types

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD, OURS, DELTAPROF = sys.argv.pop(), sys.argv.pop(), sys.argv.pop()
CASES, SEED = int(os.environ.get('DP_CASES', 20)), int(os.environ.get('DP_SEED', 1))
DIR = os.path.join(BUILD, 'golden')
GO = next((go for go in ('/usr/lib/go/bin/go', '/usr/local/go/bin/go', shutil.which('go') or '') if os.path.exists(go)), None)
ENV = dict(os.environ, GOPATH='/usr/share/gocode', GO111MODULE='off', GOFLAGS='', GOCACHE=os.path.join(DIR, 'cache'))


def go_build(name):
    """The program's path; None: Debian's golang-github-google-pprof-dev or go itself is not there."""
    path = os.path.join(DIR, name)
    source = os.path.join(HERE, name + '.go')
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        done = subprocess.run([GO, 'build', '-o', path, source], env=ENV, capture_output=True, text=True, timeout=280)
        if 'cannot find package' in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
    return path


def path(name):
    return os.path.join(DIR, name)


def content(name):
    with open(path(name), 'rb') as f:
        return f.read()


class Golden(unittest.TestCase):
    maxDiff = 2000

    def compare(self, old, new, flows):
        subprocess.run([MERGE, path(old), path(new), path('golden.pb.gz'), *flows], check=True, timeout=60)
        subprocess.run([DELTAPROF, 'diff', '--negative=keep', path(old), path(new), '-o', path('ours.pb.gz')], check=True,
                       timeout=60)
        self.assertEqual(types(content('ours.pb.gz')), types(content('golden.pb.gz')))
        self.assertEqual(meaning(content('ours.pb.gz')), meaning(content('golden.pb.gz')))

    def test_random_pairs(self):
        for seed in range(SEED, SEED + CASES):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                a = Model(rng)
                b = a.later(rng) if rng.random() < .8 else Model(rng, types=a.types)
                for name, model, time_ns in ('old', a, 5), ('new', b, 9):
                    with open(path(name), 'wb') as f:
                        f.write(model.write(rng, time_ns=time_ns, plain=True))
                self.compare('old', 'new', sorted(FLOWS & {t for t, _ in a.types}))

    def test_pairs_of_a_go_program(self):
        subprocess.run([WORK, DIR, '3'], check=True, timeout=60)
        for kind in 'heap', 'mutex', 'block':
            for old, new in (1, 2), (2, 3), (1, 3):
                with self.subTest(kind=kind, old=old, new=new):
                    flows = sorted(FLOWS & {t for t, _ in types(content('%s.1.pb.gz' % kind))})
                    self.compare('%s.%d.pb.gz' % (kind, old), '%s.%d.pb.gz' % (kind, new), flows)

    def test_pairs_of_other_allocators(self):
        for name in 'jemalloc', 'gperftools':
            for i in 1, 2:
                shutil.copy(os.path.join(HERE, 'producers', '%s.%d.pb.gz' % (name, i)), DIR)
            self.compare(name + '.1.pb.gz', name + '.2.pb.gz', ['alloc_objects', 'alloc_space'])

    def test_a_pair_of_deltaprofs_own_profiles(self):
        """Three ways give one delta: raw records, `deltaprof diff` of two files, google/pprof's Merge of the same files."""
        conf = 'heap_rate=1,out=none,interval=0'
        subprocess.run([DELTAPROF, 'run', '-o', conf, '--', OURS, DIR], check=True, timeout=60)
        self.compare('all.1.pb.gz', 'all.2.pb.gz', sorted(FLOWS))
        ours, raw = meaning(content('ours.pb.gz')), meaning(content('delta.2.pb.gz'))
        self.assertGreater(len(raw), 20)
        self.assertEqual(ours, raw)

    def test_a_go_diff_without_negatives_is_smaller_and_has_a_window(self):
        subprocess.run([WORK, DIR, '2'], check=True, timeout=60)
        subprocess.run([DELTAPROF, 'diff', path('heap.1.pb.gz'), path('heap.2.pb.gz'), '-o', path('ours.pb.gz')], check=True)
        old, new, delta = (parse(content(name)) for name in ('heap.1.pb.gz', 'heap.2.pb.gz', 'ours.pb.gz'))
        self.assertEqual(delta.time_nanos, old.time_nanos)
        self.assertEqual(delta.duration_nanos, new.time_nanos - old.time_nanos)
        self.assertTrue(all(v >= 0 for sample in delta.sample for v in sample.value))
        self.assertGreater(len(delta.sample), 0)

    def test_go_tool_pprof_reads_the_output(self):
        subprocess.run([WORK, DIR, '2'], check=True, timeout=60)
        subprocess.run([DELTAPROF, 'diff', path('heap.1.pb.gz'), path('heap.2.pb.gz'), '-o', path('ours.pb.gz')], check=True)
        done = subprocess.run([GO, 'tool', 'pprof', '-sample_index=alloc_space', '-top', path('ours.pb.gz')], env=ENV, text=True,
                              capture_output=True, timeout=120, check=True)
        self.assertIn('main.small', done.stdout)


if __name__ == '__main__':
    if not GO:
        print('skipped: go is not installed')
        sys.exit(77)
    os.makedirs(DIR, exist_ok=True)
    MERGE, WORK = go_build('merge'), go_build('work')
    if not MERGE:
        print('skipped: golang-github-google-pprof-dev is not installed')
        sys.exit(77)
    unittest.main()
