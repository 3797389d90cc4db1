# SPDX-License-Identifier: MIT
"""The page of `deltaprof view` in a real browser: uses each control, and compares numbers with `deltaprof top` and pprof.

    test_page.py DELTAPROF
"""
import base64
import os
import unittest

from by_hand import chain
from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX


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
        self.assertEqual(self.shown(), [a['await_lock'], b['await_lock']])
        self.assertRegex(self.browser.text('#range'), '^A: .*; B: ')
        self.browser.click('[data-value=table]')
        change, was, now, _ = self.rows()['await_lock']
        self.assertEqual([change, was, now], [b['await_lock'] - a['await_lock'], a['await_lock'], b['await_lock']])
        self.browser.click('#whole')
        self.assertEqual(self.rows()['await_lock'][1], a['await_lock'])
        self.browser.click('#even')
        self.assertEqual(self.rows()['await_lock'][1], a['await_lock'] * 4)

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
        waiters = {name: ['await_lock', name, 'main'] for name in ('serve', 'reply')}
        holders = {name: ['pthread_mutex_unlock', name, 'main'] for name in ('checkpoint', 'sweep')}
        for n in range(1, 5):
            when = (START + 10 * (n - 1)) * SECOND
            chains = [chain(n, n * 10**6, waiters['serve'], holders['checkpoint'], lock='mutex'), chain(1, 3 * 10**5, waiters['reply'], holders['checkpoint'], lock='mutex'),
                      chain(2, 10**5, waiters['reply'], holders['sweep'], lock='mutex')]
            self.file(f'pairs/server.7.{n:04}.chain.pb.gz', chains, MUTEX, when, 10 * SECOND)
            self.file(f'pairs/server.7.{n:04}.block.pb.gz', [(waiters['serve'], [n, n * 10**6], {'lock': 'mutex'}), (waiters['reply'], [3, 4 * 10**5], {'lock': 'mutex'})],
                      MUTEX, when, 10 * SECOND)
            self.file(f'pairs/server.7.{n:04}.mutex.pb.gz', [(holders['checkpoint'], [n + 1, n * 10**6 + 3 * 10**5], {'lock': 'mutex'}), (holders['sweep'], [2, 10**5], {'lock': 'mutex'})],
                      MUTEX, when, 10 * SECOND)
        return os.path.join(self.dir.name, 'pairs')

    def partners(self):
        """(the title's first words, {the first frame of a stack but await_lock: [delay in us, waits]}) of the pairs that are shown."""
        title = self.browser.text('#pairsTitle').split(':')[0]
        return title, {stack.removeprefix('await_lock ‹ ').split(' ‹ ')[0]: [ns // 1000, n] for stack, (ns, _, n) in self.rows('#pairs').items()}

    def click_row(self, table, words):
        self.browser.js('[...document.querySelectorAll(arguments[0] + " tbody tr")].find(r => r.lastChild.textContent.includes(arguments[1])).click()', table, words)

    def test_a_click_on_a_waiter_shows_its_holders_and_the_other_way_round(self):
        self.show(self.pairs())
        self.browser.click('#kinds [data-value=block]')
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [11200, 14], 'sweep': [400, 8]}))
        self.browser.click('[data-value=locks]')
        self.click_row('#waiters', 'reply')
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [1200, 4], 'sweep': [400, 8]}))
        fragment = self.browser.fragment()
        self.click_row('#pairs', 'sweep')
        self.assertEqual(self.browser.js('return document.querySelector("#kinds [aria-selected=true]").dataset.value'), 'mutex')
        self.assertEqual(self.partners(), ('who waited', {'reply': [400, 8]}))  # not those of checkpoint, which unlocks by the same function
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

    def test_a_hand_over_says_who_waited_or_why_that_is_not_known(self):
        waiter, over = ['await_lock', 'serve', 'main'], ['[hand-over]']
        rows = [(over, [2, 500], {'lock': 'mutex'}), (['pthread_mutex_unlock', 'checkpoint', 'main'], [2, 900], {'lock': 'mutex'})]
        self.file('over/server.7.0001.mutex.pb.gz', rows, MUTEX, START * SECOND, 10 * SECOND)
        self.file('over/server.7.0001.chain.pb.gz', [chain(2, 500000, waiter, over, lock='mutex')], MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'over'), fragment='#v=locks')
        self.click_row('#holders', '[hand-over]')
        self.assertEqual(self.partners(), ('who waited', {'serve': [500, 2]}))
        self.assertEqual(self.browser.js('return document.getElementById("chips").textContent'), '')
        self.browser.click('[data-value=locks]')
        self.click_row('#holders', 'checkpoint')
        self.assertTrue(self.browser.js('return document.getElementById("pairsBox").hidden'))
        self.browser.js('document.getElementById("search").value = ""')
        self.browser.keys('#search', ' \ue003')
        width = self.browser.js('return document.getElementById("flame").clientWidth')
        self.assertEqual(self.box_at(5, 27)[0], 'main')
        self.browser.pointer('#flame', (5, 27), (5, 27), button=True)
        self.assertIn('not known; no chain has this stack', self.browser.text('#pairsTitle'))
        self.assertFalse(self.browser.js('return document.getElementById("pairsBox").hidden'))
        self.file('none/server.7.0001.mutex.pb.gz', rows, MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'none'))
        self.browser.pointer('#flame', (width - 5, 27), (width - 5, 27), button=True)
        self.assertIn('there are no profiles of the kind chain', self.browser.text('#pairsTitle'))

    def test_dropped_files_have_their_pairs(self):
        self.show(self.server())
        self.browser.click('#kinds [data-value=block]')
        self.assertTrue(self.browser.js('return document.getElementById("pairsBox").hidden'))
        with open(os.path.join(self.pairs(), 'server.7.0003.chain.pb.gz'), 'rb') as f:
            data = base64.b64encode(f.read()).decode()
        self.browser.js('const t = new DataTransfer(); t.items.add(new File([Uint8Array.from(atob(arguments[0]), c => c.charCodeAt(0))], "server.9.0001.chain.pb.gz"));'
                        'window.dispatchEvent(new DragEvent("drop", {dataTransfer: t, cancelable: true}))', data)
        self.browser.wait(lambda: not self.browser.js('return document.getElementById("pairsBox").hidden'))
        self.assertEqual(self.partners(), ('held by', {'checkpoint': [3300, 4], 'sweep': [100, 2]}))

    def test_the_locks_are_those_of_all_ticks_though_the_page_began_at_the_peak(self):
        directory = self.server()
        self.file('p/server.7.0009.heap.pb.gz', [(['main'], [1, 1, 1, 10])], HEAP, (START + 80) * SECOND, 10 * SECOND)
        self.file('p/server.7.0009.block.pb.gz', [(['await_lock', 'serve', 'main'], [1, 1000], {'lock': 'mutex'})], MUTEX, (START + 80) * SECOND, 10 * SECOND)
        self.show(directory)
        self.browser.click('[data-value=locks]')
        self.assertEqual(self.rows('#waiters')['await_lock'][0], self.top('--kind', 'block', '--label', 'lock=mutex', directory)[0])
        self.assertEqual(self.browser.js('return document.querySelector("#kinds [aria-selected=true]").dataset.value'), 'block')
        self.browser.click('#kinds [data-value=heap]')
        self.browser.click('[data-value=flame]')
        self.assertEqual(self.shown(), [self.top('--type', 'inuse_space', *self.files('heap', 8))[0]])

    def test_controls_that_do_nothing_in_a_view_are_not_shown(self):
        self.show(self.server())
        seen = 'return [...document.querySelectorAll("nav [data-views]")].filter(e => e.offsetParent).map(e => (e.id || e.querySelector("select").id))'
        for view, controls in (('flame', {'type', 'mode', 'search', 'only', 'fold', 'invert', 'order', 'up', 'sandwich', 'save'}),
                               ('table', {'type', 'mode', 'by', 'search', 'only', 'fold', 'save'}), ('leaks', {'search'}), ('info', set())):
            self.browser.click(f'[data-value={view}]')
            self.assertEqual(set(self.browser.js(seen)), controls, view)

    def test_a_row_of_a_label_or_a_process_filters_the_flames(self):
        directory = self.server()
        self.file('p/server.8.0001.heap.pb.gz', [(['main'], [1, 111, 1, 222])], HEAP, START * SECOND, 75 * SECOND)
        self.show(directory)
        self.browser.choose('#type', 'alloc_space')
        for by, name, options in (('label thread', 'logger', ['--label', 'thread=logger']), ('process', 'server 8', ['--pid', '8'])):
            self.browser.click('[data-value=table]')
            self.browser.choose('#by', by)
            number = self.browser.js('return [...document.querySelectorAll("#table tbody tr")].findIndex(r => r.textContent.includes(arguments[0]))', name)
            self.browser.click(f'#table tbody tr:nth-child({number + 1})')
            total = self.top('--type', 'alloc_space', *options, directory)[0] if by != 'process' else 111
            self.assertEqual(self.shown(), [total], by)
            if by != 'process':
                self.assertEqual(self.browser.text('#chips'), 'thread logger ✕')
                self.browser.click('#chips button')
                self.assertEqual(self.shown(), [self.top('--type', 'alloc_space', directory)[0]])

    def test_processes_are_compared(self):
        directory = self.server()
        self.file('p/server.8.0001.heap.pb.gz', [(['cache_fill', 'main'], [1, 111, 1, 222])], HEAP, START * SECOND, 75 * SECOND)
        self.show(directory)
        number = {self.browser.text(f'#process option[value="{i}"]'): str(i) for i in (0, 1)}
        self.browser.choose('#process', number['server 7'])
        self.browser.click('#compare')
        self.browser.choose('#process', number['server 8'])
        self.assertEqual(self.shown(), [self.top(*self.files('heap', 8))[0], 222])
        self.assertRegex(self.browser.text('#range'), 'A: .* of server 7; B: .* of server 8')
        self.browser.click('[data-value=table]')
        self.assertEqual(self.rows()['cache_fill'][:3], [222 - 30000, 30000, 222])
        fragment = self.browser.fragment()
        self.show(directory, fragment=fragment)
        self.assertEqual(self.rows()['cache_fill'][:3], [222 - 30000, 30000, 222])

    def test_the_chart_shows_processes_and_labels_and_says_its_values(self):
        directory = self.server()
        self.file('p/server.8.0001.heap.pb.gz', [(['main'], [1, 111, 1, 20000])], HEAP, START * SECOND, 75 * SECOND)
        self.show(directory)
        for by, wanted in (('process', ['server 7', 'server 8']), ('label thread', ['(no thread)', 'logger'])):
            self.browser.choose('#layers', by)
            self.assertEqual(self.browser.js('return [...document.querySelectorAll("#legend span")].map(s => s.textContent)')[:2], wanted)
        self.browser.choose('#layers', 'process')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        said = self.box_at(width - 1, 60, '#chart')
        kb = self.top(*self.files('heap', 8))[0] / 1024
        self.assertIn(f'{kb:.1f} kB  server 7', said)
        self.assertIn(f'{20000 / 1024:.1f} kB  server 8', said)

    def test_locks_are_those_of_the_programs_own_functions(self):
        read = ['take_gil', 'read@/usr/lib/python3/socket.py', 'handle@app.py', 'main']
        self.file('p/server.7.0001.block.pb.gz', [(read, [1, 700], {'lock': 'gil'}), (['take_gil', 'select@/usr/lib/python3/selectors.py', 'main'], [1, 300], {'lock': 'gil'})],
                  MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'p'), fragment='#v=locks')
        flat = lambda: {name: n[0] for name, n in self.rows('#waiters').items() if n[0]}  # noqa: E731
        self.assertEqual(flat(), {'handle': 700, 'select': 300})
        titles = self.browser.js('return [...document.querySelectorAll("#locksView .pair h2")].map(h => h.textContent)')
        self.assertEqual(titles[:2], ['who waited: 1 us', 'who held: there is no mutex profile'])
        self.browser.click('#fold')
        self.assertEqual(flat(), {'take_gil': 1000})

    def test_what_is_empty_says_why(self):
        self.file('p/server.7.0001.block.pb.gz', [(['wait_for_work', 'main'], [1, 10**10], {'lock': 'cond'})], MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'p'), fragment='#v=table')
        self.assertIn('only idle waits', self.browser.text('#table'))
        self.browser.click('[data-value=locks]')
        self.assertIn('only idle waits', self.browser.text('#locksView .pair h2'))
        self.browser.click('#idle')
        self.assertEqual(self.browser.text('#locksView .pair h2'), 'who waited: 10 s')
        self.browser.click('[data-value=table]')
        self.browser.keys('#search', 'no_such_function')
        self.browser.click('#only')
        self.assertIn('nothing in this range matches', self.browser.text('#table'))

    def test_the_legend_has_functions_of_the_program_and_not_those_that_start_threads(self):
        rows = [(['malloc', 'xmalloc', work, 'start_thread', '__clone3'], [1, size, 1, size]) for work, size in (('parse', 4000), ('answer', 3000))]
        self.file('p/server.7.0001.heap.pb.gz', rows + [(['load', 'main', '_start'], [1, 2000, 1, 2000])])
        self.show(os.path.join(self.dir.name, 'p'))
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#legend span")].map(s => s.textContent)'), ['parse', 'answer', 'load'])
        stack = ['handle', 'serve', 'main']
        self.file('fork/server.7.0001.heap.pb.gz', [(['read', *stack], [1, 4000, 1, 4000]), (['run', 'command', *stack], [1, 3000, 1, 3000]), (['load', 'main'], [1, 3000, 1, 3000])])
        self.show(os.path.join(self.dir.name, 'fork'))
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#legend span")].map(s => s.textContent)'), ['read', 'command', 'load'], 'serve is divided')

    def test_the_legend_of_several_programs_names_them(self):
        directory = self.server()
        self.file('p/client.8.0001.heap.pb.gz', [(['main'], [1, 111, 1, 20000])], HEAP, START * SECOND, 75 * SECOND, program='/usr/bin/client')
        self.show(directory)
        names = self.browser.js('return [...document.querySelectorAll("#legend span")].map(s => s.textContent)')
        self.assertEqual([name for name in names if name.startswith('client: ')], ['client: main'])
        self.assertTrue(any(name.startswith('server: ') for name in names), names)
        self.browser.choose('#process', '0')
        self.assertNotIn(': ', self.browser.text('#legend'))

    def test_a_row_of_a_file_or_library_filters_the_flames(self):
        self.file('p/server.7.0001.heap.pb.gz', [(['list_new', 'inner@dir/a.py', 'outer@dir/b.py', 'main'], [1, 7, 1, 700]), (['main'], [1, 3, 1, 300])])
        self.show(os.path.join(self.dir.name, 'p'))
        for by, row, share in ('library', 'server', '100.0'), ('library', '[anon]', '70.0'), ('file', 'dir/b.py', '70.0'), ('file', '(no file)', '100.0'), ('line', 'main', '100.0'), \
                              ('line', 'inner@dir/a.py', '70.0'):
            with self.subTest(by=by, row=row):
                self.browser.click('[data-value=table]')
                self.browser.js('document.getElementById("search").value = ""')
                self.browser.keys('#search', ' \ue003')
                self.browser.choose('#by', by)
                self.browser.js('[...document.querySelectorAll("#table tbody tr")].find(r => r.lastChild.textContent.startsWith(arguments[0].split("@")[0])).click()', row)
                self.assertEqual(self.browser.text('#matched'), f'{share} % match')

    def test_tables_are_used_by_keys(self):
        self.show(self.server(), fragment='#v=table')
        stops = 'return document.querySelectorAll("#table tbody [tabindex=\'0\']").length'
        names = list(self.rows())
        self.assertEqual(self.browser.js(stops), 1)
        self.browser.keys('#table tbody tr', '\ue015\ue015\ue013')  # down, down, up
        focused = 'return document.activeElement.lastChild.textContent'
        self.assertEqual([self.browser.js(focused), self.browser.js(stops)], [names[1], 1])
        self.browser.js('window.dispatchEvent(new Event("resize"))')
        self.assertEqual(self.browser.js(focused), names[1], 'what is drawn anew keeps the focus')
        self.browser.js('document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}))')
        self.assertEqual(self.browser.js('return document.getElementById("search").value'), f'^{names[1]}$')

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


if __name__ == '__main__':
    unittest.main()
