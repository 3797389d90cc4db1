# SPDX-License-Identifier: MIT
"""Shared by the tests of victims that make one block in make_last and end with status 5."""
import reader
from harness import profiles, same, victim

WITH_AND_WITHOUT_AGENT = ('heap_rate=1', 'heap_rate=1,interval=5ms')


def last(r, program='process'):
    """How many blocks of make_last are in the files: allocated, in use. They are found by size: a process that ends by
    _exit loads no module, so its profile may have no names."""
    rows = reader.sum_profiles(profiles(r, program='victim_' + program)).values()
    return tuple(sum(row[objects] for row in rows if row[space] == 1234 * row[objects])
                 for objects, space in (('alloc_objects', 'alloc_space'), ('inuse_objects', 'inuse_space')))


def ends(how, *args, program='process', status=5, kept=(1, 1), confs=WITH_AND_WITHOUT_AGENT, **kwargs):
    """Runs the victim with and without the profiler; checks its status, and the blocks of make_last in its files."""
    for conf in confs:
        r = same([victim(program), how, *args], conf, **kwargs)
        assert r.status == status, (how, r.status, r.stdout)
        if kept is not None:
            assert last(r, program) == kept, (how, conf, last(r, program))
    return r
