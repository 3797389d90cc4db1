# SPDX-License-Identifier: MIT
"""`deltaprof convert` reads what speedscope, py-spy and rbspy write, and goes from each of its formats to each other and back.

    test_speedscope.py DELTAPROF
"""
import collections
import gzip
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import unittest

import otlp
import profile_pb2
import reader
from by_hand import DELTAPROF, ConvertCase
from random_profile import number

SCHEMA = 'https://www.speedscope.app/file-format-schema.json'
KINDS = [('contentions', 'count'), ('delay', 'nanoseconds'), ('alloc_space', 'bytes')]
UNITS = {'none': 'count', 'bytes': 'bytes', 'nanoseconds': 'nanoseconds'}
ENDS = {'pprof': 'pb.gz', 'folded': 'folded', 'speedscope': 'json', 'otlp': 'otlp'}


def sampled(stacks, unit='none', name='one', **more):
    samples, weights = zip(*stacks)
    return {'type': 'sampled', 'name': name, 'unit': unit, 'startValue': 0, 'endValue': 0, 'samples': samples, 'weights': weights, **more}


def evented(events, unit='none', name='one', **more):
    return {'type': 'evented', 'name': name, 'unit': unit, 'startValue': 0, 'endValue': events[-1][2],
            'events': [dict(zip(('type', 'frame', 'at'), e)) for e in events], **more}


def document(*profiles, frames='abcd', **more):
    frames = [f if isinstance(f, dict) else {'name': f} for f in frames]
    return json.dumps({'$schema': SCHEMA, 'profiles': profiles, 'shared': {'frames': frames}, **more}).encode()


def rows(data, format):
    """([(type, unit)], {names leaf first: {type: sum}}) of a file, by readers that share no code with the command."""
    out = collections.defaultdict(collections.Counter)
    if format == 'pprof':
        profile = reader.load(data)
        kinds = profile.types
        for sample in profile.samples:
            out[sample.names].update(sample.values)
    elif format == 'otlp':
        message = otlp.load(data)
        kinds = [otlp.type_of(message, p) for p in otlp.profiles(message)]
        for (names, _), values in otlp.rows(message).items():
            out[names].update(values)
    elif format == 'folded':
        kinds = [('samples', 'count')]
        for line in data.decode().splitlines():
            stack, value = line.rsplit(' ', 1)
            out[tuple(reversed(stack.split(';')))]['samples'] += int(value)
    else:
        file = json.loads(data)
        names = [f['name'] for f in file['shared']['frames']]
        kinds = [(p['name'], UNITS[p['unit']]) for p in file['profiles']]
        for p in file['profiles']:
            for stack, weight in zip(p['samples'], p['weights']):
                out[tuple(names[i] for i in reversed(stack))][p['name']] += weight
    return kinds, {('[no stack]',) if not names else names: +values for names, values in out.items() if +values}


