# SPDX-License-Identifier: MIT
"""`deltaprof diff` and `merge` on random profiles. DP_CASES: the number of cases of each test; DP_SEED: the first seed.

    test_diff.py DELTAPROF
"""
import functools
import gzip
import os
import random
import subprocess
import sys
import tempfile
import unittest

from random_profile import FLOWS, Model, Series, meaning, parse, types

DELTAPROF = sys.argv.pop(1)
HERE = os.path.dirname(os.path.abspath(__file__))
CASES, SEED = int(os.environ.get('DP_CASES', 25)), int(os.environ.get('DP_SEED', 1))


def minus(new, old, kinds, negative='keep'):
    """new minus old on the flows, by the definition."""
    out = {}
    for row in {**new, **old}:
        a, b = old.get(row, [0] * len(kinds)), new.get(row, [0] * len(kinds))
        values = [y - x if t in FLOWS else y for (t, _), x, y in zip(kinds, a, b)]
        if min(values) < 0 and negative == 'drop':
            continue
        if negative != 'keep':
            values = [max(v, 0) for v in values]
        if any(values):
            out[row] = values
    return out


def each_seed(test):
    @functools.wraps(test)
    def run(self):
        for seed in range(SEED, SEED + CASES):
            with self.subTest(seed=seed):
                test(self, random.Random(seed))
    return run


