# SPDX-License-Identifier: MIT
"""The page judges leaks in JavaScript as `deltaprof leaks` does in C (src/query/evidence.c): compares both on generated curves of many shapes,
with few and many ticks, of one and of two processes, that live, exit, or were killed, and on parts of the time.

    test_page_leaks.py DELTAPROF
"""
import glob
import gzip
import json
import math
import os
import random
import unittest

from page_case import SECOND, START, PageCase
from random_profile import number

RATE, TICK_S, STACKS = 524288, 15, 48
TICKS = [1, 2, 3, 4, 5, 8, 15, 31, 32, 33, 47, 64]
SEEDS = 12

# Blocks allocated and freed at tick n of N, given those in use: each function is a shape of a curve.
SHAPES = {
    'leak': lambda rng, n, N, live: (rng.randrange(0, 60), 0),
    'leak with turnover': lambda rng, n, N, live: (rng.randrange(20, 80), min(live, rng.randrange(10, 60))),
    'steady': lambda rng, n, N, live: (rng.randrange(20, 80), min(live, rng.randrange(20, 80))),
    'cache': lambda rng, n, N, live: (20, 0 if n < N / 2 else 20),
    'slows down': lambda rng, n, N, live: (int(400 / (n + 1)), 0),
    'load rises': lambda rng, n, N, live: (10 + 4 * n, live * 2 // 3),
    'one step': lambda rng, n, N, live: (300 if n == N // 2 else 1, 1 if live > 1 else 0),
    'steps': lambda rng, n, N, live: (80 if n % 5 == 4 else 0, 0),
    'once': lambda rng, n, N, live: (200 if not n else 0, 0),
    'waves': lambda rng, n, N, live: (50, min(live, int(50 + 45 * math.sin(n)))),
    'walk': lambda rng, n, N, live: rng.choice([(rng.randrange(99), 0), (0, rng.randrange(live + 1))]),
    'shrinks': lambda rng, n, N, live: (300 if not n else 0, min(live, 5)),
    'rare': lambda rng, n, N, live: (int(rng.random() < 0.2), int(rng.random() < 0.1 and live > 0)),
}


def curve(rng, n_ticks):
    """[values of a row] by tick: of blocks of one size, or of a buffer that doubles when it is full."""
    size = rng.choice([64, 3000, 65536, 600000, 4 << 20])
    if rng.random() < 0.15:
        full, used, out = 1 << rng.choice([20, 32]), 0, []
        pace, stops_at = full * rng.randrange(1, 50) // 10, n_ticks * rng.choice([1, 1, 0.5])
        for n in range(n_ticks):
            used += pace if n < stops_at else 0
            made = 0
            while used > full:
                full, made = full * 2, made + 1
            out.append([made, made * full, 1, full])
        return out
    shape, scale, live, out = rng.choice(list(SHAPES.values())), max(1, RATE // size // 8), 0, []
    for n in range(n_ticks):
        made, freed = shape(rng, n, n_ticks, live)
        live += made - freed
        out.append([made * scale, made * scale * size, live * scale, live * scale * size])
    return out


class Leaks(PageCase):
    def generate(self, seed, n_ticks, n_processes, marks):
        """marks: comments of the last files, whose rows have the memory in use of the tick before, at last a tenth of it."""
        rng = random.Random(seed)
        for pid in range(7, 7 + n_processes):
            curves = [curve(rng, n_ticks) for _ in range(STACKS)]
            for n in range(n_ticks + len(marks)):
                after = n - n_ticks
                rows = [([f'f{i}' for i in range(STACKS)], [0, 0, 0, 0])]  # so the functions have the same addresses in all files
                for i, points in enumerate(curves):
                    made, space, live, live_space = points[min(n, n_ticks - 1)]
                    if after >= 0:
                        made = space = 0
                    if after > 0:
                        live, live_space = live // 10, live_space // 10
                    rows.append((['malloc', f'f{i}', 'main'], [made, space, live, live_space]))
                data = gzip.decompress(self.profile(rows[:1] + [r for r in rows if any(r[1])], time_ns=(START + TICK_S * n) * SECOND, duration_ns=TICK_S * SECOND,
                                                    comment=marks[after] if after >= 0 else None))
                self.file(f'p{seed}/server.{pid}.{n + 1:04}.heap.pb.gz', gzip.compress(data + number(12, RATE)))
        return os.path.join(self.dir.name, f'p{seed}')

    def judged_by_command(self, *paths):
        answer = json.loads(self.run_it('leaks', '--json', '-n0', '--confidence', '0', *paths))['leaks']
        return {' ‹ '.join(f['function'] for f in leak['stack']): leak for leak in answer}

    def judged_by_page(self):
        self.browser.click('[data-value=leaks]')
        rows = self.browser.js('return [...document.querySelectorAll("#leaks tbody tr")].map(r => [r.lastChild.textContent, r.firstChild.textContent,'
                               '...[...r.children].slice(0, -1).map(c => Number(c.title.split(" ").pop()))])')
        return {stack: {'words': words, 'confidence': confidence, 'bytes': in_use, 'growth': growth, 'bytes_per_hour': hourly}
                for stack, words, confidence, in_use, growth, hourly in rows}

    def compare(self, page, command):
        words = {'growing': 'leak, confidence', 'doubling': 'leak, confidence', 'left': 'left at the end', 'filled': 'filled up', 'once': 'grew, then stopped',
                 'steady': ('steady', 'too few ticks')}
        for stack, wanted in command.items():
            if stack not in page:
                self.assertEqual(wanted['confidence'], 0, stack)
                continue
            found = page[stack]
            self.assertLess(abs(found['confidence'] - wanted['confidence']), 2e-5, (stack, found, wanted))
            for value in 'bytes', 'bytes_per_hour':
                self.assertLessEqual(abs(found[value] - wanted[value]), 2 + 1e-6 * abs(wanted[value]), (stack, value, found, wanted))
            self.assertTrue(found['words'].startswith(words[wanted['verdict']]), (stack, found, wanted))
        for stack, found in page.items():  # the command leaves out what does not grow
            if stack not in command:
                self.assertFalse(found['words'].startswith('leak'), (stack, found))
                self.assertTrue(found['confidence'] == 0 or found['bytes_per_hour'] <= 0, (stack, found))
        return sum(stack in page for stack in command), {wanted['verdict'] for wanted in command.values()}

    def test_many_curves_are_judged_as_by_the_command(self):
        n_compared, verdicts, n_leaks = 0, set(), 0
        for seed in range(SEEDS):
            marks = [[], ['#exit', '#ended'], ['#ended'], ['#exit']][seed % 4]
            directory = self.generate(seed, TICKS[(seed * 5 + 7) % len(TICKS)], 1 + seed % 3 // 2, marks)
            with self.subTest(seed=seed):
                self.show(directory)
                self.browser.click('#whole')
                for pid in sorted({os.path.basename(path).split('.')[1] for path in os.listdir(directory)}):
                    number = self.browser.js('return [...document.getElementById("process").options].find(o => o.textContent.endsWith(arguments[0])).value', f' {pid}')
                    self.browser.js('document.getElementById("process").value = arguments[0]; document.getElementById("process").dispatchEvent(new Event("change"))', number)
                    command = self.judged_by_command(*sorted(glob.glob(f'{directory}/server.{pid}.*')))
                    n, seen = self.compare(self.judged_by_page(), command)
                    n_compared, verdicts, n_leaks = n_compared + n, verdicts | seen, n_leaks + sum(c['confidence'] >= 0.5 for c in command.values())
        self.assertGreaterEqual(n_compared, 200)
        self.assertGreaterEqual(n_leaks, 20)
        self.assertLessEqual({'growing', 'doubling', 'left', 'filled', 'steady'}, verdicts)

    def test_parts_of_the_time_are_judged_as_by_the_command_on_their_files(self):
        directory = self.generate(99, 47, 1, [])
        for first, last in (1, 20), (9, 30), (30, 47), (42, 47):
            files = [f'{directory}/server.7.{n:04}.heap.pb.gz' for n in range(first, last + 1)]
            ends = [(START + TICK_S * n) * 1000 for n in (first - 1, last)]
            self.show(directory, fragment=f'#r={ends[0]},{ends[1]}')
            n, _ = self.compare(self.judged_by_page(), self.judged_by_command(*files))
            self.assertGreaterEqual(n, 10)


if __name__ == '__main__':
    unittest.main()
