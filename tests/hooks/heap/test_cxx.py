# SPDX-License-Identifier: MIT
"""C++ under preload: a C++ library in a C program, new and delete in every form, exceptions, forced unwinding."""
import reader
from harness import BUILD, HOOKS, PRELOAD, main, new_directory, profiles, run, same, victim
import os
import shutil

PLUGIN = os.path.join(HOOKS, 'libplugin_cxx.so')
CONFS = ('heap_rate=512k', 'heap_rate=1', 'heap_rate=1,interval=5ms', 'heap_rate=0')


def totals(r, *functions):
    total = reader.sum_profiles(profiles(r))
    return [tuple(reader.by_function(total, t, {f}).get(f, 0) for t in
                  ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')) for f in functions]


def that_a_plugin_in_a_c_program_behaves_as_without_the_profiler():
    for conf in CONFS:
        r = same([victim('host'), PLUGIN], conf)
        assert 'destructors: 42' in r.stdout and 'caught: 104' in r.stdout, r.stdout


def that_a_plugin_works_behind_two_copies_of_the_profiler():
    """Each copy looks for the operators when the plugin is open; neither may take those of the other."""
    where = new_directory()
    second = os.path.join(where, 'lib', 'preload', 'second.so')
    os.makedirs(os.path.dirname(second))
    shutil.copy(PRELOAD, second)
    os.symlink(os.path.join(BUILD, 'src'), os.path.join(where, 'src'))
    r = run([victim('host'), PLUGIN], 'heap_rate=1', behind=[second])
    assert r.status == 0 and 'destructors: 42' in r.stdout, (r.status, r.stderr)


def that_deepbind_brings_a_second_malloc_and_pointers_cross():
    for conf in CONFS:
        same([victim('host'), PLUGIN, 'deepbind'], conf)


def that_new_and_delete_are_counted_once_for_their_caller():
    r = same([victim('host'), PLUGIN], 'heap_rate=1')
    new, array, main_ = totals(r, 'plugin_new', 'plugin_new_array', 'main')
    assert new == (1001, 101000, 1, 1000), new
    assert array == (1001, 202000, 1, 2000), array
    leaves_are_the_programs(r)


def leaves_are_the_programs(r):
    leaves = {s.names[0] for p in profiles(r) for s in p.samples}
    assert not any('operator new' in n or n.startswith('deltaprof') for n in leaves), leaves


def that_the_malloc_inside_an_unsampled_new_is_not_sampled():
    """1000 blocks of 100 bytes at one sample in 64 bytes: p = 0.79, so one block in five is not sampled."""
    r = same([victim('host'), PLUGIN], 'heap_rate=64')
    (objects, space, _, _), = totals(r, 'plugin_new')
    sigma = (1000 * 100 ** 2 * (1 - 0.79) / 0.79) ** 0.5
    assert abs(space - 101000) < 6 * sigma, (space, sigma)
    assert {p.period for p in profiles(r)} == {64}
    leaves_are_the_programs(r)


main(globals())
