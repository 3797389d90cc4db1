# SPDX-License-Identifier: MIT
"""Programs that are linked fully static, with the hooks that the linker's --wrap puts before malloc."""
import os

import reader
from harness import Run, main, new_directory, profiles, run, skip, victim

TYPES = ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')

if not os.path.exists(victim('static')):
    skip('no static libraries')


def start(name, *args):
    out = new_directory()
    r = run([victim(name), f'heap_rate=1,interval=20ms,exit_timeout=60s,out={out}', *args], preload=False)
    assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
    return Run(r.stdout, r.stderr, 0, out)


def check_counts(name):
    elsewhere = new_directory()
    r = start(name, elsewhere)
    books = {}
    for line in r.stdout.splitlines():
        pid, function, *values = line.split()
        books.setdefault(pid, {})[function] = tuple(map(int, values))
    assert len(books) == 2, r.stdout
    for pid, book in books.items():
        loaded = profiles(r, program=f'victim_{name}', pid=pid)
        total = reader.sum_profiles(loaded)
        seen = {f: tuple(reader.by_function(total, t, set(book)).get(f, 0) for t in TYPES) for f in book}
        assert seen == book, (pid, seen, book)
        for p in loaded:
            assert all(s.names[-1] == '_start' or 'clone3' in s.names[-1] or 'start_thread' in s.names
                       for s in p.samples if set(s.names) & set(book)), p.path
    parent = list(books)[-1]
    answer = os.path.join(elsewhere, f'victim_{name}.{parent}.0001.heap.pb.gz')
    os.rename(os.path.join(elsewhere, 'answer.pb.gz'), answer)
    total = reader.sum_profiles([reader.load(answer)])
    book = {f: v for f, v in books[parent].items() if f != 'make_in_child'}
    assert {f: tuple(reader.by_function(total, t, set(book)).get(f, 0) for t in TYPES) for f in book} == book


def that_a_static_program_is_counted_exactly():
    check_counts('static')


def that_a_static_position_independent_program_is_too():
    check_counts('static_pie')


def that_new_and_delete_count_for_their_caller():
    if not os.path.exists(victim('static_cxx')):
        skip('no C++ compiler')
    r = start('static_cxx')
    total = reader.sum_profiles(profiles(r, program='victim_static_cxx'))
    seen = {f: tuple(row.get(t, 0) for t in TYPES) for (names, _), row in total.items()
            for f in ('make_array(unsigned long)',) if names[0] == f}
    assert seen == {'make_array(unsigned long)': (1000, 100000, 500, 50000)}, (seen, list(total))
    strings = [row['alloc_objects'] for (names, _), row in total.items()
               if any('make_string' in n for n in names) and not any('operator new' in n for n in names)]
    assert sum(strings) == 1000, total


def that_both_lock_profiles_are_written():
    for argv, locks in ((['static_locks', 'turns', '8', '800', '5'], {'mutex'}),
                        (['static_lock_mix', os.environ.get('DELTAPROF_STRESS_MS', '1000')],
                         {'mutex', 'rwlock-read', 'rwlock-write', 'cond', 'sem', 'spin', 'barrier', 'join'})):
        out = new_directory()
        r = run([victim(argv[0]), *argv[1:]], preload=False,
                extra={'DELTAPROF_CONF': f'block_rate=1ns,mutex_rate=1,interval=100ms,exit_timeout=60s,out={out}'})
        assert r.status == 0, (r.status, r.stderr)
        delay = {}
        for kind in ('mutex', 'block'):
            total = reader.sum_profiles(profiles(Run('', '', 0, out), kind=kind))
            for (_, labels), row in total.items():
                lock = dict(labels)['lock']
                delay[kind, lock] = delay.get((kind, lock), 0) + row['delay']
        assert {lock for kind, lock in delay if kind == 'block'} >= locks, delay
        for lock in ('mutex', 'rwlock-read', 'rwlock-write'):
            assert delay.get(('mutex', lock)) == delay.get(('block', lock)), (lock, delay)


main(globals())
