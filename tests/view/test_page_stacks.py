# SPDX-License-Identifier: MIT
"""Stacks in the page: by function or by line, callers and callees, the height of rows, and the rest of a chart.

    test_page_stacks.py DELTAPROF
"""
import gzip
import os
import unittest

import profile_pb2
from page_case import PageCase


class Stacks(PageCase):
    def lines(self):
        """main calls parse from two lines, which allocates in two lines; and another function of the same name."""
        rows = [(['parse!src/parse.c#10', 'main!src/main.c#5'], [1, 400, 1, 400]), (['parse!src/parse.c#20', 'main!src/main.c#5'], [1, 200, 1, 200]),
                (['parse!src/parse.c#20', 'main!src/main.c#6'], [1, 100, 1, 100]), (['parse!src/json.c#7', 'main!src/main.c#6'], [1, 50, 1, 50])]
        self.file('p/server.7.0001.heap.pb.gz', rows)
        return os.path.join(self.dir.name, 'p')

    def labels(self):
        """The texts of the boxes of the saved picture, in the order of drawing."""
        path, svg = self.saved('svg', '*.svg')
        os.unlink(path)
        return [part.split(b'\n')[0].decode() for part in svg.split(b'<title>')[1:]]

    def test_a_box_is_a_function_or_a_line_and_boxes_of_one_name_say_how_they_differ(self):
        self.show(self.lines())
        self.assertEqual(self.labels(), ['all', 'main', 'parse (parse.c)', 'parse (json.c)'])
        self.assertIn('src/parse.c, lines 10, 20', self.box_at(5, 45))
        self.browser.click('#lines')
        self.assertEqual(self.labels(), ['all', 'main:5', 'parse:10', 'parse:20', 'main:6', 'parse:20', 'parse:7'])
        self.assertIn('src/parse.c:10', self.box_at(5, 45))
        self.browser.pointer('#flame', (5, 45), (5, 45), button=True)
        self.assertEqual(self.shown(), [400])
        self.show(self.lines(), fragment=self.browser.fragment())
        self.assertEqual(self.shown(), [400], 'the link has the line')
        self.browser.click('#unzoom')
        self.browser.click('[data-value=table]')
        self.browser.choose('#by', 'line')
        self.assertEqual(self.flat_and_cum(), {'parse src/parse.c:10': [400, 400], 'parse src/parse.c:20': [300, 300], 'parse src/json.c:7': [50, 50],
                                               'main src/main.c:5': [0, 600], 'main src/main.c:6': [0, 150]})
        self.browser.choose('#by', 'function')
        self.assertEqual(self.flat_and_cum(), self.top(self.lines())[1])

    def test_what_starts_programs_and_threads_has_no_row_unless_stacks_end_there(self):
        rows = [(['parse', 'main', '__libc_start_call_main', '__libc_start_main', '_start'], [1, 400, 1, 400]), (['serve', 'start_thread', '__clone3'], [1, 300, 1, 300]),
                (['_dl_start', '_start'], [1, 20, 1, 20]), (['start_thread', '__clone3'], [1, 10, 1, 10])]
        path = self.file('p/server.7.0001.heap.pb.gz', rows)
        self.show(path)
        self.assertEqual(self.labels(), ['all', 'main', 'parse', 'serve', '_dl_start', '__clone3', 'start_thread'])
        self.assertEqual(self.shown(), [730])
        self.browser.click('#fold')
        self.assertEqual(self.labels()[:3], ['all', '_start', '__libc_start_main'])
        self.browser.click('#fold')
        self.browser.click('[data-value=table]')
        self.assertEqual(self.flat_and_cum(), self.top(path)[1])

    def test_hooks_of_the_profiler_are_folded_as_in_top(self):
        """At a leaf into one frame; between others, and as the caller of a thread's function, they have no row."""
        rows = [(['dp_table_look_up', 'deltaprof_lock_wait_end', 'work', 'main'], [1, 100]), (['work', 'main'], [1, 150]), (['sum', 'dp_call', 'main'], [1, 30]), (['dp_write', 'dp_thread'], [1, 20])]
        for name, hooks in (('a', 'libdeltaprof_preload.so.0.1.0'), ('b', 'other.so')):
            profile = profile_pb2.Profile.FromString(gzip.decompress(self.profile(rows, [('samples', 'count'), ('cpu', 'nanoseconds')])))
            profile.mapping.add(id=2, filename=len(profile.string_table))
            profile.string_table.append(f'/opt/lib/{hooks}')
            for location in profile.location:
                if 'dp_' in (function := profile.string_table[profile.function[location.line[0].function_id - 1].name]) or function.startswith('deltaprof_'):
                    location.mapping_id = 2
            self.file(f'{name}/server.7.0001.cpu.pb.gz', gzip.compress(profile.SerializeToString()))
            directory = os.path.join(self.dir.name, name)
            self.show(directory, fragment='#k=cpu&v=table')
            self.assertEqual(self.flat_and_cum(), self.top('--kind', 'cpu', directory)[1])
            self.assertEqual('[deltaprof]' in self.flat_and_cum(), name == 'a')
            self.assertEqual('dp_' in self.browser.text('#legend'), name == 'b')
        self.show(f'{self.dir.name}/a', fragment='#k=cpu&v=table&f=0')
        self.assertEqual(self.flat_and_cum()['dp_table_look_up'], [100, 100])

    def test_layers_of_one_name_say_what_tells_them_apart(self):
        for rows, names in (([(['run!a.c#3'], [1, 400, 1, 400]), (['run!b.c#4'], [1, 300, 1, 300])], ['run (a.c)', 'run (b.c)']),
                            ([(['run', 'main'], [1, 400, 1, 400]), (['run', 'start_thread'], [1, 300, 1, 300])], ['run in main', 'run in start_thread']),
                            ([(['part', '<module>', 'main'], [1, 400, 1, 400]), (['part', '<module>', 'start_thread'], [1, 300, 1, 300])], ['part'])):
            with self.subTest(names):
                self.show(self.file(f'p{len(names[0])}/server.7.0001.heap.pb.gz', rows))
                self.assertEqual(self.browser.js('return [...document.querySelectorAll("#legend span")].map(s => s.textContent)'), names)

    def test_lines_are_offered_only_where_they_tell_something(self):
        self.show(self.server())
        self.assertTrue(self.browser.js('return document.getElementById("lines").hidden'))

    def test_callers_stand_above_and_callees_below_the_function_that_was_searched_for(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.browser.click('#sandwich')  # the one with the most
        self.assertEqual(self.box_at(5, 9)[0], 'cache_fill')
        self.browser.click('#sandwich')
        self.browser.keys('#search', '^serve$')
        self.browser.click('#sandwich')
        self.assertEqual([self.box_at(5, 9)[0], self.box_at(5, 27)[0], self.box_at(5, 9, '#callers')[0]], ['serve', 'cache_fill', 'main'])
        self.assertTrue(self.browser.js('return document.getElementById("up").hidden'))
        self.browser.pointer('#callers', (5, 9), (5, 9), button=True)
        self.browser.click('#focus')  # the caller is now the function in the middle
        self.assertEqual(self.box_at(5, 9)[0], 'main')
        fragment, shown = self.browser.fragment(), self.shown()
        self.show(os.path.join(self.dir.name, 'p'), fragment=fragment)
        self.assertEqual([self.box_at(5, 9)[0], self.shown()], ['main', shown])
        self.browser.click('#sandwich')
        self.assertTrue(self.browser.js('return document.getElementById("callersBox").hidden'))

    def test_source_lines_stand_beside_a_function(self):
        source = os.path.join(self.dir.name, 'parse.c')
        with open(source, 'w', encoding='utf-8') as f:
            f.writelines(f'<b>text of line {i}</b>\n' for i in range(1, 60))
        rows = [([f'parse!{source}#10', f'main!{source}#45'], [1, 400, 1, 400]), ([f'helper!{source}#33', f'parse!{source}#12', f'main!{source}#45'], [1, 200, 1, 200])]
        path = self.file('p/server.7.0001.heap.pb.gz', rows)
        hidden = 'return document.getElementById("sourceBox").hidden'
        self.show(path)
        self.browser.pointer('#flame', (5, 45), (5, 45), button=True)
        self.assertTrue(self.browser.js(hidden))
        self.show('--source', path)
        self.assertEqual(self.browser.text('#sourceTitle'), 'source: choose a function')
        self.browser.pointer('#flame', (5, 45), (5, 45), button=True)
        self.assertEqual(self.browser.text('#sourceTitle'), f'source: parse, {source}')
        lines = self.browser.js('return [...document.querySelectorAll("#source tbody tr")].map(r => [...r.children].map(c => c.textContent))')
        self.assertEqual(lines, [[*{10: ['400 B', '400 B'], 12: ['', '200 B']}.get(i, ['', '']), str(i), f'<b>text of line {i}</b>'] for i in range(4, 19)])
        self.browser.click('#focus')
        self.assertEqual(self.browser.text('#sourceTitle'), f'source: parse, {source}')
        self.browser.click('#unfocus')
        self.browser.keys('#flame', '\ue00c')
        self.assertEqual(self.browser.text('#sourceTitle'), 'source: choose a function')

    def test_a_graph_of_few_rows_has_taller_ones(self):
        height = 'return Number(document.getElementById("flame").dataset.row)'
        self.show(self.server())
        self.assertEqual(self.browser.js(height), 24)
        self.show(self.file('deep.pb.gz', [([f'f{i}' for i in range(60)], [1, 1, 1, 1])]))
        self.assertEqual(self.browser.js(height), 18)

    def test_the_rest_of_a_chart_can_be_opened(self):
        self.file('p/server.7.0001.heap.pb.gz', [([f'work{i}', f'task{i}', 'main'], [1, 1000 - i, 1, 1000 - i]) for i in range(40)])
        names = 'return [...document.querySelectorAll("#legend *")].map(e => e.textContent).filter(Boolean)'
        self.show(os.path.join(self.dir.name, 'p'))
        self.assertEqual(self.browser.js(names), [*(f'task{i}' for i in range(24)), 'rest'])  # so many until none is smaller
        self.browser.click('#legend button')
        self.assertEqual(self.browser.js(names), [*(f'task{i}' for i in range(30)), 'rest'])
        self.file('q/server.7.0001.heap.pb.gz', [([f'work{i}', f'task{i}', 'main'], [1, 10000 >> i, 1, 10000 >> i]) for i in range(12)])
        self.show(os.path.join(self.dir.name, 'q'))
        self.assertEqual(self.browser.js(names), [*(f'task{i}' for i in range(6)), 'rest'])
        self.browser.click('#legend button')
        self.assertEqual(self.browser.js(names), [*(f'task{i}' for i in range(12))])


if __name__ == '__main__':
    unittest.main()
