# SPDX-License-Identifier: MIT
"""The graph of waiters and holders in the page: who waits for whom, followed by clicks and keys.

    test_page_waits.py DELTAPROF
"""
import json
import os
import unittest

from by_hand import chain
from page_case import SECOND, START, PageCase
from random_profile import MUTEX
from test_page_heat import EVENTS

LONG = {'reply': ['pthread_mutex_lock', 'reply', 'main'], 'fetch': ['pthread_mutex_lock', 'fetch', 'main'], 'flush': ['pthread_mutex_lock', 'flush', 'main']}
HELD = {'fetch': ['pthread_mutex_unlock', 'fetch', 'main'], 'flush': ['pthread_mutex_unlock', 'flush', 'main']}


class Waits(PageCase):
    def chains(self):
        """reply waits for fetch, which waits for flush, and flush for itself; the second tick has a hand-over too."""
        for n in (1, 2):
            when = (START + 10 * (n - 1)) * SECOND
            rows = [chain(n, n * 5 * 10**6, LONG['reply'], HELD['fetch'], lock='mutex'), chain(2, 3 * 10**6, LONG['fetch'], HELD['flush'], lock='rwlock'),
                    chain(1, 10**6, LONG['flush'], HELD['flush'], lock='mutex')]
            rows += [chain(1, 2 * 10**6, LONG['reply'], ['[hand-over]'], lock='mutex')] if n == 2 else []
            self.file(f'p/server.7.{n:04}.chain.pb.gz', rows, MUTEX, when, 10 * SECOND)
            self.file(f'p/server.7.{n:04}.block.pb.gz', [(LONG['reply'], [n, n * 5 * 10**6], {'lock': 'mutex'})], MUTEX, when, 10 * SECOND)
            self.file(f'p/server.7.{n:04}.mutex.pb.gz', [(HELD['fetch'], [n, n * 5 * 10**6], {'lock': 'mutex'})], MUTEX, when, 10 * SECOND)
        return os.path.join(self.dir.name, 'p')

    def column(self, side):
        return self.browser.js('return [...document.querySelectorAll(`#waitBoxes [data-side=${arguments[0]}] button`)].map(b => b.textContent)', side)

    def graph(self):
        return [self.column(side) for side in ('waiters', 'middle', 'holders')]

    def test_the_graph_begins_at_the_worst_holder_and_can_be_followed(self):
        self.show(self.chains(), fragment='#v=locks')
        self.assertEqual(self.graph(), [['reply15 ms'], ['fetch'], ['flush6 ms']])
        self.assertEqual(self.browser.text('#waitWords'), 'Others waited 15 ms for fetch. It waited 6 ms itself.')
        self.browser.click('#waitBoxes [data-side=holders] button')
        self.assertEqual(self.graph(), [['fetch6 ms', 'flush2 ms'], ['flush'], ['flush2 ms']])
        fragment = self.browser.fragment()
        self.browser.keys('#waitBoxes [data-side=waiters] button', '\ue007')  # Enter
        self.assertEqual(self.column('middle'), ['fetch'])
        self.browser.keys('#waitBoxes [data-side=waiters] button', '\ue007')
        self.assertEqual(self.graph(), [[], ['reply'], ['fetch15 ms', '[hand-over]2 ms']])
        self.show(os.path.join(self.dir.name, 'p'), fragment=fragment)
        self.assertEqual(self.column('middle'), ['flush'])

    def test_the_words_say_which_lock(self):
        at = {'lock': 'mutex', 'lock_at': 'Cache::instance+0x28'}
        self.file('p/server.7.0001.chain.pb.gz', [chain(1, 50 * 10**6, LONG['reply'], HELD['fetch'], **at)], MUTEX, START * SECOND, 10 * SECOND)
        self.file('p/server.7.0001.mutex.pb.gz', [(HELD['fetch'], [1, 50 * 10**6], at)], MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'p'), fragment='#v=locks')
        self.assertEqual(self.browser.js('return [...document.querySelectorAll("#waitList li")].map(l => l.textContent)'),
                         ['reply waited 50 ms for fetch (1 unlock, mutex: Cache::instance+0x28)'])
        self.assertIn('for its lock (Cache::instance+0x28), in', self.browser.text('#opening'))

    def test_a_holder_is_the_inlined_function_that_unlocked(self):
        self.file('p/server.7.0001.chain.pb.gz', [chain(1, 5 * 10**6, LONG['reply'], [('store', 'slow', 'work'), 'main'], lock='mutex')], MUTEX, START * SECOND, 10 * SECOND)
        self.file('p/server.7.0001.block.pb.gz', [(LONG['reply'], [1, 5 * 10**6], {'lock': 'mutex'})], MUTEX, START * SECOND, 10 * SECOND)
        self.show(os.path.join(self.dir.name, 'p'), fragment='#v=locks')
        self.assertEqual(self.column('middle'), ['store'])

    def test_the_sentences_are_the_pairs_of_waits(self):
        directory = self.chains()
        self.show(directory, fragment='#v=locks')
        words = self.browser.js('return [...document.querySelectorAll("#waitList li")].map(l => l.textContent)')
        self.assertEqual(words, ['reply waited 15 ms for fetch (3 unlocks, mutex)', 'fetch waited 6 ms for flush (4 unlocks, rwlock)', 'flush waited 2 ms for flush (2 unlocks, mutex)',
                                 'reply waited 2 ms until the lock was handed over (1 unlock, mutex)'])
        pairs = json.loads(self.run_it('waits', '--json', directory))['pairs']
        self.assertEqual([pair['ns'] for pair in pairs], [15 * 10**6, 6 * 10**6, 2 * 10**6, 2 * 10**6])
        self.browser.click('#waitList li:nth-child(2) button')
        self.assertEqual(self.column('middle'), ['flush'])

    def test_the_range_is_that_of_all_views(self):
        self.show(self.chains(), fragment='#v=locks')
        width = self.browser.js('return document.getElementById("chart").clientWidth')
        self.browser.pointer('#chart', (3, 60), (width / 2 + 3, 60), button=True)
        self.assertEqual(self.column('waiters'), ['reply5 ms'])

    def test_the_middle_shows_its_stacks(self):
        self.show(self.chains(), fragment='#v=locks')
        self.browser.click('#waitBoxes [data-side=middle] button')
        self.assertEqual(self.browser.js('return [document.querySelector("#kinds [aria-selected=true]").dataset.value, document.getElementById("search").value]'), ['mutex', '^fetch$'])

    def stuck(self):
        """Thread 8 waits from the fifth second of the second tick on; the third tick, made from the tables of the killed process, does not know it."""
        row = (LONG['reply'], [0, 5 * SECOND], {'lock': 'mutex'})
        other = (LONG['fetch'], [1, 10**6], {'lock': 'mutex'})
        for n, rows, comment in ((1, [other], None), (2, [other, row], '#stuck 5000 deadlock of 2 threads: thread 8 (closer) waits 5.000 s for mutex 0x10 held by thread 9, in pthread_mutex_lock() < reply() < main()'),
                                 (3, [other], '#tables')):
            self.file(f'd/server.7.{n:04}.block.pb.gz', rows, MUTEX, (START + 10 * (n - 1)) * SECOND, 10 * SECOND, comment=comment)
        at = lambda ms, **more: {'end_timestamp_ns': START * SECOND + ms * 10**6, 'thread id': 8, **more}  # noqa: E731
        events = [(LONG['fetch'], [0, 0, 1, 10**6, 0, 0, 0, 0], at(100, lock='mutex')), (['f', 'main'], [0, 0, 0, 0, 0, 0, 1, 10**7], at(200))]
        self.file('d/server.7.0001.events.pb.gz', events, EVENTS, START * SECOND, 10 * SECOND)
        return os.path.join(self.dir.name, 'd')

    def test_a_wait_that_did_not_end_lasts_until_the_end(self):
        self.show(self.stuck(), fragment='#k=block')
        self.assertEqual(self.shown(), [15 * SECOND + 3 * 10**6])
        self.browser.click('[data-value=events]')
        self.browser.choose('#type', 'delay')
        self.assertEqual(self.shown(), [15 * SECOND + 10**6])
        self.browser.click('[data-value=workers]')
        row = self.browser.js('return [...document.querySelectorAll("#threads tbody tr")].map(r => [...r.children].map(c => c.textContent))')[0]
        self.assertEqual((row[0], row[1], row[3]), ('closer', '8', '15.0 s'))

    def test_without_chains_there_is_no_graph_and_what_is_stuck_stands_on_top(self):
        self.file('s/server.7.0001.block.pb.gz', [(LONG['reply'], [1, 5 * 10**6], {'lock': 'mutex'})], MUTEX, START * SECOND, 10 * SECOND,
                  comment='#stuck 5000 thread 8 (worker) waits in reply for a mutex that thread 9 holds')
        self.show(os.path.join(self.dir.name, 's'), fragment='#v=locks')
        self.assertTrue(self.browser.js('return document.getElementById("waitGraph").hidden'))
        self.assertIn('thread 8 (worker) waits in reply', self.browser.text('#stuck'))


if __name__ == '__main__':
    unittest.main()
