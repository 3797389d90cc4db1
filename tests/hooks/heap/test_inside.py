# SPDX-License-Identifier: MIT
"""An allocator that was linked into the executable is seen through its own hooks: by function, exactly, in each process."""
import glob
import os
import re
import shutil
import signal
import subprocess
import time

import reader
from harness import (BUILD, environment, is_of_peak, main, names_in, new_directory, profiles, run, skip, victim,
                     wait_until)

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
TYPES = ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')
VICTIMS = [name for name in ('inside_jemalloc', 'inside_tcmalloc') if os.path.exists(victim(name))]
if not VICTIMS:
    raise SystemExit(77)


def books(text):
    """{pid: {function: (four values)}} as the victim wrote it."""
    result = {}
    for line in text.splitlines():
        pid, function, *values = line.split()
        result.setdefault(int(pid), {})[function] = tuple(map(int, values))
    return result


def compare(r):
    written = books(r.stdout)
    assert r.status == 0 and len(written) == 2, (r.status, r.stdout, r.stderr)
    for pid, book in written.items():
        total = reader.sum_profiles(profiles(r, pid=pid))
        seen = {f: tuple(reader.by_function(total, t, set(book)).get(f, 0) for t in TYPES) for f in book}
        assert seen == book, (pid, {f: (seen[f], book[f]) for f in book if seen[f] != book[f]})
    return written


def that_every_function_of_the_allocator_is_seen_exactly():
    for name in VICTIMS:
        written = compare(run([victim(name)], 'heap_rate=1,interval=20ms'))
        ways = [function for function, values in list(written.values())[0].items() if values[0]]
        assert len(ways) >= 10, ways


def that_the_stack_begins_at_the_function_that_allocated():
    for name in VICTIMS:
        r = run([victim(name)], 'heap_rate=1')
        ways = {function for book in books(r.stdout).values() for function in book}
        leaves = {s.names[0] for p in profiles(r) for s in p.samples if ways & set(s.names)}
        assert {'je_own', 'imalloc_body_own'} < leaves <= ways, leaves


def that_samples_estimate_what_is_in_use():
    for name in VICTIMS:
        r = run([victim(name)], 'heap_rate=4k')
        for pid, book in books(r.stdout).items():
            total = reader.sum_profiles(profiles(r, pid=pid))
            made = sum(values[1] for values in book.values())
            seen = sum(reader.by_function(total, 'alloc_space', set(book)).get(f, 0) for f in book)
            # of some 10 MB, 2500 samples or more: the standard deviation is below 3 %
            assert 0.85 * made < seen < 1.15 * made, (seen, made)


def that_the_log_says_what_was_attached():
    for name in VICTIMS:
        allocator = name.split('_')[1]
        r = run([victim(name)], 'log=info')
        assert re.search(allocator + r' inside the executable \(\w+\): attached to its hooks\n', r.stderr), r.stderr
        assert 'attached' not in run([victim(name)]).stderr


def rust_server(*options):
    """A program in Rust with Debian's jemalloc inside. None: there is no rustc, or no static library."""
    [library, *_] = glob.glob('/usr/lib/*/libjemalloc_pic.a') or [None]
    if not library or not shutil.which('rustc'):
        return None
    program = os.path.join(new_directory(), 'rust_jemalloc')
    source = os.path.join(os.path.dirname(__file__), 'victim_rust_jemalloc.rs')
    subprocess.run(['rustc', '-O', *options, '-o', program, source, '-L', 'native=' + os.path.dirname(library), '-l',
                    'static=jemalloc_pic'], check=True)
    return program


def divided(out, process):
    """A profile of now that divides the resident memory: a tick leaves that out if it cannot. An OSError: not yet."""
    process.send_signal(signal.SIGUSR2)
    time.sleep(0.2)
    files = reader.files(out, 'heap', '*', process.pid)
    found = [p for p in map(reader.load, files[-3:]) if not is_of_peak(p)]
    whole = [p for p in found if any(c.startswith('#InuseRounding=') for c in p.comments)]
    if not whole:
        raise OSError(f'{process.poll()}, {files[-3:]}: {[p.comments for p in found][-1:]}')
    return whole[-1]


