# SPDX-License-Identifier: MIT
"""The page for everyone: contrast of all texts in both themes, windows from 320 to 2,560 pixels, what a screen reader finds, paper, saved pictures, and
words where there is nothing to show.

    test_page_manners.py DELTAPROF
"""
import datetime
import os
import re
import unittest

from page_case import SECOND, START, PageCase
from random_profile import HEAP, MUTEX

VIEWS = ('flame', 'table', 'locks', 'leaks', 'rss', 'workers', 'info')
# The contrast of WCAG 2.1 of each text that can be seen, against the colours that lie under it; [words, contrast] of those with too little.
PALE = r'''
const parse = text => { const n = text.match(/[\d.]+%?/g).map(Number); return text.startsWith('color(') ? [...n.slice(0, 3).map(v => v * 255), n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3]));
const light = rgb => { const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = node => { const own = parse(getComputedStyle(node).backgroundColor); return own[3] === 1 ? own.slice(0, 3) : over(own, node.parentElement ? ground(node.parentElement) : [255, 255, 255]); };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const found = [], check = (node, style, words) => {
    const under = ground(node), value = contrast(over(parse(style.color), under), under), size = parseFloat(style.fontSize);
    if (value < (size >= 24 || size >= 18.66 && style.fontWeight >= 700 ? 3 : 4.5))
        found.push([words, Number(value.toFixed(2))]);
};
let n = 0;
for (const node of document.querySelectorAll('body *')) {
    const words = [...node.childNodes].filter(c => c.nodeType === 3).map(c => c.data.trim()).join(' ').trim();
    if (words && node.checkVisibility() && !node.closest('.unseen, script, option') && ++n)
        check(node, getComputedStyle(node), words.slice(0, 40));
}
for (const field of document.querySelectorAll('input'))
    if (field.checkVisibility())
        check(field, getComputedStyle(field, '::placeholder'), field.placeholder);
return [n, found];
'''


