# SPDX-License-Identifier: MIT
"""`deltaprof pgo`: clang takes the profile, llvm-profdata reads it, and its places are those that llvm-symbolizer finds
for the samples' addresses.

    test_pgo.py DELTAPROF SOURCE
"""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import reader

DELTAPROF, SOURCE = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
FLAGS = ['-O2', '-g', '-fdebug-info-for-profiling']


def tool(name):
    found = [shutil.which(name), *sorted(glob.glob(f'/usr/lib/llvm-*/bin/{name}'), reverse=name.endswith('bolt'))]
    return next(filter(None, found), None)


CLANG, PROFDATA, SYMBOLIZER = tool('clang'), tool('llvm-profdata'), tool('llvm-symbolizer')
PERF2BOLT, BOLT = tool('perf2bolt'), tool('llvm-bolt')
if not CLANG or not PROFDATA or not SYMBOLIZER:
    print('skipped: clang, llvm-profdata or llvm-symbolizer is not installed')
    sys.exit(77)


def run(*command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


def base(discriminator):
    """The part of a discriminator that tells blocks apart."""
    bits = discriminator >> 1
    return 0 if discriminator & 1 else (bits >> 1 & 0xfe0 | bits & 0x1f) if bits & 0x20 else bits & 0x1f


def parse(text):
    """{chain of (function, line, discriminator), the outermost first: count}"""
    counts, stack = {}, []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip(' '))
        words = line.strip()
        if not depth:
            name, total, entries = words.rsplit(':', 2)
            stack = [(name, None)]
            continue
        place, rest = words.split(': ', 1)
        line_number, _, discriminator = place.partition('.')
        at = int(line_number), int(discriminator or 0)
        stack = stack[:depth]
        here = [(name, called) for name, called in stack[:-1]] + [(stack[-1][0], at)]
        if ':' in rest:
            stack = here + [(rest.rsplit(':', 1)[0], None)]
        else:
            counts[tuple((name, *called) for name, called in here)] = int(rest)
    return counts


