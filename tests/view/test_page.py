# SPDX-License-Identifier: MIT
"""The page of `deltaprof view` in a real browser: uses each control, and compares numbers with `deltaprof top` and pprof.

    test_page.py DELTAPROF
"""
import base64
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import unittest

import browser
from page_case import HOSTILE, SECOND, START, PageCase
from random_profile import HEAP, MUTEX

if not browser.CHROMIUM or not browser.DRIVER:
    print('no chromium, or no chromedriver')
    sys.exit(77)


class Page(PageCase):
    # ---- numbers ----

    def test_every_value_equals_that_of_top(self):
        directory = self.server()
        self.show(directory)
        self.browser.click('[data-value=table]')
        for kind, types in (('heap', HEAP), ('mutex', MUTEX)):
            self.browser.click(f'#kinds [data-value={kind}]')
            for name, _ in types:
                self.browser.choose('#type', name)
                total, rows = self.top('--kind', kind, '--type', name, directory)
                with self.subTest(name):
                    self.assertEqual(self.flat_and_cum(), rows)
        self.browser.click('#kinds [data-value=heap]')
        self.browser.click('[data-value=flame]')
        self.browser.choose('#type', 'inuse_space')
        self.assertEqual(self.shown(), [self.top('--type', 'inuse_space', directory)[0]])

    def test_unfolded_frames_are_those_of_top_raw(self):
        directory = self.server()
        self.show(directory)
        self.browser.click('[data-value=table]')
        self.browser.choose('#type', 'alloc_space')
        self.browser.click('#fold')
        self.assertEqual(self.flat_and_cum(), self.top('--raw', '--type', 'alloc_space', directory)[1])

    def test_the_interpreter_between_frames_of_its_language_is_left_out(self):
        path = self.file('p', [(['list_new', 'eval', 'inner@a.py', 'call', 'eval', 'outer@a.py', 'eval', 'main'], [1, 7, 1, 7]),
                               (['call', 'eval', 'outer@a.py', 'eval', 'main'], [1, 2, 1, 2])])
        self.show(path, fragment='#v=table')
        self.assertEqual(self.flat_and_cum(), self.top('--type', 'inuse_space', path)[1])
        self.assertEqual(self.flat_and_cum()['call'], [2, 2])
        self.browser.click('#fold')
        self.assertEqual(self.flat_and_cum(), self.top('--raw', '--type', 'inuse_space', path)[1])

    def test_a_dragged_range_is_the_sum_of_its_files(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        before = self.pixels('#chart')
        self.drag(3, 5)
        self.assertNotEqual(self.pixels('#chart'), before)
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', 3, 4, 5))[0]])
        self.browser.click('#since')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', 6, 7, 8))[0]])
        self.browser.click('#last')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', 8))[0]])
        self.browser.click('#whole')
        self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', *self.files('heap', *range(1, 9)))[0]])

    def test_in_use_is_at_the_end_of_the_range_and_retained_is_its_growth(self):
        self.show(self.server())
        self.drag(3, 5)
        at = {n: self.top('--type', 'inuse_space', *self.files('heap', n))[1] for n in (2, 5)}
        self.assertEqual(self.shown(), [at[5]['main'][1]])
        self.browser.choose('#mode', 'retained')
        self.browser.click('[data-value=table]')
        growth = {name: flat for name, (flat, _) in self.flat_and_cum().items() if flat}
        self.assertEqual(growth, {name: at[5][name][0] - at[2][name][0] for name in ('cache_fill', 'list_append')})

    def test_the_peak_is_found_and_shown_first_if_all_is_freed_at_the_end(self):
        directory = self.server()
        self.file('p/server.7.0009.heap.pb.gz', [(['main'], [1, 1, 1, 10])], HEAP, (START + 80) * SECOND, 10 * SECOND)
        self.show(directory)
        peak = self.top('--type', 'inuse_space', *self.files('heap', 8))[0]
        self.assertEqual(self.shown(), [peak])
        self.browser.click('#whole')
        self.assertEqual(self.shown(), [10])
        self.browser.click('#peak')
        self.assertEqual(self.shown(), [peak])

    def test_two_ranges_are_compared(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.browser.click('#kinds [data-value=block]')
        self.drag(1, 2)
        self.browser.click('#compare')
        self.drag(7, 8)
        a, b = ({n: f for n, (f, _) in self.top('--label', 'lock=mutex', *self.files('block', *numbers))[1].items()} for numbers in ((1, 2), (7, 8)))
        self.assertEqual(self.shown(), [a['pthread_mutex_lock'], b['pthread_mutex_lock']])
        self.assertRegex(self.browser.text('#range'), '^A: .*; B: ')
        self.browser.click('[data-value=table]')
        change, was, now, _ = self.rows()['pthread_mutex_lock']
        self.assertEqual([change, was, now], [b['pthread_mutex_lock'] - a['pthread_mutex_lock'], a['pthread_mutex_lock'], b['pthread_mutex_lock']])
        self.browser.click('#whole')
        uneven = self.rows()['pthread_mutex_lock'][1]
        self.browser.click('#even')
        self.assertEqual(self.rows()['pthread_mutex_lock'][1], a['pthread_mutex_lock'])
        self.assertEqual(uneven, a['pthread_mutex_lock'] * 4)

    def test_locks_show_waiters_beside_holders(self):
        directory = self.server()
        self.show(directory)
        self.browser.click('[data-value=locks]')
        self.assertEqual(self.rows('#waiters')['serve'][2], 36000000)
        self.assertEqual(self.rows('#holders')['checkpoint'][2], 36000000)
        self.assertNotIn('wait_for_work', self.rows('#waiters'))
        self.browser.click('#kinds [data-value=block]')
        self.browser.click('#idle')
        self.assertEqual(self.rows('#waiters')['wait_for_work'][0], 8 * 10**10)
        self.browser.click('#holders tbody tr')
        self.assertEqual(self.browser.js('return document.querySelector("#kinds [aria-selected=true]").dataset.value'), 'mutex')

    def pairs(self):
        """A server whose ticks have pairs: serve waits for checkpoint, and reply for checkpoint and, less, for sweep."""
        waiters = {name: ['pthread_mutex_lock', name, 'main'] for name in ('serve', 'reply')}
        holders = {name: ['pthread_mutex_unlock', name, 'main'] for name in ('checkpoint', 'sweep')}
        for n in range(1, 5):
            when = (START + 10 * (n - 1)) * SECOND
            pairs = [(n, n * 10**6, waiters['serve'], holders['checkpoint']), (1, 3 * 10**5, waiters['reply'], holders['checkpoint']),
                     (2, 10**5, waiters['reply'], holders['sweep'])]
            self.file(f'pairs/server.7.{n:04}.block.pb.gz', [(waiters['serve'], [n, n * 10**6], {'lock': 'mutex'}), (waiters['reply'], [3, 4 * 10**5], {'lock': 'mutex'})],
                      MUTEX, when, 10 * SECOND, pairs=pairs)
            self.file(f'pairs/server.7.{n:04}.mutex.pb.gz', [(holders['checkpoint'], [n + 1, n * 10**6 + 3 * 10**5], {'lock': 'mutex'}), (holders['sweep'], [2, 10**5], {'lock': 'mutex'})],
                      MUTEX, when, 10 * SECOND, pairs=pairs)
        return os.path.join(self.dir.name, 'pairs')

    def partners(self):
        """(the title's first words, {the second frame of a stack: [delay in us, waits]}) of the pairs that are shown."""
        title = self.browser.text('#pairsTitle').split(':')[0]
        return title, {stack.split(' ‹ ')[1]: [ns // 1000, n] for stack, (ns, _, n) in self.rows('#pairs').items()}

    def click_row(self, table, words):
        self.browser.js('[...document.querySelectorAll(arguments[0] + " tbody tr")].find(r => r.lastChild.textContent.includes(arguments[1])).click()', table, words)

    def test_a_click_on_a_waiter_shows_its_holders_and_the_other_way_round(self):
        self.show(self.pairs())
        self.browser.click('#kinds [data-value=block]')
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [11200, 14], 'sweep': [400, 8]}))
        self.browser.click('[data-value=locks]')
        self.click_row('#waiters', 'reply')
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [1200, 4], 'sweep': [400, 8]}))
        fragment = self.browser.js('return location.hash')
        self.click_row('#pairs', 'sweep')
        self.assertEqual(self.browser.js('return document.querySelector("#kinds [aria-selected=true]").dataset.value'), 'mutex')
        self.assertEqual(self.partners(), ('who waited', {'serve': [10000, 10], 'reply': [1600, 12]}))  # both unlock by the same function
        self.browser.click('[data-value=locks]')
        self.click_row('#holders', 'sweep')
        self.assertEqual(self.partners(), ('who waited', {'reply': [400, 8]}))
        self.show(os.path.join(self.dir.name, 'pairs'), fragment=fragment)
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [1200, 4], 'sweep': [400, 8]}))

    def test_a_click_in_the_flame_graph_shows_the_pairs_under_it(self):
        self.show(self.pairs())
        self.browser.click('#kinds [data-value=block]')
        width = self.browser.js('return document.getElementById("flame").clientWidth')
        y = next(y for y in range(5, 200, 4) if (self.box_at(width - 5, y) or [''])[0] == 'reply')
        self.assertEqual(self.box_at(5, y)[0], 'serve')
        self.browser.pointer('#flame', (width - 5, y), (width - 5, y), button=True)
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [1200, 4], 'sweep': [400, 8]}))
        self.browser.click('#invert')
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [11200, 14], 'sweep': [400, 8]}))
        self.browser.pointer('#flame', (5, y), (5, y), button=True)
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [10000, 10]}))
        self.browser.click('#invert')
        self.drag(1, 2)  # of eight eighths: the first of four ticks
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [1300, 2], 'sweep': [100, 2]}))

    def test_dropped_files_have_their_pairs(self):
        self.show(self.server())
        self.browser.click('#kinds [data-value=block]')
        self.assertTrue(self.browser.js('return document.getElementById("pairsBox").hidden'))
        with open(os.path.join(self.pairs(), 'server.7.0003.block.pb.gz'), 'rb') as f:
            data = base64.b64encode(f.read()).decode()
        self.browser.js('const t = new DataTransfer(); t.items.add(new File([Uint8Array.from(atob(arguments[0]), c => c.charCodeAt(0))], "server.9.0001.block.pb.gz"));'
                        'window.dispatchEvent(new DragEvent("drop", {dataTransfer: t, cancelable: true}))', data)
        self.browser.wait(lambda: not self.browser.js('return document.getElementById("pairsBox").hidden'))
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [3300, 4], 'sweep': [100, 2]}))

    def test_growth_names_functions_that_grow_steadily(self):
        self.show(self.server())
        self.browser.click('[data-value=leaks]')
        first = self.browser.js('return [...document.querySelectorAll("#leaks tbody tr")].map(r => r.lastChild.textContent)[0]')
        self.assertTrue(first.startswith('list_append'), first)
        verdict = self.browser.js('return document.querySelector("#leaks tbody tr").children[4].textContent')
        self.assertEqual(verdict, 'grows on: a leak?')

    def test_tables_can_be_by_library_file_line_process_and_label(self):
        self.show(self.server())
        self.browser.click('[data-value=table]')
        self.browser.choose('#type', 'alloc_space')
        for by, name, flat in (('library', 'server', 8 * 16900), ('file', '(no file)', 8 * 16900), ('line', 'list_append', 4000), ('process', 'server 7', 8 * 16900),
                               ('label thread', 'logger', 8 * 6400), ('label thread', '(no thread)', 8 * 10500)):
            self.browser.choose('#by', by)
            with self.subTest(by):
                self.assertEqual(self.rows()[name][0], flat)

    def test_processes_are_summed_or_shown_one_by_one(self):
        directory = self.server()
        self.file('p/server.8.0001.heap.pb.gz', [(['main'], [1, 111, 1, 222])], HEAP, START * SECOND, 75 * SECOND)
        self.show(directory)
        alone = self.top(*self.files('heap', 8))[0]
        self.assertEqual(self.shown(), [alone + 222])
        self.browser.choose('#process', '1' if 'server 8' == self.browser.text('#process option[value="1"]') else '0')
        self.assertEqual(self.shown(), [222])

    # ---- flames ----

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
        height = self.browser.js('return document.getElementById("flame").clientHeight')
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
        self.assertEqual(self.box_at(1000, 63)[0], 'cache_fill')
        self.browser.choose('#type', 'inuse_space')
        self.assertEqual(self.shown(), [30000], 'the zoom stays')
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
        fragment = self.browser.js('return location.hash')
        self.show(os.path.join(self.dir.name, 'p'), fragment=fragment)
        self.assertEqual(self.rows(), rows)
        self.assertEqual(list(rows), ['pthread_mutex_lock'])

    def saved(self, what, pattern):
        self.browser.choose('#save', what)
        path = self.browser.wait(lambda: [p for p in glob.glob(f'{self.downloads}/{pattern}') if os.path.getsize(p)])[0]
        with open(path, 'rb') as f:
            data = f.read()
        self.addCleanup(os.unlink, path)
        return path, data

    def test_the_shown_range_can_be_saved(self):
        self.show(self.server())
        self.browser.choose('#type', 'alloc_space')
        self.drag(3, 5)
        path, _ = self.saved('pprof', '*.pb.gz')
        wanted = self.top('--type', 'alloc_space', *self.files('heap', 3, 4, 5))
        self.assertEqual(self.top(path), wanted)
        if shutil.which('go'):
            done = subprocess.run(['go', 'tool', 'pprof', '-unit=B', '-top', path], capture_output=True, text=True, timeout=100, env=dict(os.environ, PPROF_TMPDIR=self.dir.name))
            found = {line.split()[-1]: line.split()[0] for line in done.stdout.splitlines() if line.endswith(tuple(wanted[1]))}
            self.assertEqual(found, {name: f'{flat}B' if flat else '0' for name, (flat, _) in wanted[1].items()}, done.stdout + done.stderr)
        _, folded = self.saved('folded', '*.folded')
        self.assertEqual(sum(int(line.rsplit(b' ', 1)[1]) for line in folded.splitlines()), wanted[0])
        self.assertIn(b'main;serve;cache_fill 30000\n', folded)
        _, svg = self.saved('svg', '*.svg')
        self.assertIn(b'<title>cache_fill</title>', svg)
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

    def test_joined_ticks_have_the_same_sums_in_fewer_rows(self):
        code = ''
        for name in ('decode.js', 'model.js'):
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'src', 'view', name), encoding='utf-8') as f:
                code += f.read()
        found = self.browser.js(code + """
            const kind = new Kind('heap', [{type: 'alloc_space', unit: 'bytes'}, {type: 'inuse_space', unit: 'bytes'}]);
            for (let t = 0; t < 2001; t++) {
                kind.ticks.push({start: t * 10, end: t * 10 + 10, process: 0, firstRow: kind.nRows, comments: [], rss: null,
                                 pairs: [{waiter: 1, holder: 2 + t % 4, n: 1, ns: t}]});
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
            const pairs = () => sumPairs(kind.ticks.flatMap(t => t.pairs)).map(p => [p.holder, p.n, p.ns]);
            const all = () => [...[200, 9000, 15000, 20010].map(sums), pairs()];
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
