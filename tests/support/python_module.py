# SPDX-License-Identifier: MIT
"""Shared by the tests of Python's module: where it is found, and what the function grow() of their programs allocated."""
import collections

from harness import BUILD, profiles

MODULE = {'PYTHONPATH': BUILD + '/runtime_hooks/python', 'PYTHONDONTWRITEBYTECODE': '1'}


def grown(r):
    """{labels: [objects, bytes / 100000]}, of blocks of at least 100,000 bytes"""
    got = collections.defaultdict(lambda: [0, 0])
    for p in profiles(r):
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            if 'grow' in s.names and objects and size / objects >= 100000:
                row = got[tuple(sorted((k, v) for k, v in s.labels if k != 'heap'))]
                row[0] += objects
                row[1] += size / 100000
    return dict(got)
