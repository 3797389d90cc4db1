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
from by_hand import DELTAPROF, ConvertCase, chain, profile
from random_profile import HEAP, MUTEX, Model, number

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

    def test_functions_inlined_at_a_holder_keep_their_order(self):
        """The holder's stack stands on the waiter's from its unlock on: what was inlined is nearer to the waiter."""
        path = self.file('in.chain.pb.gz', [chain(3, 9, [('inlined', 'serve'), 'main'], [('store', 'slow', 'work'), ('run', 'start')])], MUTEX)
        tower = ['start', 'run', 'work', 'slow', 'store', '[held by]', 'inlined', 'serve', 'main']
        self.check_tower(path, tower)

    def test_a_place_in_both_stacks_of_a_chain_keeps_both_orders(self):
        """The lines of a location with a known address are those of the newest file, unless a holder has it too."""
        data = profile([chain(3, 9, ['get', ('step', 'turn', 'work'), 'start'], ['put', ('step', 'turn', 'work'), 'start'])], MUTEX)
        p = profile_pb2.Profile.FromString(gzip.decompress(data))
        p.mapping[0].build_id = len(p.string_table)
        p.string_table.append('0123456789abcdef')
        for location in p.location:
            location.address = 0x401000 if len(location.line) == 3 else location.address
        path = self.file('in.chain.pb.gz', gzip.compress(p.SerializeToString()))
        self.check_tower(path, ['start', 'work', 'turn', 'step', 'put', '[held by]', 'get', 'step', 'turn', 'work', 'start'])
        waits, = json.loads(self.run_it('waits', '--json', path))['pairs']
        self.assertEqual((waits['waiter'], waits['holder']), (['get', 'step', 'turn', 'work', 'start'], ['put', 'step', 'turn', 'work', 'start']))

    def check_tower(self, path, tower):
        message = otlp.load(self.bytes_of(self.convert(path, 'out.otlp')))
        self.assertEqual(otlp.rows(message), {(tuple(tower), ()): {'contentions': 3, 'delay': 9}})
        self.assertEqual(self.bytes_of(self.convert(path, 'out.folded')).decode(), ';'.join(tower[::-1]) + ' 9\n')
        shown = json.loads(self.bytes_of(self.convert(path, 'out.speedscope.json')))
        self.assertEqual([[shown['shared']['frames'][i]['name'] for i in stack] for p in shown['profiles'] for stack in p['samples']], [tower[::-1]] * 2)

    def test_otlp_has_the_mappings_of_pprof(self):
        n_files = 0
        for seed in range(8):
            rng = random.Random(seed)
            data = Model(rng, n_rows=20).write(rng, time_ns=10**18)
            plain = profile_pb2.Profile.FromString(gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data)
            known = {m.id: (m.memory_start, m.memory_limit, m.file_offset, plain.string_table[m.filename]) for m in plain.mapping}
            used = {l for s in plain.sample for l in s.location_id}
            dictionary = otlp.load(self.bytes_of(self.convert(self.file('in.pb', data), 'out.otlp'))).dictionary
            found = {(m.memory_start, m.memory_limit, m.file_offset, dictionary.string_table[m.filename_strindex])
                     for m in (dictionary.mapping_table[l.mapping_index] for l in dictionary.location_table[1:])}
            self.assertLessEqual({known[l.mapping_id] for l in plain.location if l.id in used and l.mapping_id}, found)
            n_files += len({file for _, _, _, file in found if file})
        self.assertGreater(n_files, 8)

    def test_a_line_always_has_a_function(self):
        """pprof refuses a line without one; OTLP has index 0 for a function that says nothing."""
        path = self.file('in.pb.gz', [(['', 'main'], [1, 2, 3, 4]), ([('', 'caller'), 'main'], [1, 2, 3, 4])])
        message = otlp.load(self.bytes_of(self.convert(path, 'out.otlp')))
        values = dict(alloc_objects=1, alloc_space=2, inuse_objects=3, inuse_space=4)
        self.assertEqual(otlp.rows(message), {(('', 'main'), ()): values, (('', 'caller', 'main'), ()): values})
        for location in message.dictionary.location_table:
            for line in location.lines:
                self.assertLess(line.function_index, len(message.dictionary.function_table))

    def test_events_are_samples_with_timestamps(self):
        rows = [(['leaf%d' % (i % 3), 'main'], [1, i], {'end_timestamp_ns': 10**18 + i * 1000, 'thread id': i % 2 + 1}) for i in range(1, 100)]
        kinds = [('contentions', 'count'), ('delay', 'nanoseconds')]
        path = self.file('in.pb.gz', rows, kinds)
        out = self.convert(path, 'out.otlp')
        message = otlp.load(self.bytes_of(out))
        for p in otlp.profiles(message):
            self.assertEqual((len(p.samples), sum(len(s.timestamps_unix_nano) for s in p.samples)), (6, 99))
        self.assertEqual(otlp.rows(message), by_names(path))

    def test_an_event_is_in_the_profiles_of_its_values(self):
        """An allocation has no delay: its zeros are not written."""
        rows = [(['f'], [1, 0] if i % 3 else [0, i], {'end_timestamp_ns': 10**18 + i}) for i in range(1, 31)]
        path = self.file('in.pb.gz', rows, [('alloc_objects', 'count'), ('delay', 'nanoseconds')])
        out = self.convert(path, 'out.otlp')
        message = otlp.load(self.bytes_of(out))
        values = [[v for s in p.samples for v in s.values] for p in otlp.profiles(message)]
        self.assertEqual(values, [[1] * 20, list(range(3, 31, 3))])
        self.assertEqual(otlp.rows(message), by_names(path))

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
                message = otlp.load(self.bytes_of(self.convert(path, 'out.otlp')))
                found = otlp.profiles(message)
                self.assertEqual([otlp.type_of(message, p) for p in found], kinds)
                self.assertEqual([sorted(v for s in p.samples for v in s.values) for p in found],
                                 [sorted([i, 3]) for i in range(1, len(kinds) + 1)])

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

    def test_folded_stacks_are_read_gzipped_too(self):
        data = self.bytes_of(self.convert(self.file('in.pb.gz', ROWS), 'out.folded'))
        zipped = self.file('zipped', gzip.compress(data))
        self.assertEqual(by_names(self.convert(zipped, 'a.pb.gz')), by_names(self.convert(self.file('plain', data), 'b.pb.gz')))

    def test_a_format_that_is_only_written_is_named(self):
        path = self.file('in.pb.gz', ROWS)
        for name, line in (('out.otlp', 'not a pprof profile, gzipped or raw, but OTLP, which is written but not read'),
                           ('out.json', 'JSON; only pprof and folded stacks can be read')):
            data = self.bytes_of(self.convert(path, name))
            for some in data, gzip.compress(data):
                other = self.file('other', some)
                self.run_it('convert', other, '--to', 'pprof', status=1)
                self.assertEqual(self.error, 'deltaprof convert: %s: %s\n' % (other, line))

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

    def test_speedscope_has_files_and_lines(self):
        p = profile_pb2.Profile(string_table=['', 'a', 'count', 'delay', 'milliseconds', 'f', 'dir/f.c', 'g'], default_sample_type=1)
        for kind in (1, 2), (3, 4), (1, 2):
            p.sample_type.add(type=kind[0], unit=kind[1])
        p.function.add(id=1, name=5, filename=6)
        p.function.add(id=2, name=7)
        for i, (function, line, column) in enumerate(((1, 17, 3), (1, 18, 0), (2, 0, 0)), 1):
            p.location.add(id=i).line.add(function_id=function, line=line).MergeFromString(number(3, column))
            p.sample.add(location_id=[i, 3], value=[i, 10 * i, 100 * i])
        written = json.loads(self.bytes_of(self.convert(self.file('in.pb', p.SerializeToString()), 'out.json')))
        self.assertEqual(written['activeProfileIndex'], 0)
        self.assertEqual(written['shared']['frames'], [{'name': 'f', 'file': 'dir/f.c', 'line': 17, 'col': 3}, {'name': 'g'},
                                                       {'name': 'f', 'file': 'dir/f.c', 'line': 18}])

    def test_broken_input_is_named_in_one_line(self):
        good = b'# a comment\nmain;f 3\nmain;g;h 18\nmain 1\n' * 4
        rng = random.Random(5)
        for i in range(150):
            data = bytearray(good[:rng.randrange(1, len(good))] if i % 2 else good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            self.file('broken', bytes(data))
            path = os.path.join(self.dir.name, 'broken')
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
