# SPDX-License-Identifier: MIT
"""`deltaprof view`: the pack inside the page, read by a decoder that shares no code with the command or the page.

    test_view.py DELTAPROF
"""
import base64
import gzip
import json
import os
import random
import re
import stat
import subprocess
import unittest

from by_hand import DELTAPROF, Case, profile
from random_profile import HEAP, MUTEX, Model


class Pack:
    """src/view/pack.js describes the format."""

    def __init__(self, html):
        pages = re.findall(rb'<script type="application/octet-stream">([A-Za-z0-9+/=]*)</script>', html)
        assert len(pages) == 1, len(pages)
        self.data, self.at = gzip.decompress(base64.b64decode(pages[0], validate=True)), 0
        self.strings = self.many(self.text)
        self.frames = [None] + self.many(lambda: (self.string(), self.string(), self.string(), self.number(), self.number()))
        self.nodes = [()]
        self.many(lambda: self.nodes.append(self.nodes[len(self.nodes) - self.number()] + (self.frames[self.number()],)))
        self.label_sets = self.many(lambda: tuple(self.many(lambda: (self.string(), self.string()))))
        self.processes = self.many(lambda: (self.string(), self.string(), self.string()))
        self.kinds = {}
        for _ in range(self.number()):
            name = self.string()
            types = self.many(lambda: (self.string(), self.string()))
            self.end = 0
            self.kinds[name] = types, self.many(lambda: self.tick(types))
        if self.number():  # the verdict of leaks
            self.leaks = self.string(), self.string(), [self.number() for _ in range(3)]
            self.leak_rows = self.many(lambda: ([self.number() for _ in range(4)], self.many(self.string)))
        self.sentences = self.many(lambda: tuple(self.string() for _ in range(4)))
        self.sides = self.many(self.string)
        self.sources = dict(self.many(lambda: (self.string(), self.many(lambda: (self.number(), self.string())))))
        assert self.at == len(self.data), 'bytes behind the end'

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    def signed(self):
        value = self.number()
        return -(value + 1) // 2 if value & 1 else value // 2

    def text(self):
        n = self.number()
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def string(self):
        return self.strings[self.number()]

    def many(self, read):
        return [read() for _ in range(self.number())]

    def tick(self, types):
        process = self.processes[self.number()]
        self.end += self.signed()
        duration, period, rss, anon, error = (self.number() for _ in range(5))
        parts = dict(self.many(lambda: (self.string(), self.number())))
        marks = self.number()
        comments = self.many(self.string)
        node, rows = 0, []
        for _ in range(self.number()):
            node += self.signed()
            labels = self.label_sets[self.number()]
            rows.append((self.nodes[node], labels, [self.signed() for _ in types]))
        return {'process': process, 'end': self.end, 'duration': duration, 'period': period, 'rss': rss, 'anon': anon, 'error': error, 'parts': parts, 'marks': marks, 'comments': comments, 'rows': rows}

    def sums(self, kind, last=None, process=None):
        """{stack of names, leaf first: values} over all ticks up to one that is not counted."""
        found = {}
        for tick in self.kinds[kind][1][:last]:
            if process is None or tick['process'][1] == process:
                for stack, _, values in tick['rows']:
                    names = tuple(f[0] for f in reversed(stack))
                    found[names] = [a + b for a, b in zip(found.get(names, [0] * len(values)), values)]
        return {names: values for names, values in found.items() if any(values)}


