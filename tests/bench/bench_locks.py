# SPDX-License-Identifier: MIT
"""Measures the cost of lock profiles: pairs of lock and unlock without a waiter, and contended locks. Budgets: a pair
costs at most 2 ns more in a process with threads, 0.5 ns without. A lock that is held for 2 us, with 10 us in between,
keeps at least 0.97 of its throughput. Tight loops are reported and have no budget."""
import os

from alternate import BUILD, WITHOUT, compare

LOCKS = os.path.join(BUILD, 'tests/bench/locks')
DEFAULT = {**WITHOUT, 'default rates': 'heap_rate=512k'}
EVERY = {**DEFAULT, 'every wait': 'block_rate=1ns,mutex_rate=1'}

for what in 'MUTEX', 'RWLOCK', 'SEM':
    for threads, words in (1, 'one thread'), (2, 'with threads'):
        compare(f'{what.lower()} pair, {words}', 'ns', [LOCKS, 'pair', str(threads), what, '9000000'], DEFAULT)
for threads, held, between in (2, 2000, 10000), (2, 100, 100), (8, 2000, 10000):
    compare(f'{threads} threads, {held} ns held, {between} ns between', 'turns/ms',
            [LOCKS, 'contended', str(threads), str(held), str(between), '500'], EVERY)
