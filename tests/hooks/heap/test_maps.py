# SPDX-License-Identifier: MIT
"""With mmap=on, mappings are counted as a separate heap: the pages that each function mapped, and those still mapped."""
import os

from harness import main, profiles, run, same, victim

PAGE = os.sysconf('SC_PAGESIZE')


def rows(r, pid=None):
    """{(function, heap): [allocations, bytes, objects in use, bytes in use]}."""
    found = {}
    kept = [p for p in profiles(r) if pid is None or p.pid == pid]
    newest = max(kept, key=lambda p: int(p.seq), default=None)
    for p in kept:
        for s in p.samples:
            labels = dict(s.labels)
            if labels.get('heap', '').startswith('mmap') and 'fork' not in labels:
                to = found.setdefault((s.names[0], labels['heap']), [0, 0, 0, 0])
                for i, type in enumerate(('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')):
                    to[i] += s.values[type] if i < 2 or p is newest else 0
    return found


def check(r, found):
    for line in r.stdout.splitlines():
        name, *values, heap = line.split()
        assert found.get((name, heap), [0, 0, 0, 0]) == [int(v) for v in values], (line, found)


def first_pid(r):
    return min((p.pid for p in profiles(r)), key=int)


def that_each_function_has_the_pages_that_it_mapped():
    r = same([victim('maps')], 'heap_rate=1,mmap=on,log=none')
    pid = first_pid(r)
    found = rows(r, pid)
    check(r, found)
    assert ('main', 'mmap') not in found, found  # calls that fail map nothing
    assert found[('breaks', 'mmap')] == [1, 8 * PAGE, 1, 5 * PAGE], found
    child = [p.pid for p in profiles(r) if p.pid != pid]
    assert child and list(rows(r, child[0]).values()) == [[1, 2 * PAGE, 1, 2 * PAGE]], rows(r, child[0])


def that_no_mapping_is_seen_without_the_key():
    r = same([victim('maps')], 'heap_rate=1,log=none')
    assert rows(r) == {}


def that_threads_and_handlers_lose_nothing():
    r = run([victim('maps'), 'race'], 'heap_rate=1,mmap=on,log=none')
    assert r.status == 0, r.stderr
    found = rows(r)
    lost = [c for p in profiles(r) for c in p.comments if 'changes of mappings' in c]
    if not lost:
        check(r, found)
        assert found[('map', 'mmap')][2:] == [0, 0], found
        assert found[('map', 'mmap')][0] >= 12000, found


def that_the_least_memory_is_enough_for_a_profile():
    for more in '', ',mmap=on', ',age=on', ',age=on,mmap=on,events=on':
        r = run([victim('full')], 'heap_rate=1,memory=4M' + more)
        assert r.status == 0 and 'cannot write' not in r.stderr, (more, r.stderr)
        allocated = sum(s.values['alloc_space'] for p in profiles(r) for s in p.samples
                        if 'heap' not in dict(s.labels))
        assert allocated >= int(r.stdout), (more, allocated, r.stdout)


def that_an_allocator_in_a_library_maps_nothing_for_the_program():
    r = run([victim('usable')], 'heap_rate=1,mmap=on,log=none', behind=[os.path.join(os.path.dirname(victim('usable')), 'libmapper.so')])
    assert r.status == 0, r.stderr
    assert rows(r) == {('maps', 'mmap'): [1, 3 * PAGE, 1, 3 * PAGE]}, rows(r)


main(globals())