class Manners(PageCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.command('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'light'}])

    @classmethod
    def command(cls, name, **parameters):
        return cls.browser.call('POST', cls.browser.session + '/goog/cdp/execute', {'cmd': name, 'params': parameters})

    def family(self):
        """Two processes: one that leaks, and one whose locks are waited for; the page has all its views, a verdict, and lanes."""
        for n in range(1, 31):
            when = (START + 10 * n) * SECOND
            self.file(f'p/leaky.7.{n:04}.heap.pb.gz', [(['session_new', 'serve', 'main'], [900, 900 << 10, 900 * n, 900 * n << 10])], HEAP, when, 10 * SECOND, comment=f'#RssTotal={n << 20}')
        for n in range(1, 5):
            when = (START + 10 * n) * SECOND
            self.file(f'p/worker.8.{n:04}.block.pb.gz', [(['await_lock', 'serve', 'main'], [n, n * 10**9], {'lock': 'mutex', 'thread': 'helper'})], MUTEX, when, 10 * SECOND)
            self.file(f'p/worker.8.{n:04}.mutex.pb.gz', [(['pthread_mutex_unlock', 'checkpoint', 'main'], [n, n * 10**9])], MUTEX, when, 10 * SECOND)
            self.file(f'p/worker.8.{n:04}.wall.pb.gz', [(['read', 'main'], [10, 6 * SECOND], {'state': state}) for state in ('io', 'running', 'lock')], [('samples', 'count'), ('wall', 'nanoseconds')],
                      when, 10 * SECOND)
        return f'{self.dir.name}/p'

    def svg(self):
        path, data = self.saved('svg', '*.svg')
        os.unlink(path)
        return data.decode()

    def test_each_text_has_the_contrast_of_wcag_aa(self):
        self.show(self.family())
        self.browser.click('#keys')
        for theme in ('light', 'dark'):
            for view in VIEWS:
                self.browser.click(f'[data-value={view}]')
                n, pale = self.browser.js(PALE)
                self.assertGreater(n, 30)
                self.assertEqual(pale, [], (theme, view))
            self.browser.click('#kinds [data-value=wall]')
            self.browser.click('[data-value=flame]')
            self.browser.click('#compare')
            self.assertEqual(self.browser.js(PALE)[1], [], theme)
            self.browser.click('#compare')
            self.browser.click('#theme')

    def test_names_on_boxes_have_the_contrast_of_wcag_aa(self):
        """Of all colours that boxes can have, as saved pictures tell them: functions of many files and libraries, growth and shrinkage, states."""
        light = ('const light = c => { const s = document.body.style; s.color = c; const rgb = getComputedStyle(document.body).color.match(/[0-9.]+/g).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 :'
                 ' ((v + 0.055) / 1.055) ** 2.4); s.color = ""; return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]; }; return arguments[0].map(light)')
        names = [(f'function_{n}', f'file_{n % 23}.c') for n in range(60)]
        for n in (1, 2):
            self.file(f'p/server.7.{n:04}.heap.pb.gz', [([name, 'main'], [1, 1, 1, 40 + (i * 7 + n * 13 * i) % 90]) for i, name in enumerate(names)], HEAP, (START + 10 * n) * SECOND, 10 * SECOND)
        self.file('p/server.7.0001.wall.pb.gz', [([f'f{i}', 'main'], [10, SECOND], {'state': s}) for i, s in enumerate(('running', 'runnable', 'lock', 'io', 'sleep', 'fault', 'other'))],
                  [('samples', 'count'), ('wall', 'nanoseconds')], START * SECOND, 10 * SECOND)
        for theme in ('light', 'dark'):
            for fragment in ('k=heap', f'k=heap&a={START * 1000},{(START + 20) * 1000},-1&r={(START + 20) * 1000},{(START + 30) * 1000}', 'k=wall'):
                self.show(f'{self.dir.name}/p', fragment=f'#{fragment}&d={theme}')
                svg = self.svg()
                ink, boxes = re.search(r'font-size="12" fill="([^"]+)"', svg)[1], sorted(set(re.findall(r'<rect x="[^"]+" y="[^"]+" width="[^"]+" height="[^"]+" fill="([^"]+)"/><text', svg)))
                self.assertGreater(len(boxes), 4)
                values = self.browser.js(light, [ink, *boxes])
                pale = [(box, (max(v, values[0]) + 0.05) / (min(v, values[0]) + 0.05)) for box, v in zip(boxes, values[1:])]
                self.assertEqual([p for p in pale if p[1] < 4.5], [], (theme, fragment))

    def test_nothing_is_cut_or_overlaps_from_320_to_2560_pixels(self):
        self.show(self.family())
        self.addCleanup(self.command, 'Emulation.clearDeviceMetricsOverride')
        self.browser.click('#keys')
        for width in (320, 390, 1400, 2560):
            self.command('Emulation.setDeviceMetricsOverride', width=width, height=900, deviceScaleFactor=1, mobile=False)
            for view in VIEWS:
                self.browser.click(f'[data-value={view}]')
                wide, beyond, over = self.browser.js(r'''
                    const seen = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.unseen, svg, #tip'));
                    const right = document.documentElement.clientWidth + 1, name = e => `${e.localName}#${e.id} ${e.textContent.slice(0, 30)}`, boxes = new Map(seen.map(e => [e, e.getBoundingClientRect()]));
                    const box = e => boxes.get(e), controls = seen.filter(e => e.matches('button, select, input, td, th, p, h1, h2, li, canvas, dt, dd')), over = [];
                    for (const [i, a] of controls.entries()) for (const b of controls.slice(0, i)) {
                        const p = box(a), q = box(b);
                        if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1 && !a.contains(b) && !b.contains(a) && !a.closest('nav') === !b.closest('nav'))
                            over.push(`${name(a)} | ${name(b)}`);
                    }
                    return [document.documentElement.scrollWidth - right, seen.filter(e => box(e).width && (box(e).right > right || box(e).left < 0)).map(name),
                            over];''')
                self.assertLessEqual(wide, 0, (width, view))
                self.assertEqual(beyond, [], (width, view))
                self.assertEqual(over, [], (width, view))

    def test_a_screen_reader_finds_the_tables(self):
        self.show(self.family())
        self.addCleanup(self.command, 'Emulation.clearDeviceMetricsOverride')
        for width in (1280, 390):  # rows are laid out in another way on narrow screens
            self.command('Emulation.setDeviceMetricsOverride', width=width, height=900, deviceScaleFactor=1, mobile=False)
            for view, label in (('table', 'the values of the flame graph as a table'), ('leaks', 'leaks'), ('workers', 'processes'), ('info', 'profiles')):
                self.browser.click(f'[data-value={view}]')
                nodes = [n for n in self.command('Accessibility.getFullAXTree')['nodes'] if not n['ignored']]
                roles = {}
                for node in nodes:
                    roles.setdefault(node['role']['value'], []).append(node.get('name', {}).get('value'))
                self.assertIn(label, roles['table'])
                self.assertGreaterEqual(min(len(roles['row']), len(roles['columnheader'])), 2)
                self.assertTrue(roles.get('cell') or roles.get('gridcell'), sorted(roles))
                self.assertEqual([role for role in ('button', 'combobox', 'searchbox', 'image') for name in roles.get(role, []) if not name], [], 'controls without a name')

    def test_the_dark_page_is_printed_light_and_whole(self):
        self.show(self.family(), fragment='#d=dark&v=table')
        self.assertTrue(self.browser.js('return document.documentElement.classList.contains("dark")'))
        self.browser.click('[data-value=flame]')
        self.browser.js('window.dispatchEvent(new Event("beforeprint"))')
        self.assertEqual(self.browser.js('const c = document.getElementById("chart"); return c.width / window.devicePixelRatio'), 1000)  # whatever the window's
        self.assertFalse(self.browser.js('return document.documentElement.classList.contains("dark")'))
        self.addCleanup(self.command, 'Emulation.setEmulatedMedia', media='')
        self.command('Emulation.setEmulatedMedia', media='print')
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("main *")].filter(e => e.checkVisibility() && e.scrollHeight > e.clientHeight + 2 && '
                                         'getComputedStyle(e).overflowY !== "visible").map(e => e.id)'), [])
        self.browser.js('window.dispatchEvent(new Event("afterprint"))')
        self.assertTrue(self.browser.js('return document.documentElement.classList.contains("dark")'))

    def test_a_saved_picture_is_whole_and_says_what_it_shows(self):
        self.show(self.family())
        whole, before = self.svg(), self.pixels()
        for _ in range(4):
            self.browser.keys('#flame', '+')
        self.browser.js('document.activeElement.blur()')
        self.assertNotEqual(self.pixels(), before)
        self.assertEqual(self.svg(), whole)  # though a part is seen
        _, png = self.saved('png', '*.png')
        width, height = (int.from_bytes(png[at:at + 4], 'big') for at in (16, 20))
        drawn = self.browser.js('const c = document.getElementById("flame"); return [c.width, c.height]')
        self.assertTrue(width >= drawn[0] and height > drawn[1], (width, height, drawn))
        for words in ('leaky 7', 'memory in use at ', 'a box is as wide as its value', time_words(START)):
            self.assertIn(words, whole)

    def test_what_is_empty_says_what_to_do(self):
        self.show(self.family(), fragment='#k=heap&v=table&q=nowhere&o=1')
        self.assertIn('clear the search', self.browser.text('#table'))
        for view, box in (('table', '#table'), ('leaks', '#leaks')):
            self.show(self.family(), fragment=f'#k=heap&v={view}&q=nowhere')
            self.assertIn('clear the search', self.browser.text(box), view)
        self.show(self.file('x', [(['main'], [1, 1])], MUTEX), fragment='#v=locks')
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#locksView .pair h2")].filter(h => /there is no|:/.test(h.textContent)).length'), 2)

    def test_controls_stay_in_their_places_for_another_kind(self):
        self.show(self.family(), fragment='#k=block')
        lefts = 'return ["whole", "search", "fold"].map(id => document.getElementById(id).getBoundingClientRect().left)'
        before = self.browser.js(lefts)
        self.browser.click('#kinds [data-value=mutex]')
        self.assertEqual(self.browser.js(lefts), before)

    def test_each_button_says_what_it_does(self):
        self.show(self.family())
        for view in VIEWS:
            self.browser.click(f'[data-value={view}]')
            silent = self.browser.js('return [...document.querySelectorAll("header button, #time button, nav button, #glance button, #sentences button")].filter(b => b.checkVisibility() && !b.title).map(b => b.textContent)')
            self.assertEqual(silent, [], view)
        self.browser.keys('#search' if view == 'flame' else '#keys', '?')
        words = self.browser.text('#help')
        for said in ('leaks', 'memory that grows without end', 'all time of all threads', 'which lock, who holds it'):
            self.assertIn(said, words)


def time_words(seconds):
    """The minute of a time, as pages write it."""
    return datetime.datetime.fromtimestamp(seconds + 10).strftime('%H:%M:')


if __name__ == '__main__':
    unittest.main(argv=['test_page_manners.py'])
