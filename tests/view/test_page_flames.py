# SPDX-License-Identifier: MIT
"""The flame graph, links, saved and dropped files of the page of `deltaprof view`, in a real browser.

    test_page_flames.py DELTAPROF
"""
import base64
import os
import random
import re
import shutil
import subprocess
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX

HOSTILE = ['<img src=x onerror="window.hurt=1">', '</script><script>window.hurt=1</script>', '"\'><b id=hurt>', 'a\u202eb\u2066c', 'x' * 5000,
           'nul\x00in it', '\x1b[31m', '${window.hurt=1}', '__proto__', 'constructor']


class Flames(PageCase):
    # ---- flames ----

    def test_wall_flames_stand_below_their_states(self):
        self.file('w/server.7.0001.wall.pb.gz', [(['burn', 'main'], [6, 600], {'state': 'running'}), (['get', 'main'], [3, 300], {'state': 'lock'}),
                                                 (['take', 'main'], [9, 900], {'state': 'lock', 'idle': 'yes'})],
                  [('samples', 'count'), ('wall', 'nanoseconds')], START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'w'), fragment='#k=wall&t=wall')
        width = self.browser.js('return document.getElementById("flame").clientWidth')
        columns = [[self.box_at(x, y)[0] for y in (9, 27, 45, 63)] for x in (5, width - 5)]
        self.assertEqual(columns, [['all', '[running]', 'main', 'burn'], ['all', '[lock]', 'main', 'get']])
        self.browser.click('#idle')
        self.assertEqual([self.box_at(5, y)[0] for y in (27, 63)], ['[lock]', 'take'])

    def test_boxes_have_the_place_and_width_of_their_values(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        width = self.browser.js('return document.getElementById("flame").clientWidth')
        self.assertEqual(self.box_at(5, 9)[0], 'all')
        self.assertEqual(self.box_at(5, 27)[0], 'main')
        self.assertEqual(self.box_at(5, 63)[0], 'cache_fill')
        self.assertEqual(self.box_at(width * 10000 / 16900 + 5, 63)[0], 'log_line')
        self.assertEqual(self.box_at(width - 5, 63)[0], 'list_append')
        self.assertEqual(self.box_at(5, 63)[-2].split(' kB')[1].strip(), f'{100 * 10000 / 16900:.1f} %')
        self.browser.click('#up')
        height = self.browser.js('const e = document.getElementById("flame"); return e.clientHeight * 18 / e.dataset.row')
        self.assertEqual(self.box_at(5, height - 9)[0], 'all')
        self.browser.click('#up')
        self.browser.click('#order')
        self.assertEqual([self.box_at(x, 63)[0] for x in (5, width * 10200 / 16900, width - 5)], ['cache_fill', 'list_append', 'log_line'])
        self.browser.click('#invert')
        self.assertEqual({self.box_at(x, 27)[0] for x in (5, width * 10200 / 16900, width - 5)}, {'cache_fill', 'list_append', 'format'})

    def test_zoom_focus_and_keys(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.browser.pointer('#flame', (5, 63), (5, 63), button=True)
        self.assertEqual(self.shown(), [80000])
        self.browser.wait(lambda: self.box_at(1000, 63)[0] == 'cache_fill')
        self.browser.choose('#type', 'inuse_space')
        self.assertEqual(self.shown(), [30000], 'the zoom stays')
        fragment = self.browser.fragment()
        self.show(os.path.join(self.dir.name, 'p'), fragment=fragment)
        self.assertEqual(self.shown(), [30000], 'the link has the zoom')
        self.browser.click('#focus')
        self.assertEqual(self.browser.js('return document.getElementById("callersBox").hidden'), False)
        self.assertEqual(self.box_at(5, 9)[0], 'cache_fill')
        self.browser.click('#unfocus')
        self.browser.keys('#flame', '\ue00c')  # Escape
        self.assertEqual(self.shown(), [self.top(*self.files('heap', 8))[0]])
        self.browser.keys('#flame', '\ue015\ue015\ue007')  # down, down, Enter
        self.assertIn('serve', self.browser.text('#crumbs'))
        self.browser.keys('body', '/')
        self.assertEqual(self.browser.js('return document.activeElement.id'), 'search')

    def test_the_window_is_dragged_and_zoomed_by_the_wheel(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        width = self.browser.js('return document.getElementById("flame").clientWidth')
        wheel = ('document.getElementById("flame").dispatchEvent(new WheelEvent("wheel", {ctrlKey: arguments[0], deltaX: arguments[1], deltaY: arguments[2],'
                 'clientX: document.getElementById("flame").getBoundingClientRect().left + arguments[3], cancelable: true}))')
        self.assertEqual(self.box_at(width - 5, 63)[0], 'list_append')
        for _ in range(4):
            self.browser.js(wheel, True, 0, -100, 0)
        self.assertEqual([self.box_at(x, 63)[0] for x in (5, width - 5)], ['cache_fill', 'cache_fill'])
        self.assertEqual(self.shown(), [8 * 16900], 'the zoom is as it was')
        self.browser.js(wheel, False, 100000, 0, 0)
        self.assertEqual(self.box_at(width - 5, 63)[0], 'list_append')
        for _ in range(30):
            self.browser.pointer('#flame', (5, 45), (width - 5, 45), button=True)
            if self.box_at(width - 5, 63)[0] == 'cache_fill':
                break
        self.assertEqual([self.box_at(x, 63)[0] for x in (5, width - 5)], ['cache_fill', 'cache_fill'])
        self.browser.keys('#flame', '\ue00c')
        self.assertEqual([self.box_at(x, 63)[0] for x in (5, width - 5)], ['cache_fill', 'list_append'])

    def test_the_chart_is_used_by_keys(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        for key, numbers in (('\ue010', [8]), ('\ue012', [7]), ('\ue008\ue012', [6, 7]), ('\ue009\ue014', [6, 7, 8]), ('\ue011', [1]), ('\ue00c', range(1, 9))):
            self.browser.keys('#chart', key)  # End, left, shift and left, control and right, Home, Escape
            self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', *numbers))[0]], numbers)

    def test_what_a_key_chose_is_said(self):
        self.show(self.server())
        self.browser.keys('#flame', '\ue015\ue015')
        self.assertTrue(self.browser.text('#spoken').startswith('serve, '), self.browser.text('#spoken'))

    def test_search_and_only(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        before = self.pixels()
        self.browser.keys('#search', 'log_|list_')
        self.assertEqual(self.browser.text('#matched'), f'{100 * 6900 / 16900:.1f} % match')
        self.assertNotEqual(self.pixels(), before)
        self.browser.click('#only')
        self.assertEqual(self.shown(), [8 * 6900])
        self.browser.js('document.getElementById("search").value = ""')
        self.browser.keys('#search', '((')
        self.assertEqual(self.browser.js('return document.getElementById("search").getAttribute("aria-invalid")'), 'true')

    def test_fifty_thousand_frames(self):
        rng = random.Random(1)
        rows = []
        for i in range(50000 // 10):
            rows.append(([f'f{rng.randrange(20000)}' for _ in range(10)], [1, rng.randrange(1, 1000), 1, rng.randrange(1, 1000)]))
        self.file('big.1.0001.heap.pb.gz', rows)
        self.show(self.dir.name)
        self.assertEqual(self.shown(), [sum(r[1][3] for r in rows)])
        holes = self.browser.js('const c = document.getElementById("flame"), [w, h] = [c.width, c.height / 11], d = c.getContext("2d").getImageData(0, 0, w, c.height).data;'
                                'return [...Array(11).keys()].map(row => [...Array(w).keys()].filter(x => !d[4 * (Math.floor((row + 0.5) * h) * w + x) + 3]).length)')
        self.assertEqual(holes, [0] * 11, 'boxes narrower than a pixel are seen')
        self.browser.pointer('#flame', (3, 63), (3, 63), button=True)
        self.assertLess(self.shown()[0], sum(r[1][3] for r in rows))

    # ---- links, files, hostile names ----

    def test_a_link_shows_the_same(self):
        self.show(self.server())
        self.browser.click('#kinds [data-value=block]')
        self.browser.click('[data-value=table]')
        self.drag(2, 4)
        self.browser.keys('#search', 'lock')
        rows = self.rows()
        fragment = self.browser.fragment()
        self.show(os.path.join(self.dir.name, 'p'), fragment=fragment)
        self.assertEqual(self.rows(), rows)
        self.assertEqual(list(rows), ['await_lock'])

    def test_a_range_that_was_edited_by_hand_is_whole(self):
        directory = self.server()
        for edited in '', '&r=', '&r=0', '&r=x,y', '&r=0,Infinity':
            self.show(directory, fragment='#k=block&t=delay&x=0' + edited)
            self.assertEqual(self.shown(), [self.top('--type', 'delay', '--kind', 'block', directory)[0]])
            self.assertNotIn('NaN', self.browser.js('return location.hash'), edited)

    def test_a_link_has_the_order_and_the_theme(self):
        self.show(self.server())
        self.browser.click('[data-value=table]')
        self.browser.click('#table th:last-child')
        self.browser.click('#theme')
        order, paper = list(self.rows()), self.browser.js('return getComputedStyle(document.body).backgroundColor')
        self.assertEqual(order, sorted(order, reverse=True))
        self.show(os.path.join(self.dir.name, 'p'), fragment=self.browser.fragment())
        self.assertEqual([list(self.rows()), self.browser.js('return getComputedStyle(document.body).backgroundColor')], [order, paper])

    def test_the_shown_range_can_be_saved(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.drag(3, 5)
        path, _ = self.saved('pprof', '*.pb.gz')
        for name, _ in HEAP:
            files = self.files('heap', 3, 4, 5) if name.startswith('alloc') else self.files('heap', 5)
            for more in ([], ['--label', 'thread=logger']):
                self.assertEqual(self.top('--type', name, *more, path), self.top('--type', name, *more, *files))
        wanted = self.top('--raw', '--type', 'alloc_space', *self.files('heap', 3, 4, 5))
        if shutil.which('go'):
            done = subprocess.run(['go', 'tool', 'pprof', '-unit=B', '-top', path], capture_output=True, text=True, timeout=100, env=dict(os.environ, PPROF_TMPDIR=self.dir.name))
            found = {line.split()[-1]: line.split()[0] for line in done.stdout.splitlines() if line.endswith(tuple(wanted[1]))}
            found['operator new'] = found.pop('new', None)
            self.assertEqual(found, {name: f'{flat}B' if flat else '0' for name, (flat, _) in wanted[1].items()}, done.stdout + done.stderr)
        _, folded = self.saved('folded', '*.folded')
        self.assertEqual(sum(int(line.rsplit(b' ', 1)[1]) for line in folded.splitlines()), wanted[0])
        self.assertIn(b'main;serve;cache_fill 30000\n', folded)
        _, svg = self.saved('svg', '*.svg')
        self.assertIn(b'<title>cache_fill\n29.3 kB</title>', svg)
        _, png = self.saved('png', '*.png')
        self.assertEqual(png[:8], b'\x89PNG\r\n\x1a\n')

    def test_hostile_names_are_text(self):
        self.file('p/server.1.0001.heap.pb.gz', [([name, 'main'], [1, 1000, 1, 1000], {'thread': name}) for name in HOSTILE], comment='<b id=hurt>')
        self.show(os.path.join(self.dir.name, 'p'))
        for view in ('flame', 'table', 'leaks', 'info'):
            self.browser.click(f'[data-value={view}]')
        self.browser.click('[data-value=table]')
        for by in ('function', 'label thread'):
            self.browser.choose('#by', by)
            self.assertLessEqual({n.replace('\x00', '\ufffd') for n in HOSTILE if n.isprintable() and 'nul' not in n}, set(self.rows()))
        self.browser.click('[data-value=flame]')
        for i in range(len(HOSTILE)):
            self.box_at(i * 120 + 20, 45)
        for name in HOSTILE[:3]:
            self.browser.keys('#search', '\ue009a\ue000\ue003' + re.escape(name))
        _, svg = self.saved('svg', '*.svg')
        self.assertNotIn(b'<img', svg)
        self.assertEqual(self.browser.js('return [window.hurt === undefined, document.getElementById("hurt"), document.images.length]'), [True, None, 0])

    def test_files_are_dropped_onto_it(self):
        self.show(self.server())
        before = self.shown()
        with open(self.file('extra.pb.gz', [(['main'], [1, 1, 1, 4242])], HEAP, (START + 100) * SECOND), 'rb') as f:
            extra = base64.b64encode(f.read()).decode()
        types = HEAP[:2] + [('contentions', 'count'), ('delay', 'nanoseconds')]
        with open(self.file('events.pb.gz', [(['main'], [1, 7, 0, 0], {'end_timestamp_ns': START * SECOND})], types, START * SECOND), 'rb') as f:
            events = base64.b64encode(f.read()).decode()
        self.browser.js('const t = new DataTransfer(), bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));'
                        't.items.add(new File([bytes(arguments[0])], "extra.pb.gz")); t.items.add(new File([bytes(arguments[1])], "server.7.0001.events.pb.gz"));'
                        't.items.add(new File(["no profile"], "broken.pb.gz")); window.dispatchEvent(new DragEvent("drop", {dataTransfer: t, cancelable: true}))', extra, events)
        self.browser.wait(lambda: self.shown() == [before[0] + 4242])
        self.assertIn('broken.pb.gz', self.browser.text('#state'))
        self.assertNotIn('events', self.browser.text('#state'))  # the page leaves out files of kind `events`

    def test_a_file_that_is_dropped_has_the_names_that_top_gives_it(self):
        names = ['std::vector<int, std::allocator<int> >::_M_realloc_insert(int const&)', 'void f<A<B> >(A<B> const&)', 'operator new(unsigned long)', 'xmalloc',
                 'std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::push_back(char)', 'a::operator<(a const&, b)',
                 'x::{lambda(int)#1}::operator()(int) const', '(anonymous namespace)::g(int)', 'h(int) [clone .cold]', 'std::ostream& operator<< <char>(char)',
                 'operator bool()', 'A::operator new[](unsigned long)', '<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend', 'a->b<c>()', '[no stack]', 'dir/f<x>.c:1']
        rows = [([name, f'caller{i}', 'main'], [1, i + 1, 1, i + 1]) for i, name in enumerate(names)]
        rows.append(([0x400123, 'xmalloc', 'outer', 'main'], [1, 1000, 1, 1000]))
        rows.append(([0x400124], [1, 2000, 1, 2000]))
        path = self.file('a.pb.gz', rows)
        self.show(self.file('b.pb.gz', [(['w'], [1, 1])], MUTEX))
        with open(path, 'rb') as f:
            data = base64.b64encode(f.read()).decode()
        self.browser.js('const t = new DataTransfer(); t.items.add(new File([Uint8Array.from(atob(arguments[0]), c => c.charCodeAt(0))], "a.pb.gz"));'
                        'window.dispatchEvent(new DragEvent("drop", {dataTransfer: t, cancelable: true}))', data)
        self.browser.wait(lambda: self.browser.js('return document.querySelector("#kinds [data-value=heap]") !== null'))
        self.browser.click('#kinds [data-value=heap]')
        self.browser.click('[data-value=table]')
        self.assertEqual(self.flat_and_cum(), self.top(path)[1])
        self.browser.click('#fold')
        self.assertEqual(self.flat_and_cum(), self.top('--raw', path)[1])

    def test_joined_ticks_have_the_same_sums_in_fewer_rows(self):
        code = ''
        for name in ('decode.js', 'model.js'):  # without the table of kinds, which bundle.py fills in
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'src', 'view', name), encoding='utf-8') as f:
                code += f.read()
        found = self.browser.js("const KINDS = [{levels: ['inuse_space']}];" + code + """
            const kind = new Kind('heap', [{type: 'alloc_space', unit: 'bytes'}, {type: 'inuse_space', unit: 'bytes'}]);
            for (let t = 0; t < 2001; t++) {
                kind.ticks.push({start: t * 10, end: t * 10 + 10, process: 0, firstRow: kind.nRows, comments: [], rss: null});
                for (let node = 1; node < 6; node++)
                    kind.addRow(node, node % 2, [t + node, t % 2 ? -node : node + 1]);
            }
            const sums = to => {
                const by = {};
                for (let i = 0; i < kind.rowsOfTicks(0, kind.ticksWithin(-Infinity, to)[1])[1]; i++) {
                    const key = [kind.node.data[i], kind.labels.data[i]];
                    by[key] = by[key] || [0, 0];
                    kind.values.forEach((v, k) => { by[key][k] += v.data[i]; });
                }
                return by;
            };
            const all = () => [200, 9000, 15000, 20010].map(sums);
            const before = [all(), kind.nRows, kind.ticks.length];
            kind.joinOldest();
            return [...before, all(), kind.nRows, kind.ticks.length, kind.ticks[0].start, kind.ticks[0].end, kind.ticks.every((t, i) => kind.rowsOfTicks(i, i + 1)[1] - t.firstRow === 5)];
            """)
        self.assertEqual(found[0], found[3])
        self.assertEqual(found[1:3] + found[4:], [10005, 2001, 7505, 1501, 0, 20, True])

    def test_dark_and_light(self):
        self.show(self.server())
        paper = 'return getComputedStyle(document.body).backgroundColor'
        light = self.browser.js(paper)
        self.browser.click('#theme')
        self.assertNotEqual(self.browser.js(paper), light)


if __name__ == '__main__':
    unittest.main()
