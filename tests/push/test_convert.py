# SPDX-License-Identifier: MIT
"""`deltaprof convert`: independent readers read its output, and converting back gives the same profile.

    test_convert.py DELTAPROF CORPUS
"""
import collections
import gzip
import json
import os
import random
import subprocess
import sys
import unittest

CORPUS = sys.argv.pop()

import otlp
import profile_pb2
import reader
from by_hand import DELTAPROF, ConvertCase
from random_profile import HEAP, Model, chunk, meaning, number, parse

ROWS = [(['leaf', ('inlined', 'caller'), 'main'], [1, 10, 2, 20], {'lock': 'mutex', 'bytes': 7}),
        (['leaf', 'main'], [3, 30, 0, 0], {}),
        (['leaf', 'main'], [0, 0, 4, 40], {'lock': 'spin'}),
        (['leaf', 'main'], [5, 0, 0, 0], {'trace_id': '0af7651916cd43dd8448eb211c80319c', 'span_id': 'b7ad6b7169203331'}),
        ([0x401234, 'main;x'], [6, 60, 0, 0], {}), ([], [7, 70, 0, 0], {})]


def by_names(path):
    """{(names leaf first, labels): values} of a pprof file, with rows of the same names summed."""
    out = collections.defaultdict(collections.Counter)
    for sample in reader.load(path).samples:
        out[sample.names, sample.labels].update(sample.values)
    return {key: {k: v for k, v in values.items() if v} for key, values in out.items() if any(values.values())}


def without_shared_units(rows):
    """Several values of one key in one row become an array in OTLP, with one unit; with none, if the units differ."""
    out = {}
    for (stack, labels), values in rows.items():
        units = collections.defaultdict(set)
        for label in labels:
            units[label[0]].add(label[3])
        out[stack, tuple(sorted((*label[:3], label[3] if len(units[label[0]]) == 1 else '') for label in labels))] = values
    return out