class View(Case):
    def view(self, *paths):
        out = os.path.join(self.dir.name, 'out.html')
        said = self.run_it('view', '-o', out, *paths)
        self.assertEqual(said.decode(), out + '\n')
        with open(out, 'rb') as f:
            self.html = f.read()
        return Pack(self.html)

    def test_levels_are_differences_and_flows_are_sums(self):
        def one(n, rows, **more):
            self.file(f'p/server.7.{n:04}.heap.pb.gz', rows, time_ns=n * 10**9, duration_ns=10**9, **more)
        one(1, [(['f', 'main'], [5, 50, 4, 40]), (['g', 'main'], [1, 10, 1, 10])])
        one(2, [(['f', 'main'], [2, 20, 1, 7])])
        one(3, [(['f', 'main'], [0, 0, 1, 7]), (['g', 'main'], [1, 10, 1, 12])])
        pack = self.view(os.path.join(self.dir.name, 'p'))
        self.assertEqual(pack.processes, [('server', '7', '')])
        types, ticks = pack.kinds['heap']
        self.assertEqual(types, HEAP)
        self.assertEqual([(t['end'], t['duration'], len(t['rows'])) for t in ticks], [(2000000, 1000000, 2), (3000000, 1000000, 2), (4000000, 1000000, 1)])
        self.assertEqual(pack.sums('heap', 2), {('f', 'main'): [7, 70, 1, 7], ('g', 'main'): [1, 10, 0, 0]})
        self.assertEqual(pack.sums('heap'), {('f', 'main'): [7, 70, 1, 7], ('g', 'main'): [2, 20, 1, 12]})

    def test_source_lines_come_only_on_demand_and_only_around_those_of_stacks(self):
        source, lines = os.path.join(self.dir.name, 'work.c'), [f'line {i}' for i in range(1, 101)]
        with open(source, 'w', encoding='utf-8') as f:
            f.write('\n'.join(lines[:-1] + ['x' * 1000]))
        os.mkfifo(os.path.join(self.dir.name, 'fifo'))
        path = self.file('a.pb.gz', [([f'f!{source}#30', f'g!{source}#34', f'h!{source}#98', f'i!{self.dir.name}/none.c#3', f'j!{self.dir.name}/fifo#3', 'k!work.c#3',
                                       'l!/usr/include/stdio.h#30'], [1, 1, 1, 1])])
        self.assertEqual(self.view(path).sources, {})
        self.assertNotIn(b'line 30', gzip.decompress(base64.b64decode(re.findall(rb'stream">([^<]*)<', self.html)[0])))
        found = self.view('--source', path).sources
        self.assertEqual(list(found), [source])
        self.assertEqual(found[source], [(i, f'line {i}') for i in [*range(24, 41), *range(92, 100)]] + [(100, 'x' * 300)])

    def test_two_directories_are_the_sides_of_a_comparison(self):
        old, new = (os.path.join(self.dir.name, side) for side in ('old', 'new'))
        for side, value in ('old', 40), ('new', 70):
            for pid in 7, 8:
                self.file(f'{side}/server.{pid}.0001.heap.pb.gz', [(['f', 'main'], [1, value, 1, value])])
        pack = self.view('--diff', old, new)
        self.assertEqual(pack.sides, [old, new])
        self.assertEqual({p[2] for p in pack.processes}, {old, new})
        self.assertEqual([sum(values[3] for tick in pack.kinds['heap'][1] for _, _, values in tick['rows'] if tick['process'][2] == side and values[3] > 0) for side in (old, new)],
                         [80, 140])
        loose = [self.file(f'{name}.pb.gz', [(['f'], [1, 1, 1, 1])]) for name in 'ab']
        pack = self.view('--diff', *loose)
        self.assertEqual([pack.sides, [t['process'][2] for t in pack.kinds['heap'][1]]], [loose, loose])
        for wrong in [old], [old, old], [old, new, new]:
            self.run_it('view', '--diff', *wrong, status=2)
            self.assertEqual(self.error, 'deltaprof view: --diff takes two different paths: deltaprof view --diff OLD NEW\n')

    def test_a_process_that_ended_holds_nothing_after_it(self):
        def one(pid, n, at, value, comment=None):
            self.file(f'p/server.{pid}.{n:04}.heap.pb.gz', [(['f'], [1, value, 1, value])], time_ns=at * 10**9, comment=comment)
        one(7, 1, 10, 100)
        one(7, 2, 20, 150, '#ended')
        one(8, 1, 15, 1000)
        one(8, 2, 30, 2000)
        pack = self.view(os.path.join(self.dir.name, 'p'))
        levels = [pack.sums('heap', i + 1)[('f',)][3] for i in range(len(pack.kinds['heap'][1]))]
        self.assertEqual(levels, [100, 1100, 1150, 1000, 2000])

    def test_a_process_whose_last_file_says_exit_has_ended(self):
        def one(pid, n, at, value, comment=None):
            self.file(f'p/server.{pid}.{n:04}.heap.pb.gz', [(['f'], [1, value, 1, value])], time_ns=at * 10**9, comment=comment)
        one(7, 1, 10, 100)
        one(7, 2, 20, 150, '#exit')
        one(8, 1, 15, 1000)
        one(8, 2, 30, 2000, '#exit')
        one(8, 3, 40, 500, '#ended')
        pack = self.view(os.path.join(self.dir.name, 'p'))
        levels = [pack.sums('heap', i + 1)[('f',)][3] for i in range(len(pack.kinds['heap'][1]))]
        self.assertEqual(levels, [100, 1100, 1150, 1000, 2000, 500])

    def test_memory_of_the_last_process_stays_after_its_end(self):
        self.file('p/server.7.0001.heap.pb.gz', [(['f'], [1, 9, 1, 9])], comment='#ended')
        self.assertEqual(self.view(os.path.join(self.dir.name, 'p')).sums('heap'), {('f',): [1, 9, 1, 9]})

    def test_clocks_that_went_back_lose_nothing(self):
        pack = self.view(*self.files_of_two_processes())
        self.assertEqual(pack.sums('heap', process='7'), {('f',): [6, 60, 3, 3000]})
        self.assertEqual(pack.sums('heap', process='8'), {('f',): [4, 40, 4, 4]})

    def test_totals_equal_those_of_top(self):
        for seed in range(20):
            rng = random.Random(seed)
            for kind, types in (('heap', HEAP), ('mutex', MUTEX)):
                for n in range(1, 4):
                    model = Model(rng, types)
                    model.rows = {row: [abs(v) % 10**9 for v in values] for row, values in model.rows.items()}
                    self.file(f'r{seed}/server.7.{n:04}.{kind}.pb.gz', model.write(rng))
            directory = os.path.join(self.dir.name, f'r{seed}')
            pack = self.view(directory)
            for kind, types in (('heap', HEAP), ('mutex', MUTEX)):
                for i, (name, _) in enumerate(types):
                    top = json.loads(self.run_it('top', '--json', '--kind', kind, '--type', name, '-n0', directory))
                    with self.subTest(seed=seed, type=name):
                        rows = [r[2][i] for t in pack.kinds[kind][1] for r in t['rows']] if kind in pack.kinds else []
                        self.assertEqual(sum(rows), top['total'])

    def test_frames_have_the_names_that_top_gives_them(self):
        self.file('server.7.0001.heap.pb.gz', [(['operator new(unsigned long)', 'std::vector<int, std::allocator<int> >::grow(int)'], [1, 1, 1, 1]),
                                               ([0x400123], [1, 1, 1, 1])])
        pack = self.view(self.dir.name)
        found = {f[0]: f for f in pack.frames[1:]}
        self.assertEqual(found['operator new'][4], 1)
        self.assertEqual(found['server+0x1123'][2:], ('server', 0, 0))
        top = json.loads(self.run_it('top', '--json', '--raw', '-n0', os.path.join(self.dir.name, 'server.7.0001.heap.pb.gz')))
        self.assertEqual({r['name'] for r in top['rows']}, set(found))

    def test_hostile_names_stay_inside_the_data(self):
        names = ['</script><script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "'\\\u202e\u2066\n\x01", 'x' * 100000, '<!--', '']
        self.file('server.7.0001.heap.pb.gz', [([name], [1, 1, 1, 1], {name[:50] or 'k': name}) for name in names])
        pack = self.view(self.dir.name)
        self.assertLessEqual({n for n in names if n and len(n) < 8192}, {f[0] for f in pack.frames[1:]})
        for name in names[:2]:
            self.assertNotIn(name.encode(), self.html)

    def test_files_of_other_producers_are_ordered_by_their_times(self):
        late = self.file('a.pb.gz', [(['f'], [1, 10, 1, 10])], time_ns=5 * 10**9)
        early = self.file('b.pb.gz', [(['f'], [1, 10, 3, 30])], time_ns=10**9)
        waits = self.file('c.pb.gz', [(['w'], [1, 10])], MUTEX)
        pack = self.view(late, early, waits)
        self.assertEqual([t['end'] for t in pack.kinds['heap'][1]], [10**6, 5 * 10**6])
        self.assertEqual(pack.sums('heap'), {('f',): [2, 20, 1, 10]})
        self.assertEqual(pack.sums('block'), {('w',): [1, 10]})
        self.assertEqual(pack.processes, [('server', '', '')])

    def test_processes_with_one_pid_in_two_directories_are_two(self):
        for place in ('a', 'b'):
            self.file(f'{place}/server.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        pack = self.view(self.dir.name)
        self.assertEqual(len(set(pack.processes)), 2)
        self.assertEqual(pack.sums('heap'), {('f',): [2, 2, 2, 2]})

    def test_parts_period_and_marks_of_a_tick(self):
        self.file('server.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])], comment=['#RssTotal=900', '#RssAnon=800', '#RssError=7', '#RssPart malloc, in use=600', '#RssPart a=b=5',
                                                                                '#RssPart =3', '#RssPart x=', '#RssPart y=1z', '#RssPart', '#exit'])
        self.file('server.1.0002.heap.pb.gz', [(['f'], [1, 1, 1, 1])], comment='#ended')
        self.file('server.2.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])], time_ns=2 * 10**18)
        ticks = self.view(self.dir.name).kinds['heap'][1]
        self.assertEqual([(t['error'], t['parts'], t['marks']) for t in ticks], [(7, {'malloc, in use': 600, 'a=b': 5}, 1), (0, {}, 2), (0, {}, 4), (0, {}, 0)])
        self.assertEqual({t['period'] for t in ticks}, {0})

    def test_rss_and_comments_of_a_tick(self):
        self.file('server.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])], comment='#RssTotal=5000 #RssAnon')
        self.file('server.1.0002.heap.pb.gz', [(['f'], [1, 1, 1, 1])], comment='#RssTotal=4096')
        self.file('server.1.0003.heap.pb.gz', [(['f'], [1, 1, 1, 1])], comment='7 samples lost')
        ticks = self.view(self.dir.name).kinds['heap'][1]
        self.assertEqual([(t['rss'], t['anon'], t['comments']) for t in ticks], [(0, 0, []), (4096, 0, []), (0, 0, ['7 samples lost'])])

    def test_standard_input_and_standard_output(self):
        html = self.run_it('view', '-o', '-', '-', data=profile([(['f'], [1, 2, 3, 4])]))
        self.assertEqual(Pack(html).sums('heap'), {('f',): [1, 2, 3, 4]})
        self.run_it('view', '-', '-', status=2)

    def test_the_page_has_the_programs_name_and_the_permissions_of_its_files(self):
        path = self.file('p/my-server.7.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        os.chmod(path, 0o600)
        done = subprocess.run([os.path.abspath(DELTAPROF), 'view', path], cwd=self.dir.name, capture_output=True, timeout=60)
        self.assertEqual(done.stdout, b'deltaprof-my-server.html\n')
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.dir.name, 'deltaprof-my-server.html')).st_mode) & 0o077, 0)

    def test_broken_files_leave_no_page(self):
        paths = [self.file(f'p/server.7.000{n}.heap.pb.gz', b'\x1f\x8b nothing') for n in (1, 2)]
        out = os.path.join(self.dir.name, 'out.html')
        for arguments in (paths, paths[:1], [os.path.join(self.dir.name, 'p')]):
            self.run_it('view', '-o', out, *arguments, status=1)
            for path in paths[:len(arguments)]:
                self.assertEqual(self.error.count(path), 1)
            self.assertEqual(os.listdir(self.dir.name), ['p'])

    def test_broken_files_among_others_are_named_and_left_out(self):
        whole = profile([(['f'], [1, 1, 1, 1])])
        for name, data in {'server.7.0001.heap': whole, 'server.7.0002.heap': b'\x1f\x8b nothing', 'server.7.0003.heap': whole[:-9], 'server.7.0004.heap': b'',
                           'server.8.0001.heap': whole, 'cpu': whole, 'gpu': b'no profile'}.items():
            self.file(f'p/{name}.pb.gz', data)
        out = os.path.join(self.dir.name, 'out.html')
        paths = sorted(os.path.join(self.dir.name, 'p', name) for name in os.listdir(os.path.join(self.dir.name, 'p')))
        self.assertEqual(self.run_it('view', '-o', out, *paths, status=1).decode(), out + '\n')
        for path in paths:
            self.assertEqual(self.error.count(path), any(part in path for part in ('0002', '0003', '0004', 'gpu')), path)
        self.assertIn('4 files are left out', self.error)
        with open(out, 'rb') as f:
            self.assertEqual(Pack(f.read()).sums('heap'), {('f',): [3, 3, 3, 3]})

    def test_profiles_with_other_values_are_refused_by_name(self):
        self.file('p/server.7.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        self.file('p/server.7.0002.heap.pb.gz', [(['f'], [1, 1])], MUTEX)
        self.run_it('view', '-o', os.path.join(self.dir.name, 'x'), os.path.join(self.dir.name, 'p'), status=1)
        self.assertIn('0002', self.error)

    def test_the_page_loads_nothing_from_elsewhere(self):
        self.file('server.7.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        self.view(self.dir.name)
        self.assertEqual(re.findall(rb'(?:src|href)="?(?:https?:)?//', self.html), [])
        self.assertIn(b"default-src 'none'", self.html)
        self.assertLess(len(self.html), 200000)


if __name__ == '__main__':
    unittest.main()