class Pgo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix='deltaprof-pgo-')
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.program, cls.out = os.path.join(cls.dir, 'program'), os.path.join(cls.dir, 'profiles')
        assert run(CLANG, *FLAGS, SOURCE, '-o', cls.program, '-Wl,--build-id', '-Wl,--emit-relocs').returncode == 0
        done = run(DELTAPROF, 'run', '-o', f'out={cls.out},cpu_rate=4ms,heap_rate=0,block_rate=0', '--', cls.program, '5000')
        assert done.returncode == 0 and done.stderr == '', done.stderr

    def pgo(self, tool, *arguments, status=0):
        done = run(DELTAPROF, 'pgo', self.out, '--for', tool, *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if not status else done.stderr

    def addresses(self):
        """{address in the file: samples}, by the independent reader."""
        counts = collections.Counter()
        for path in reader.files(self.out, kind='cpu'):
            p = reader.load(path)
            mappings = {m.id: m for m in p.message.mapping}
            locations = {l.id: l for l in p.message.location}
            for s in p.message.sample:
                leaf = locations[s.location_id[0]]
                m = mappings[leaf.mapping_id]
                if p.message.string_table[m.filename] == self.program:
                    counts[leaf.address - m.memory_start + m.file_offset] += s.value[0]
        self.assertGreater(sum(counts.values()), 50)
        return counts

    def virtual(self, counts):
        segments = re.findall(r'LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)', run('readelf', '-lW', self.program).stdout)
        for offset, n in counts.items():
            for start, address, size in (map(lambda x: int(x, 16), s) for s in segments):
                if start <= offset < start + size:
                    yield offset - start + address, n

    def test_bolt_gets_each_address_with_its_samples(self):
        lines = self.pgo('bolt').splitlines()
        self.assertEqual(lines[0], 'E cycles')
        got = {int(address, 16): int(n) for _, address, n in map(str.split, lines[1:])}
        self.assertEqual(got, dict(self.virtual(self.addresses())))

    def test_bolt_rewrites_the_program(self):
        addresses, data, rewritten = (os.path.join(self.dir, name) for name in ('p.addresses', 'p.fdata', 'rewritten'))
        if not PERF2BOLT or not BOLT:
            self.skipTest('BOLT is not installed')
        self.pgo('bolt', '-o', addresses)
        read = run(PERF2BOLT, self.program, '--pa', '--ba', '-p', addresses, '-o', data)
        if 'Unknown command line argument' in read.stderr or 'for the -b option' in read.stderr:
            self.skipTest('this BOLT reads no addresses without branches')
        self.assertEqual(read.returncode, 0, read.stderr)
        with open(data) as f:
            self.assertIn('hot_loop', f.read())
        done = run(BOLT, self.program, '-data', data, '-o', rewritten, '-reorder-blocks=ext-tsp', '-reorder-functions=cdsort')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(run(rewritten, '100').stdout, run(self.program, '100').stdout)

    def test_places_are_those_of_another_symbolizer(self):
        counts = parse(self.pgo('clang'))
        expected = collections.Counter()
        for address, n in self.virtual(self.addresses()):
            frames = json.loads(run(SYMBOLIZER, '--output-style=JSON', '--no-demangle', '--inlines', '-e', self.program,
                                    hex(address)).stdout)[0]['Symbol']
            chain = tuple((f['FunctionName'], f['Line'] - f['StartLine'] & 0xffff, base(f['Discriminator'])) for f in reversed(frames))
            if frames[0]['Line']:
                expected[chain] += n
        self.assertEqual({chain: n for chain, n in counts.items() if n}, {chain: 1000 * n for chain, n in expected.items()})
        self.assertTrue(any(len(chain) > 2 for chain in expected), expected)  # mix in step in hot_loop
        self.assertIn(0, counts.values())  # lines of a sampled function that no sample hit
        self.assertNotIn('never_called', {chain[0][0] for chain in counts})

    def test_llvm_reads_it_and_clang_uses_it(self):
        path = os.path.join(self.dir, 'p.prof')
        self.pgo('clang', '-o', path)
        shown = run(PROFDATA, 'show', '--sample', path)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn('Function: hot_loop', shown.stdout)
        used = run(CLANG, *FLAGS, SOURCE, f'-fprofile-sample-use={path}', '-S', '-emit-llvm', '-o', '-')
        self.assertEqual((used.returncode, used.stderr), (0, ''))
        self.assertRegex(used.stdout, r'branch_weights", i32 \d+')
        self.assertRegex(used.stdout, r'function_entry_count", i64 \d+')

    def test_another_build_is_refused(self):
        other = os.path.join(self.dir, 'other')
        self.assertEqual(run(CLANG, '-O1', '-g', SOURCE, '-o', other, '-Wl,--build-id').returncode, 0)
        for what in ('clang', 'bolt'):
            error = self.pgo(what, '--object', other, status=1)
            self.assertIn('build-id', error)
            self.assertEqual(error.count('\n'), 1)
        moved = os.path.join(self.dir, 'moved')
        shutil.copy(self.program, moved)
        self.assertEqual(self.pgo('bolt', '--object', moved), self.pgo('bolt'))

    def test_what_is_wrong_is_said_in_one_line(self):
        self.assertIn('clang or bolt', self.pgo('gcc', status=2))
        self.assertIn('cannot be read', self.pgo('clang', '--object', '/nowhere', status=1))
        error = self.pgo('clang', '--object', os.path.join(self.dir, 'stripped'), status=1)
        self.assertIn('cannot be read', error)
        stripped = os.path.join(self.dir, 'program.stripped')
        subprocess.run(['strip', '-o', stripped, self.program], check=True)
        self.assertIn('no sample has a line', self.pgo('clang', '--object', stripped, status=1))


unittest.main()