class Convert(ConvertCase):
    def test_otlp_has_the_sums_of_pprof_by_stack_and_label(self):
        path = self.file('in.pb.gz', ROWS, duration_ns=15 * 10**9, default='inuse_space', comment='lost 3')
        message = otlp.load(self.bytes_of(self.convert(path, 'out.otlp')))
        got = {key: {k: v for k, v in values.items() if v} for key, values in otlp.rows(message).items()}
        self.assertEqual(got, by_names(path))
        found = otlp.profiles(message)
        self.assertEqual([otlp.type_of(message, p) for p in found], HEAP)
        orders = [[(s.stack_index, tuple(s.attribute_indices), s.link_index) for s in p.samples] for p in found]
        self.assertTrue(all(order == orders[0] and len(order) == len(ROWS) for order in orders), 'the same samples, zeros too')
        for p in found:
            self.assertEqual((p.time_unix_nano, p.duration_nano), (10**18, 15 * 10**9))
            self.assertEqual(otlp.attributes(message, p.attribute_indices), {'pprof.profile.comment': ['lost 3']})
        scope = message.resource_profiles[0].scope_profiles[0].scope
        self.assertEqual({a.key: a.value.string_value or [v.int_value for v in a.value.array_value.values] for a in scope.attributes},
                         {'pprof.scope.default_sample_type': 'inuse_space', 'pprof.scope.sample_type_order': [0, 1, 2, 3]})

    def test_pprof_converted_to_otlp_and_back_is_the_same(self):
        rng = random.Random(11)
        for i in range(12):
            with self.subTest(i):
                path = self.file('in.pb.gz', Model(rng).write(rng))
                whole = self.convert(path, 'whole.pb.gz')  # rows with the same meaning become one row
                back = self.convert(self.convert(path, 'out.otlp.gz'), 'back.pb.gz')
                otlp.load(gzip.decompress(self.bytes_of(os.path.join(self.dir.name, 'out.otlp.gz'))))
                self.assertEqual(*(without_shared_units(meaning(self.bytes_of(f))) for f in (back, whole)))
                one, other = reader.load(back), reader.load(whole)
                self.assertEqual((one.types, one.time_ns, one.duration_ns, one.period, one.period_type, one.comments),
                                 (other.types, other.time_ns, other.duration_ns, other.period, other.period_type, other.comments))

    def test_a_line_always_has_a_function(self):
        """pprof refuses a line without one; OTLP has index 0 for a function that says nothing."""
        path = self.file('in.pb.gz', [(['', 'main'], [1, 2, 3, 4]), ([('', 'caller'), 'main'], [1, 2, 3, 4])])
        back = self.convert(self.convert(path, 'out.otlp'), 'back.pb.gz')
        self.assertEqual(by_names(back), by_names(path))
        found = parse(self.bytes_of(back))
        ids = {f.id for f in found.function}
        self.assertEqual({line.function_id for location in found.location for line in location.line} - ids, set())

    def test_events_are_samples_with_timestamps(self):
        rows = [(['leaf%d' % (i % 3), 'main'], [1, i], {'end_timestamp_ns': 10**18 + i * 1000, 'thread id': i % 2 + 1}) for i in range(1, 100)]
        kinds = [('contentions', 'count'), ('delay', 'nanoseconds')]
        path = self.file('in.pb.gz', rows, kinds)
        out = self.convert(path, 'out.otlp')
        message = otlp.load(self.bytes_of(out))
        for p in otlp.profiles(message):
            self.assertEqual((len(p.samples), sum(len(s.timestamps_unix_nano) for s in p.samples)), (6, 99))
        self.assertEqual(otlp.rows(message), by_names(path))
        self.assertEqual(by_names(self.convert(out, 'back.pb.gz')), by_names(path))

    def test_an_event_is_in_the_profiles_of_its_values(self):
        """An allocation has no delay: its zeros are not written, and come back as zeros."""
        rows = [(['f'], [1, 0] if i % 3 else [0, i], {'end_timestamp_ns': 10**18 + i}) for i in range(1, 31)]
        path = self.file('in.pb.gz', rows, [('alloc_objects', 'count'), ('delay', 'nanoseconds')])
        out = self.convert(path, 'out.otlp')
        message = otlp.load(self.bytes_of(out))
        values = [[v for s in p.samples for v in s.values] for p in otlp.profiles(message)]
        self.assertEqual(values, [[1] * 20, list(range(3, 31, 3))])
        self.assertEqual(by_names(self.convert(out, 'back.pb.gz')), by_names(path))

    def test_merge_and_diff_keep_events_apart(self):
        one, two = ([(['f'], [1, 5], {'end_timestamp_ns': t, 'thread id': 3}) for t in times] for times in ([10, 20], [20, 30]))
        kinds = [('contentions', 'count'), ('delay', 'nanoseconds')]
        a, b = self.file('a.pb.gz', one, kinds), self.file('b.pb.gz', two, kinds)
        merged = self.file('m.pb.gz', self.run_it('merge', a, b))
        self.assertEqual({dict(s.labels)['end_timestamp_ns']: s.values['delay'] for s in reader.load(merged).samples}, {10: 5, 20: 10, 30: 5})
        diff = self.file('d.pb.gz', self.run_it('diff', a, b))
        self.assertEqual({dict(s.labels)['end_timestamp_ns']: s.values['delay'] for s in reader.load(diff).samples}, {30: 5})

    def test_many_types_and_equal_types_stay_apart(self):
        for kinds in ([('a%d' % i, 'count') for i in range(100)], [('a', 'count'), ('b', 'bytes'), ('a', 'count')]):
            with self.subTest(len(kinds)):
                rows = [(['f'], list(range(1, len(kinds) + 1)), {}), (['g'], [3] * len(kinds), {})]
                path = self.file('in.pb.gz', rows, kinds)
                back = self.convert(self.convert(path, 'out.otlp'), 'back.pb.gz')
                one, other = (profile_pb2.Profile.FromString(gzip.decompress(self.bytes_of(p))) for p in (path, back))
                self.assertEqual(reader.load(back).types, kinds)
                self.assertEqual(*(sorted(tuple(s.value) for s in p.sample) for p in (one, other)))

    def test_values_of_one_key_keep_the_unit_that_they_share(self):
        p = profile_pb2.Profile(string_table=['', 'a', 'count', 'size', 'bytes', 'pages'], time_nanos=1)
        p.sample_type.add(type=1, unit=2)
        sample = p.sample.add(value=[1])
        for number in 7, 8:
            sample.label.add(key=3, num=number, num_unit=4)
        back = self.convert(self.convert(self.file('in.pb', p.SerializeToString()), 'out.otlp'), 'back.pb.gz')
        q = profile_pb2.Profile.FromString(gzip.decompress(self.bytes_of(back)))
        self.assertEqual([(l.num, q.string_table[l.num_unit]) for l in q.sample[0].label], [(7, 'bytes'), (8, 'bytes')])

    def test_forms_of_other_producers_are_read(self):
        """Timestamps without values, which count one each; another order of samples and types; several values without
        timestamps."""
        import otlp_pb2
        request = otlp_pb2.Request()
        d = request.dictionary
        d.string_table.extend(['', 'cpu', 'samples', 'count', 'nanoseconds', 'f', 'g'])
        for table in d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table:
            table.add()
        for name in 5, 6:
            d.function_table.add(name_strindex=name)
            d.location_table.add().lines.add(function_index=len(d.function_table) - 1)
            d.stack_table.add(location_indices=[len(d.location_table) - 1])
        scope = request.resource_profiles.add().scope_profiles.add()
        d.string_table.extend(['pprof.scope.sample_type_order', 'pprof.scope.default_sample_type'])  # as the collector has keys
        order = scope.scope.attributes.add(key_strindex=7).value.array_value
        scope.scope.attributes.add(key_strindex=8).value.string_value_strindex = 1
        for i in 1, 0:
            order.values.add(int_value=i)
        for kind, unit, stacks in (1, 4, [(1, [7, 3], []), (2, [20], [])]), (2, 3, [(2, [], [5, 6]), (1, [2], [])]):
            p = scope.profiles.add(time_unix_nano=10**18, duration_nano=5)
            p.sample_type.type_strindex, p.sample_type.unit_strindex = kind, unit
            for stack, values, times in stacks:
                p.samples.add(stack_index=stack, values=values, timestamps_unix_nano=times)
        for i, comment in enumerate(('one', 'two')):  # the collector numbers the keys of comments
            d.string_table.append('pprof.profile.comment.%d' % i)
            d.attribute_table.add(key_strindex=len(d.string_table) - 1).value.string_value = comment
        for p in scope.profiles:
            p.attribute_indices.extend([1, 2])
        back = self.convert(self.file('in.otlp', request.SerializeToString()), 'back.pb.gz')
        self.assertEqual(reader.load(back).comments, ['one', 'two'])
        self.assertEqual(reader.load(back).message.string_table[reader.load(back).message.default_sample_type], 'cpu')
        self.assertEqual(reader.load(back).types, [('samples', 'count'), ('cpu', 'nanoseconds')])
        self.assertEqual(by_names(back), {(('f',), ()): {'samples': 2, 'cpu': 10}, (('g',), ()): {'cpu': 20},
                                          (('g',), (('end_timestamp_ns', 5),)): {'samples': 1},
                                          (('g',), (('end_timestamp_ns', 6),)): {'samples': 1}})

    def test_folded_stacks(self):
        path = self.file('in.pb.gz', ROWS)
        out = self.convert(path, 'out.folded', '--type', 'alloc_objects')
        self.assertEqual(sorted(self.bytes_of(out).decode().splitlines()),
                         sorted(['main;caller;inlined;leaf 1', 'main;leaf 8', 'main:x;0x401234 6', '[no stack] 7']))
        back = self.convert(out, 'back.pb.gz')
        self.assertEqual(by_names(back)[('leaf', 'main'), ()], {'samples': 8})
        self.assertEqual(reader.load(back).total('samples'), reader.load(path).total('alloc_objects'))
        self.run_it('convert', path, '--to', 'folded', '--type', 'x', status=2)
        self.assertIn('there are alloc_objects', self.error)
        for name in 'pprof', 'otlp', 'speedscope':
            self.run_it('convert', path, '--to', name, '--type', 'alloc_space', status=2)
            self.assertEqual(self.error, 'deltaprof convert: --type alloc_space: only folded stacks are of one type; %s has all types\n' % name)

    def test_names_that_folded_stacks_cannot_have_are_read_back(self):
        path = self.file('in.pb.gz', [(['leaf', 'esc\x1b[31m\x01', '#pragma'], [1, 1, 1, 1], {}), (['only', '#'], [2, 2, 2, 2], {})])
        back = self.convert(self.convert(path, 'out.folded', '--type', 'alloc_objects'), 'back.pb.gz')
        self.assertEqual(by_names(back), {(('leaf', 'esc [31m ', '#pragma'), ()): {'samples': 1}, (('only', '#'), ()): {'samples': 2}})
        comments = self.convert(self.file('x.folded', b'# a comment 7\n#no number\n#\n#a;b 3\n'), 'x.pb.gz')
        self.assertEqual(by_names(comments), {(('b', '#a'), ()): {'samples': 3}})

    def test_each_format_is_read_gzipped_too(self):
        path = self.file('in.pb.gz', ROWS)
        for name in 'out.folded', 'out.otlp':
            data = self.bytes_of(self.convert(path, name))
            zipped = self.file('zipped', gzip.compress(data))
            self.assertEqual(by_names(self.convert(zipped, 'a.pb.gz')), by_names(self.convert(os.path.join(self.dir.name, name), 'b.pb.gz')))

    def test_a_folded_stack_may_begin_as_json_does(self):
        stack = self.convert(self.file('x.folded', b'{{closure}};[unknown] 3\n'), 'x.pb.gz')
        self.assertEqual(reader.load(stack).total('samples'), 3)

    def test_names_that_are_no_utf8_become_utf8_in_speedscope(self):
        with open(self.file('in.pb.gz', [(['badname', 'größe'], [1, 1, 1, 1], {})]), 'rb') as f:
            data = gzip.decompress(f.read()).replace(b'badname', b'bad\xff\x80me')
        path = self.file('bad.pb', data)
        data = json.loads(self.bytes_of(self.convert(path, 'out.json')).decode())
        self.assertEqual(sorted(f['name'] for f in data['shared']['frames']), ['bad\ufffd\ufffdme', 'größe'])

    def test_speedscope(self):
        path = self.file('in.pb.gz', ROWS + [(['a"\n\\'], [1, 1, 1, 1], {})])
        data = json.loads(self.bytes_of(self.convert(path, 'out.json')))
        self.assertEqual([(p['name'], p['unit'], p['type']) for p in data['profiles']],
                         [('alloc_objects', 'none', 'sampled'), ('alloc_space', 'bytes', 'sampled'),
                          ('inuse_objects', 'none', 'sampled'), ('inuse_space', 'bytes', 'sampled')])
        names = [f['name'] for f in data['shared']['frames']]
        self.assertIn('a"\n\\', names)
        for p in data['profiles']:
            got, want = collections.Counter(), collections.Counter()
            self.assertEqual((len(p['samples']), p['endValue'] - p['startValue']), (len(p['weights']), sum(p['weights'])))
            for stack, weight in zip(p['samples'], p['weights']):
                got[tuple(names[i] for i in reversed(stack))] += weight
            for sample in reader.load(path).samples:
                want[sample.names] += sample.values[p['name']]
            self.assertEqual(got, +want)

    def test_broken_input_is_named_in_one_line(self):
        good = self.bytes_of(self.convert(self.file('in.pb.gz', ROWS), 'out.otlp'))
        rng = random.Random(5)
        for i in range(150):
            data = bytearray(good[:rng.randrange(1, len(good))] if i % 2 else good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            self.file('broken.otlp', bytes(data))
            path = os.path.join(self.dir.name, 'broken.otlp')
            done = subprocess.run([DELTAPROF, 'convert', path, '--to', 'pprof'], capture_output=True, timeout=60)
            self.assertIn(done.returncode, (0, 1))
            self.assertRegex(done.stderr, rb'\A(deltaprof convert: [^\n]*\n)?\Z')
            if done.returncode == 0:
                reader.load(done.stdout)
        for text in b'main;f\n', b'main;f x\n', b'\n\nmain 99999999999999999999\n':
            self.run_it('convert', self.file('x.folded', text), '--to', 'otlp', status=1)
            self.assertIn('line ', self.error)
        for name in sorted(os.listdir(CORPUS)):
            done = subprocess.run([DELTAPROF, 'convert', os.path.join(CORPUS, name), '--to', 'otlp'], capture_output=True, timeout=60)
            self.assertIn(done.returncode, (0, 1), name)
            if done.returncode == 0:
                otlp.load(done.stdout)


if __name__ == '__main__':
    unittest.main()
