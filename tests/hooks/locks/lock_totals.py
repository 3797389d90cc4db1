# SPDX-License-Identifier: MIT
"""The sums of the lock profiles of a run."""
import reader
from harness import profiles

ALL = 'block_rate=1ns,mutex_rate=1,interval=100ms'


def totals(r, pid='*'):
    """{kind: {(names, labels): {type: value}}} of the lock kinds."""
    return {kind: reader.sum_profiles(profiles(r, kind=kind, pid=pid)) for kind in ('mutex', 'block', 'chain')}


def label(labels):
    return dict(labels)['lock']


def delay(total, lock):
    return sum(row['delay'] for (_, labels), row in total.items() if label(labels) == lock)