def in_use_beside_jemalloc(program, rate):
    """jemalloc's stats.allocated, and of the profile: the sum in use, what size classes add to it, and the leaf functions."""
    out = new_directory()
    process = subprocess.Popen([program], env=environment(f'heap_rate={rate},memory=1G,interval=0,signal=USR2', out),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        allocated, class_of_100 = map(int, process.stdout.readline().split())
        profile = wait_until(lambda: divided(out, process))
    finally:
        process.communicate()
    assert process.returncode == 0 and class_of_100 == 112, (process.returncode, class_of_100)
    in_use = sum(sample.values['inuse_space'] for sample in profile.samples)
    added = next(int(c.split('=')[1]) for c in profile.comments if c.startswith('#InuseRounding='))
    print(f'jemalloc stats.allocated {allocated}; heap_rate={rate}: in use {in_use} + size classes {added}, '
          f'{100 * (in_use + added) / allocated - 100:+.2f} %, without classes {100 * in_use / allocated - 100:+.2f} %')
    return allocated, in_use, added, {sample.names[0] for sample in profile.samples}


def that_memory_in_use_and_size_classes_are_what_jemalloc_counts():
    program = rust_server()
    if not program:
        skip('no rustc, or no libjemalloc_pic.a')
    allocated, in_use, added, leaves = in_use_beside_jemalloc(program, '1')
    assert abs(in_use + added - allocated) < 0.01 * allocated, (in_use, added, allocated)
    assert added > 0.03 * allocated, (added, allocated)  # requested bytes alone would not do
    assert not [name for name in leaves if 'hook_invoke' in name or 'mallocx' in name], leaves
    allocated, in_use, added, _ = in_use_beside_jemalloc(program, '4k')
    # of some 30 MB, 7500 samples: five standard deviations are 6 %
    assert abs(in_use + added - allocated) < 0.06 * allocated, (in_use, added, allocated)


def that_what_the_allocator_maps_is_no_mapping_of_the_program():
    for name in VICTIMS:
        r = run([victim(name)], 'heap_rate=1,mmap=on')
        names = names_in(r)
        assert 'by_malloc' in names and not any('pages_map' in n or 'SysAllocator' in n for n in names), names


def that_it_can_be_switched_off():
    for name in VICTIMS:
        for conf in ('heap_rate=1,inside=off', 'heap_rate=0'):
            r = run([victim(name)], conf + ',log=info')
            assert r.status == 0 and 'attached' not in r.stderr, r.stderr
            assert not any(n.startswith('by_') for p in profiles(r) for s in p.samples for n in s.names)


def start(name, conf=''):
    env = environment(preload=False)
    return subprocess.run([DELTAPROF, 'run', '-o', 'heap_rate=1,out=' + new_directory() + conf, '--', victim(name)], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


def that_run_warns_only_of_what_will_be_missed():
    for name in VICTIMS:
        r = start(name)
        assert r.returncode == 0 and r.stderr == '', r.stderr
        r = start(name + '_stripped')
        assert r.returncode == 0 and 'will not be seen' in r.stderr and '-Wl,--export-dynamic' in r.stderr, r.stderr
        r = start(name, ',inside=off')
        assert r.returncode == 0 and 'will not be seen' in r.stderr and 'inside=on' in r.stderr, r.stderr


def that_a_stripped_program_is_seen_if_it_exports_its_functions():
    for name in VICTIMS:
        compare(run([victim(name + '_exported')], 'heap_rate=1'))


def that_a_stripped_program_runs_unseen():
    for name in VICTIMS:
        r = run([victim(name + '_stripped')], 'heap_rate=1')
        assert r.status == 0 and len(books(r.stdout)) == 2, (r.status, r.stderr)


main(globals())