class Diff(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def file(self, name, data=None):
        path = os.path.join(self.dir.name, name)
        if data is None:
            with open(path, 'rb') as f:
                return f.read()
        with open(path, 'wb') as f:
            f.write(data)
        return path

    def run_it(self, *arguments, status=0):
        done = subprocess.run([DELTAPROF, *arguments], capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    @each_seed
    def test_diff_of_two_encodings_of_a_profile_has_no_flow(self, rng):
        a = Model(rng)
        old = self.file('old', a.write(rng, time_ns=5))
        new = self.file('new', a.write(rng, time_ns=9, slide=True))
        data = self.run_it('diff', old, new)
        expected = {row: [0 if t in FLOWS else v for (t, _), v in zip(a.types, values)]
                    for row, values in meaning(self.file('new')).items()}
        self.assertEqual(meaning(data), {row: v for row, v in expected.items() if any(v)})

    @each_seed
    def test_diff_is_the_difference_by_its_definition(self, rng):
        a = Model(rng)
        b = a.later(rng) if rng.random() < .7 else Model(rng, types=a.types)
        old, new = a.write(rng, time_ns=100), b.write(rng, time_ns=250)
        negative = rng.choice(['keep', 'clamp', 'drop'])
        data = self.run_it('diff', '--negative', negative, self.file('old', old), self.file('new', new))
        self.assertEqual(meaning(data), minus(meaning(new), meaning(old), a.types, negative))
        p = parse(data)
        self.assertEqual((p.time_nanos, p.duration_nanos, p.period), (100, 150, 524288))
        self.assertEqual(types(data), a.types)

    @each_seed
    def test_ids_in_the_output_are_dense_and_all_of_them_are_used(self, rng):
        a = Model(rng)
        old, new = self.file('old', a.write(rng, time_ns=1)), self.file('new', a.later(rng).write(rng, time_ns=2))
        p = parse(self.run_it('diff', old, new))
        used = {i for sample in p.sample for i in sample.location_id}
        self.assertEqual([l.id for l in p.location], list(range(1, len(p.location) + 1)))
        self.assertEqual(used, {l.id for l in p.location})
        self.assertEqual([f.id for f in p.function], list(range(1, len(p.function) + 1)))
        self.assertEqual({line.function_id for l in p.location for line in l.line}, {f.id for f in p.function})
        self.assertEqual([m.id for m in p.mapping], list(range(1, len(p.mapping) + 1)))
        main = parse(self.file('new')).mapping[:1]
        self.assertEqual([(m.memory_start, m.memory_limit) for m in p.mapping[:1]],
                         [(m.memory_start, m.memory_limit) for m in main])
        self.assertLessEqual({l.mapping_id for l in p.location} - {0}, {m.id for m in p.mapping})
        strings = {0} | {i for t in [*p.sample_type, p.period_type] for i in (t.type, t.unit)}
        strings |= {i for f in p.function for i in (f.name, f.system_name, f.filename)}
        strings |= {i for m in p.mapping for i in (m.filename, m.build_id)}
        strings |= {i for sample in p.sample for l in sample.label for i in (l.key, l.str, l.num_unit)}
        self.assertEqual(strings, set(range(len(p.string_table))))
        self.assertEqual(len(set(p.string_table)), len(p.string_table))
        self.assertEqual(p.string_table[0], '')

    @each_seed
    def test_a_stream_is_the_diffs_of_its_pairs(self, rng):
        models = [Model(rng)]
        for _ in range(rng.randrange(1, 5)):
            models.append(models[-1].later(rng) if rng.random() < .8 else Model(rng, types=models[0].types))
        data = [m.write(rng, time_ns=10 + 7 * i, slide=True) for i, m in enumerate(models)]
        paths = [self.file('%d.pb.gz' % i, d) for i, d in enumerate(data)]
        out = os.path.join(self.dir.name, 'out')
        self.run_it('diff', '--stream', '-o', out, '--first=full', '--negative=keep', *paths)
        self.assertEqual(meaning(self.file('out/0.delta.pb.gz')), meaning(data[0]))
        for i in range(1, len(data)):
            self.assertEqual(meaning(self.file('out/%d.delta.pb.gz' % i)),
                             minus(meaning(data[i]), meaning(data[i - 1]), models[0].types))

    @each_seed
    def test_a_stream_of_profiles_with_repeated_samples(self, rng):
        series = Series(rng)
        data = [series.write()] + [series.step() for _ in range(12)]
        paths = [self.file('%02d.pb' % i, d) for i, d in enumerate(data)]
        out = os.path.join(self.dir.name, 'out')
        self.run_it('diff', '--stream', '-o', out, '--negative=keep', *paths)
        for i in range(1, len(data)):
            self.assertEqual(meaning(self.file('out/%02d.delta.pb.gz' % i)), minus(meaning(data[i]), meaning(data[i - 1]), Series.TYPES))

    @each_seed
    def test_flows_of_old_merged_with_the_difference_are_those_of_new(self, rng):
        a = Model(rng)
        old, new = a.write(rng, time_ns=100), a.later(rng).write(rng, time_ns=250)
        delta = self.run_it('diff', self.file('p.1.0001.heap.pb.gz', old), self.file('new', new))
        self.file('p.1.0002.heap.pb.gz', delta)
        paths = [os.path.join(self.dir.name, 'p.1.%04d.heap.pb.gz' % i) for i in (1, 2)]
        rng.shuffle(paths)
        self.assertEqual(meaning(self.run_it('merge', *paths)), meaning(new))

    @each_seed
    def test_rows_that_differ_by_an_ignored_label_are_one(self, rng):
        a = Model(rng)
        old, new = a.write(rng, time_ns=100), a.later(rng).write(rng, time_ns=250)
        data = self.run_it('diff', '--ignore-label=bytes', '--ignore-label=k', self.file('old', old),
                           self.file('new', new))
        ignore = ('bytes', 'k')
        self.assertEqual(meaning(data), minus(meaning(new, ignore), meaning(old, ignore), a.types))

    @each_seed
    def test_other_types_can_be_flows(self, rng):
        a = Model(rng)
        old, new = a.write(rng, time_ns=100), a.later(rng).write(rng, time_ns=250)
        flow = rng.choice(a.types)[0]
        data = self.run_it('diff', '--flows', flow, '--negative=keep', self.file('old', old), self.file('new', new))
        expected, before = meaning(new), meaning(old)
        for row in {**expected, **before}:
            now, was = expected.get(row, [0] * len(a.types)), before.get(row, [0] * len(a.types))
            expected[row] = [y - x if t == flow else y for (t, _), x, y in zip(a.types, was, now)]
        self.assertEqual(meaning(data), {row: v for row, v in expected.items() if any(v)})

    def test_unknown_fields_are_kept_with_their_message(self):
        rng = random.Random(SEED)
        a = Model(rng, n_rows=20)
        old, new = a.write(rng, time_ns=1), a.later(rng).write(rng, time_ns=2, unknown=True)
        data = gzip.decompress(self.run_it('diff', self.file('old', old), self.file('new', new)))
        self.assertEqual(data.count(b'\xa0\x06\x4e'), 1)
        self.assertGreater(data.count(b'\xa0\x06\x4d'), 10)

    def test_profiles_of_other_allocators(self):
        """Profiles of jemalloc (python3, prof_accum) and gperftools (perl), written by go tool pprof -proto: no names, no
        build ids."""
        for name in 'jemalloc', 'gperftools':
            paths = [os.path.join(HERE, 'producers', '%s.%d.pb.gz' % (name, i)) for i in (1, 2)]
            old, new = ({row: values for row, values in meaning(self.file(path)).items()} for path in paths)
            self.assertGreater(len(set(old) & set(new)), 50)
            for negative in 'keep', 'clamp', 'drop':
                data = self.run_it('diff', '--negative', negative, *paths)
                self.assertEqual(meaning(data), minus(new, old, types(self.file(paths[0])), negative))
            self.assertLess(len(data), os.path.getsize(paths[1]))

    def test_a_directory_is_refused_with_an_advice(self):
        for arguments in ([self.dir.name, self.dir.name], ['--stream', '-o', os.path.join(self.dir.name, 'out'), self.dir.name]):
            done = subprocess.run([DELTAPROF, 'diff', *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn('deltaprof growth takes directories', done.stderr)

    def test_a_long_stream_forgets_rows_that_are_gone(self):
        rng = random.Random(SEED)
        paths, last = [], None
        for i in range(30):
            model = Model(rng, types=[('contentions', 'count'), ('delay', 'nanoseconds')], n_rows=1500)
            last = [model] + (last or [])[:1]
            paths.append(self.file('%02d.pb.gz' % i, model.write(rng, time_ns=1 + i)))
        out = os.path.join(self.dir.name, 'out')
        self.run_it('diff', '--stream', '-o', out, '--negative=keep', *paths)
        for i in (1, 15, 29):
            new, old = (self.file('%02d.pb.gz' % j) for j in (i, i - 1))
            self.assertEqual(meaning(self.file('out/%02d.delta.pb.gz' % i)), minus(meaning(new), meaning(old), types(new)))


if __name__ == '__main__':
    unittest.main()
