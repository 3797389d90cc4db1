# SPDX-License-Identifier: MIT
"""Stacks through a program's own code that has no unwind data: by its frame pointers on x86_64, else and where it is interrupted by its instructions."""

from harness import main, profiles, run, skip, victim

CHAIN = ['bare_plain', 'bare_large', 'bare_moving', 'bare_many', 'bare_ends', 'main']


def names_of(sample):
    return [f.function or '' for f in sample.frames]


def without_libc(names):
    return [name for name in names if name in CHAIN or name.startswith(('bare_', 'allocates', 'handles'))]


def heap_stacks():
    r = run([victim('bare')], 'heap_rate=1,cpu_rate=0,interval=0')
    assert r.status == 0 and not r.stderr, r.stderr
    samples = [(names_of(s), s.values['alloc_objects']) for p in profiles(r) for s in p.samples if s.values['alloc_space']]
    return [(names, n) for names, n in samples if {'allocates', 'allocates_for_sort', 'handles'} & set(names)]


def that_frames_of_every_form_are_passed():
    found = [(names, n) for names, n in heap_stacks() if names[0] == 'allocates']
    assert sum(n for _, n in found) == 32, found
    for names, _ in found:
        assert names[1:len(CHAIN) + 1] == CHAIN and '[truncated]' not in names, names


def that_callbacks_of_libc_are_passed():
    found = [names for names, _ in heap_stacks() if names[0] == 'allocates_for_sort']
    assert found and all(without_libc(names) == ['allocates_for_sort', 'bare_compare', 'bare_sorts', 'main'] for names in found), found


def that_an_interrupted_function_without_a_frame_is_passed():
    found = [names for names, _ in heap_stacks() if names[0] == 'handles']
    assert len(found) == 1, found
    names = without_libc(found[0])
    assert names in (['handles', 'bare_leaf', 'bare_spins', 'main'], ['handles', 'bare_spins', 'main'], ['handles', 'main']), names


def that_stacks_of_cpu_time_are_whole():
    r = run([victim('bare'), 'cpu'], 'heap_rate=0,cpu_rate=1ms,interval=0')
    assert r.status == 0, r.stderr
    if 'cpu_rate: with this kernel' in r.stderr:
        skip(r.stderr)
    found = [(names_of(s), s.values['cpu']) for p in profiles(r, kind='cpu') for s in p.samples]
    bare = [(names, ns) for names, ns in found if names[0] == 'bare_leaf']
    assert bare, found
    assert all(names[:3] == ['bare_leaf', 'bare_spins', 'main'] for names, _ in bare), bare


main(globals())