class Speedscope(ConvertCase):
    def read(self, data):
        """The profile that a speedscope file becomes."""
        return reader.load(self.convert(self.file('in.json', data), 'out.pb.gz'))

    def found(self, data):
        """{names root first, labels: values}."""
        return {('/'.join(reversed(s.names)), *s.labels): s.values for s in self.read(data).samples}

    def test_each_format_to_each_other_and_back_has_the_same_types_and_sums(self):
        rng = random.Random(3)
        stacks = {tuple(rng.choice(['f%d' % i for i in range(9)] + ['größe "x"\\', ('inner', 'outer')]) for _ in range(rng.randrange(12)))
                  for _ in range(60)} | {(), ('x',)}
        data = [(list(s), [rng.randrange(5), rng.choice([0, 1, 1 << 60]), rng.randrange(1 << 40)], rng.choice([{}, {'k': 'v'}, {'n': 7}]))
                for s in stacks]
        first = self.file('first.pb.gz', data, KINDS, default='delay')
        n = 0
        for one, other in itertools.permutations(ENDS, 2):
            with self.subTest(one + ' to ' + other):
                start = first if one == 'pprof' else self.convert(first, 'start.' + ENDS[one])
                there = self.convert(start, 'there.' + ENDS[other])
                back = self.convert(there, 'back.' + ENDS[one])
                kinds, want = rows(self.bytes_of(start), one)
                if other == 'folded' and one != 'folded':  # one type, without its name
                    want = {k: {'samples': v['delay']} for k, v in want.items() if v['delay']}
                    kinds = [('samples', 'count')]
                self.assertGreater(len(want), 20)
                self.assertEqual(rows(self.bytes_of(there), other), (kinds, want))
                self.assertEqual(rows(self.bytes_of(back), one), (kinds, want))
                n += 1
        self.assertEqual(n, 12)

    def test_what_deltaprof_wrote_comes_back(self):
        """Types that are called the same or by no known name, their default, files, lines and columns."""
        p = profile_pb2.Profile(string_table=['', 'a', 'count', 'delay', 'milliseconds', 'f', 'dir/f.c', 'g'], default_sample_type=1)
        for kind in (1, 2), (3, 4), (1, 2):
            p.sample_type.add(type=kind[0], unit=kind[1])
        p.function.add(id=1, name=5, filename=6)
        p.function.add(id=2, name=7)
        lines = [(1, 17, 3), (1, 18, 0), (2, 0, 0)]
        for i, (function, line, column) in enumerate(lines, 1):
            p.location.add(id=i).line.add(function_id=function, line=line).MergeFromString(number(3, column))
            p.sample.add(location_id=[i, 3], value=[i, 10 * i, 100 * i])
        path = self.convert(self.file('in.pb', p.SerializeToString()), 'out.json')
        written = json.loads(self.bytes_of(path))
        self.assertEqual(written['activeProfileIndex'], 0)
        self.assertEqual(written['shared']['frames'], [{'name': 'f', 'file': 'dir/f.c', 'line': 17, 'col': 3}, {'name': 'g'},
                                                       {'name': 'f', 'file': 'dir/f.c', 'line': 18}])
        again = self.convert(self.convert(path, 'back.pb.gz'), 'again.json')
        self.assertEqual(json.loads(self.bytes_of(again))['shared'], written['shared'])
        back = reader.load(os.path.join(self.dir.name, 'back.pb.gz')).message
        text, functions, places = back.string_table, {f.id: f for f in back.function}, {l.id: l.line[0] for l in back.location}
        self.assertEqual([(text[t.type], text[t.unit]) for t in back.sample_type], [('a', 'count'), ('delay', 'milliseconds'), ('a', 'count')])
        self.assertEqual(text[back.default_sample_type], 'a')
        got = {}
        for s in back.sample:
            leaf = places[s.location_id[0]]
            f = functions[leaf.function_id]
            got[text[f.name], text[f.filename], leaf.line] = list(s.value)
        self.assertEqual(got, {('f', 'dir/f.c', 17): [1, 10, 100], ('f', 'dir/f.c', 18): [2, 20, 200], ('g', '', 0): [3, 30, 300]})

    def test_events_count_for_the_stack_in_which_time_passes(self):
        simple = [('O', 0, 0), ('O', 1, 0), ('O', 2, 0), ('C', 2, 2), ('O', 3, 2), ('C', 3, 6), ('O', 2, 6), ('C', 2, 9), ('C', 1, 14), ('C', 0, 14)]
        data = document(evented(simple), version='0.0.1')
        self.assertEqual(self.found(data), {('a/b/c',): {'samples': 5}, ('a/b/d',): {'samples': 4}, ('a/b',): {'samples': 5}})
        gap = evented([('O', 0, 1000.5), ('C', 0, 1001.75), ('O', 0, 2000), ('O', 0, 2000.25), ('C', 0, 2001), ('C', 0, 2001)], 'milliseconds',
                      startValue=900)
        self.assertEqual(self.found(document(gap)), {('a',): {'time': 1500000}, ('a/a',): {'time': 750000}})
        below = evented([('O', 1, -5), ('C', 1, -2)])
        self.assertEqual(self.found(document(below)), {('b',): {'samples': 3}})

    def test_a_file_that_speedscope_saved_again_keeps_its_types(self):
        """speedscope saves each profile as events, under its name."""
        data = document(evented([('O', 0, 0), ('C', 0, 3)], name='alloc_objects'), evented([('O', 0, 0), ('C', 0, 96)], 'bytes', 'alloc_space'),
                        evented([('O', 0, 0), ('C', 0, 7)], 'nanoseconds', 'delay'), exporter='speedscope@1.22.2')
        got = self.read(data)
        self.assertEqual(got.types, [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('delay', 'nanoseconds')])
        self.assertEqual(self.found(data), {('a',): {'alloc_objects': 3, 'alloc_space': 96, 'delay': 7}})

    def test_threads_of_another_program_are_one_type_with_labels(self):
        """As py-spy and rbspy write: fractions of seconds, null where nothing is known, an index as a float."""
        frames = [{'name': 'main', 'file': 'app.py', 'line': 3, 'col': None}, {'name': 'work', 'file': None, 'line': None, 'col': None},
                  {'name': 'work', 'file': 'app.py', 'line': 9.0}]
        one, two = 'Thread 1 "MainThread"', 'Thread 2'
        data = document(sampled([([0, 1], 0.01)] * 300 + [([0], 0.1)], 'seconds', one), sampled([([0.0, 2], 0.01), ([], 0.01)], 'seconds', two),
                        frames=frames, exporter='py-spy@0.4.0', activeProfileIndex=None, name='py-spy')
        profile = self.read(data)
        self.assertEqual(profile.types, [('time', 'nanoseconds')])
        self.assertEqual(self.found(data), {
            ('main/work', ('profile', one)): {'time': 3 * 10**9}, ('main', ('profile', one)): {'time': 10**8},
            ('main/work', ('profile', two)): {'time': 10**7}, ('', ('profile', two)): {'time': 10**7}})
        self.assertIn(('work', 'app.py', 9), {(f.function, f.file, f.line) for s in profile.samples for f in s.frames})
        alone = document(sampled([([0], 1.0), ([0], 1.0)], name=''), frames='f', version='0.2.0')
        self.assertEqual(self.found(alone), {('f',): {'samples': 2}})
        self.assertEqual(self.found(gzip.compress(b'\xef\xbb\xbf \n' + alone)), {('f',): {'samples': 2}})

    def test_a_frame_without_a_name_has_a_name_that_other_formats_keep(self):
        data = document(sampled([([0, 1, 2, 3], 5)]), frames=[{'name': ''}, {'file': 'a.c'}, {'name': None}, {'name': 'd'}])
        self.assertEqual(self.found(data), {('[no name]/[no name]/[no name]/d',): {'samples': 5}})

    def test_units(self):
        for unit, kind, weight, value in (('none', ('samples', 'count'), 7, 7), ('bytes', ('space', 'bytes'), 7, 7),
                                          ('nanoseconds', ('time', 'nanoseconds'), 7, 7), ('microseconds', ('time', 'nanoseconds'), 7.5, 7500),
                                          ('milliseconds', ('time', 'nanoseconds'), 0.25, 250000), ('seconds', ('time', 'nanoseconds'), 1e-9, 1)):
            with self.subTest(unit):
                profile = self.read(document(sampled([([0], weight)], unit)))
                self.assertEqual((profile.types, profile.samples[0].values), ([kind], {kind[0]: value}))
        both = self.read(document(sampled([([0], 2)], 'seconds'), sampled([([0], 3)], 'milliseconds'), sampled([([0], 4)], 'bytes')))
        self.assertEqual(both.types, [('time', 'nanoseconds'), ('space', 'bytes')])
        self.assertEqual((both.total('time'), both.total('space')), (2003000000, 4))
        thirds = document(sampled([([0], 1 / 3)] * 3000 + [([1], 0.4)] * 10))  # the sum is rounded, not its parts
        self.assertEqual(self.found(thirds), {('a',): {'samples': 1000}, ('b',): {'samples': 4}})
        largest = document(sampled([([0], 2**62), ([0], 2**62 - 1)]))
        self.assertEqual(self.found(largest), {('a',): {'samples': 2**63 - 1}})

    def refuse(self, data, line):
        self.run_it('convert', self.file('x.json', data), '--to', 'pprof', status=1)
        self.assertRegex(self.error, r'\Adeltaprof convert: \S*x.json: [^\n]*%s[^\n]*\n\Z' % line)

    def test_faults_are_named(self):
        for data, line in [
                (b'[{"cat":"a","ph":"X"}]', 'not speedscope'), (b'{"nodes":[]}', 'not speedscope'),
                (document(), 'without a profile'), (document(1), 'profile 1: neither sampled nor evented'),
                (document(sampled([([0], 1)]), {'type': 'x'}), 'profile 2: neither'), (document(sampled([([0], 1)], 'hours')), 'profile 1: unit hours'),
                (document(sampled([([0], 1)], 7)), 'profile 1: the unit is no text'), (document(sampled([([0], 1)], None)), 'the unit is no text'),
                (document(sampled([([0], 1)], weights=[])), 'profile 1: not one weight'), (document(sampled([([0], 1)], weights=None)), 'not one weight'),
                (document(sampled([([0], 1), ([4], 1)])), 'sample 2: no such frame'), (document(sampled([([-1], 1)])), 'no such frame'),
                (document(sampled([([0.5], 1)])), 'no such frame'), (document(sampled([(['a'], 1)])), 'no such frame'),
                (document(sampled([(7, 1)])), 'sample 1: no stack'), (document(sampled([([0], -1)])), 'the weight'),
                (document(sampled([([0], -0.5)])), 'the weight'), (document(sampled([([0], 1e300)])), 'the weight'),
                (document(sampled([([0], 2**62)], 'seconds')), 'the weight'), (document(sampled([([0], 2**62)] * 2)), 'too large'),
                (document(sampled([([0], 0)], weights=['1'])), 'the weight'), (document({'type': 'evented'}), 'no events'),
                (document(evented([('O', 0, 1)])), 'a frame stays open'), (document(evented([('C', 0, 1)])), 'event 1: closes another'),
                (document(evented([('O', 0, 1), ('C', 1, 2)])), 'event 2: closes another'), (document(evented([('X', 0, 1)])), 'event 1: no type'),
                (document(evented([('O', 0, 2), ('C', 0, 1)])), 'event 2: before'), (document(evented([('O', 0, 2**63 - 1)])), 'stays open'),
                (document(evented([('O', 0, -2**63), ('C', 0, 2**63 - 1)])), 'event 2: before'), (document(evented([('O', 9, 2)])), 'event 1: no type')]:
            with self.subTest(data):
                self.refuse(data, line)

    def test_text_that_is_no_json_is_named_with_its_place(self):
        good = document(sampled([([0], 1)]))
        for data, line in [
                (good[:-1], 'no JSON, or broken: line 1'), (good + b'x', 'line 1'), (b'{"a":' * 100000, 'depth'), (b'[{"a":[' + b'[' * 100000, 'depth'),
                (good.replace(b'"a"', b'"\\u0000"'), 'line 1'), (good.replace(b'"a"', b'"\xff"'), 'byte 0xff'), (good.replace(b'"a"', b'"\\ud800"'), 'line 1'),
                (good.replace(b'[1]', b'[99999999999999999999]'), 'too big'), (good.replace(b'[1]', b'[1e999]'), 'overflow'),
                (good.replace(b'[1]', b'[NaN]'), 'line 1'), (good.replace(b'"shared"', b'"profiles":[],"shared"'), 'duplicate'),
                (b'{"a\n' + b'\x1b[31m', 'line 1')]:
            with self.subTest(data[:80]):
                self.refuse(data, line)

    def test_broken_files_end_in_one_line(self):
        rng = random.Random(8)
        good = document(sampled([([0, 1], 1), ([0], 2.5)], 'seconds'), evented([('O', 0, 0), ('O', 1, 2), ('C', 1, 3), ('C', 0, 9)]))
        for i in range(150):
            data = bytearray(good[:rng.randrange(1, len(good))] if i % 3 == 0 else good)
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.choice(b'0123456789{}[],:"-.eOC \\\x00\xff')
            done = subprocess.run([DELTAPROF, 'convert', self.file('broken.json', bytes(data)), '--to', 'pprof'], capture_output=True, timeout=60)
            self.assertIn(done.returncode, (0, 1), data)
            self.assertRegex(done.stderr, rb'\A(deltaprof convert: [^\n]*\n)?\Z')
            if done.returncode == 0:
                reader.load(done.stdout)

    def test_memory_for_a_document_is_bounded(self):
        """A list of empty lists needs fifty times its text."""
        path = self.file('wide.json', b'{"a":[' + b'[],' * (2 << 20) + b'[]]}')
        bound = 192 << 20

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        done = subprocess.run([DELTAPROF, 'convert', path, '--to', 'pprof'], capture_output=True, timeout=60, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rb'\Adeltaprof convert: [^\n]*: more than 192 MiB of memory needed; a higher ulimit -v allows more\n\Z')

    def test_deep_stacks_cost_no_more_than_their_events(self):
        """A stack of 100,000 frames, in which the last one comes and goes."""
        n = 100000
        events = [('O', 0, 0)] * n + [('OC'[i % 2], 1, i + 1) for i in range(n)] + [('C', 0, n)] * n
        found = {len(s.names): s.values['samples'] for s in self.read(document(evented(events))).samples}
        self.assertEqual(found, {n: n // 2, n + 1: n // 2})

    def test_without_the_module_it_says_so(self):
        cut = os.path.join(self.dir.name, 'cut')
        os.makedirs(cut + '/cli')
        os.makedirs(cut + '/modules')
        shutil.copy(DELTAPROF, cut + '/cli/deltaprof')
        self.file('cut/modules/symbolize.so', b'x')
        path = self.file('in.json', document(sampled([([0], 1)])))
        done = subprocess.run([cut + '/cli/deltaprof', 'convert', path, '--to', 'folded'], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'\Adeltaprof convert: \S*in.json: JSON is read by the module json, with libjansson: the module [^\n]*\n\Z')


if __name__ == '__main__':
    unittest.main()
