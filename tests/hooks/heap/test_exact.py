# SPDX-License-Identifier: MIT
"""With every allocation sampled, the sums over all delta files equal what the victim did, function by function."""
import os
import subprocess
import time

import reader
from harness import HOOKS, Run, environment, main, names_in, new_directory, profiles, run, victim, wait_until

SECONDS = float(os.environ.get('DELTAPROF_TEST_SECONDS', '1'))
PLUGIN = os.path.join(HOOKS, 'libplugin.so')
TYPES = ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')


def counts_in(text):
    """{pid: {function: (four values)}} as the victim printed them."""
    result = {}
    for line in text.splitlines():
        pid, function, *values = line.split()
        result.setdefault(int(pid), {})[function] = tuple(map(int, values))
    return result


def compare(r, children=True):
    written = counts_in(r.stdout)
    assert len(written) >= 2, r.stdout
    if not children:
        parent = list(written)[-1]  # the last to write its counts
        written = {parent: written[parent]}
    for pid, counts in written.items():
        loaded = profiles(r, pid=pid)
        total = reader.sum_profiles(loaded)
        seen = {f: tuple(reader.by_function(total, t, set(counts)).get(f, 0) for t in TYPES) for f in counts}
        assert seen == counts, (pid, {f: (seen[f], counts[f]) for f in counts if seen[f] != counts[f]})
        for p in loaded:
            assert all(v >= 0 for s in p.samples for v in s.values.values()), p.path
    return written


def begin(out, *options, conf='heap_rate=1,interval=50ms'):
    """The program forks after its first tick only: that tick opens the module for names, which no child may open."""
    p = subprocess.Popen([victim('exact'), PLUGIN, *options], env=environment(conf, out), text=True, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: reader.files(out, 'heap', pid=p.pid))
    p.stdin.write('fork\n')
    p.stdin.flush()
    return p


def end(p, out):
    stdout, stderr = p.communicate(timeout=120)  # the program ends when its stdin ends
    return Run(stdout, stderr, p.returncode, out)


def run_it(*options, **kwargs):
    out = new_directory()
    p = begin(out, *options, **kwargs)
    time.sleep(SECONDS)
    wait_until(lambda: len(reader.files(out, 'heap', pid=p.pid)) > 10)
    r = end(p, out)
    assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
    return r, compare(r)


def that_eight_threads_with_fork_and_dlopen_are_counted_exactly():
    run_it()


def that_in_use_is_zero_when_all_was_freed():
    _, written = run_it('drain')
    parent = list(written)[-1]
    assert all(v[2:] == (0, 0) for v in written[parent].values())


def that_frame_pointers_count_the_same():
    run_it(conf='heap_rate=1,interval=50ms,unwind=fp')


def that_a_program_with_gaps_between_its_segments_has_whole_stacks():
    for name in 'stacks_gaps', 'stacks_gaps_pie':
        r = run([victim(name), '2000'], 'heap_rate=1')
        stacks = [s.names for p in profiles(r) for s in p.samples if 'branch_left' in s.names]
        assert len(stacks) >= 1000 and all('main' in names for names in stacks), (name, len(stacks), stacks[:1])
        assert '[truncated]' not in names_in(r), name


def that_the_default_memory_holds_400000_blocks_in_use():
    r = run([victim('many'), '400000'], 'heap_rate=1,interval=0')
    total = reader.sum_profiles(profiles(r))
    seen = [reader.by_function(total, t, {'allocate'}).get('allocate', 0) for t in ('alloc_objects', 'inuse_objects')]
    assert r.status == 0 and seen == [400000, 400000], (r.status, r.stderr, seen)


def that_failed_writes_lose_nothing():
    out = os.path.join(new_directory(), 'out')
    p = begin(out)
    lines = []

    def wait_for(words):
        for line in p.stderr:
            lines.append(line)
            if line.startswith(f'deltaprof[{p.pid}]: {words}'):
                return
        raise AssertionError((words, lines))

    for _ in range(3):  # puts a file in the place of the directory
        os.rename(out, out + '.away')
        open(out, 'w').close()
        wait_for('cannot write profiles in')
        os.unlink(out)
        os.rename(out + '.away', out)
        wait_for('profiles are written in')
    r = end(p, out)
    assert r.status == 0, r.stderr
    compare(r, children=False)  # a child that ended without the directory could write no file
    lines += r.stderr.splitlines()
    assert all('deltaprof[' in l for l in lines), lines
    own = [l for l in lines if f'[{p.pid}]' in l]
    assert 6 <= len(own) <= 12, own  # one line for each change: missing, not a directory, writable again


main(globals())
