# SPDX-License-Identifier: MIT
"""Programs that are linked with the preload object: nothing starts by itself, and a stuck reader delays no other."""
import os
import shutil
import tempfile

import reader
from harness import Run, main, new_directory, profiles, run, skip, victim


def that_a_linked_program_starts_the_profiler_itself():
    for conf in ('heap_rate=1', 'heap_rate=1,interval=10ms'):
        out = new_directory()
        r = run([victim('linked'), f'{conf},exit_timeout=60s,out={out}'], preload=False)
        assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
        assert r.stdout == 'start: 0\nwrite: 0, bytes, samples\nstop: 0, again -114\n', r.stdout
        names = {n for p in profiles(Run('', '', 0, out)) for s in p.samples for n in s.names}
        assert 'make_between' in names and 'make_before' not in names and 'make_stopped' not in names, names


def that_the_static_libraries_are_enough():
    out = new_directory()
    r = run([victim('linked_static'), f'heap_rate=1,out={out}'], preload=False)
    assert r.status == 0 and r.stdout == 'start: 0\nwrite: 0, bytes, samples\nstop: 0, again -114\n', (r.stdout, r.stderr)
    rows = [s.values for p in profiles(Run('', '', 0, out)) for s in p.samples]
    assert sum(v['alloc_objects'] for v in rows if v['alloc_space'] == 100 * v['alloc_objects']) == 20000, rows


def that_a_setuid_program_obeys_no_variable():
    if os.getuid():
        skip('not root')
    place = tempfile.mkdtemp()  # not in the scratch directory, which only root may enter
    try:
        out = os.path.join(place, 'out')
        os.chmod(place, 0o755)
        os.mkdir(out, 0o700)
        program = shutil.copy(victim('linked_static'), place)
        log = os.path.join(out, 'log')
        conf = {'DELTAPROF_CONF': f'heap_rate=1,log={log},out={out}/profiles,listen=nonsense'}
        for mode, obeys in (0o755, True), (0o4755, False):
            os.chmod(program, mode)
            user = [] if obeys else ['setpriv', '--reuid', 'nobody', '--regid', 'nogroup', '--clear-groups']
            r = run([*user, program, 'heap_rate=1'], preload=False, extra=conf)
            assert r.stdout.startswith('start: -22\n' if obeys else 'start: 0\n'), (r.stdout, r.stderr)
            conf['DELTAPROF_CONF'] = conf['DELTAPROF_CONF'].replace(',listen=nonsense', '')
        assert os.listdir(out) == [], os.listdir(out)
    finally:
        shutil.rmtree(place)


def that_a_thread_whose_counter_is_trapped_may_wait_and_report():
    r = run([victim('clockless'), new_directory()], preload=False)
    if r.status != 77:
        assert (r.status, r.stdout, r.stderr) == (0, 'write 0, bytes yes\n', ''), (r.status, r.stdout, r.stderr)


def that_three_consumers_each_get_everything_whatever_fails():
    out = new_directory()
    r = run([victim('consumers'), out, os.environ.get('DELTAPROF_TEST_SECONDS', '1.5')], preload=False)
    assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
    book = {f: tuple(map(int, values)) for _, f, *values in (line.split() for line in r.stdout.splitlines())}
    for consumer in (1, 2, 3):
        loaded = profiles(Run('', '', 0, out), pid=consumer)
        assert len(loaded) > 5
        total = reader.sum_profiles(loaded)
        for f, values in book.items():
            seen = tuple(reader.by_function(total, t, set(book)).get(f, 0) for t in
                         ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space'))
            assert seen == values, (consumer, f, seen, values)
        for a, b in zip(loaded, loaded[1:]):  # each window begins where the last one ended
            assert abs(a.time_ns + a.duration_ns - b.time_ns) < 1000000, (a.time_ns, a.duration_ns, b.time_ns)


def that_a_linked_program_writes_no_files_unasked():
    out = new_directory()
    r = run([victim('linked'), 'heap_rate=1'], preload=False, cwd=out)
    assert r.status == 0 and r.stderr == '' and not profiles(Run('', '', 0, out)), r.stderr


def that_a_preload_starts_a_linked_program_as_well():
    r = run([victim('linked'), 'heap_rate=1'], 'heap_rate=1')
    assert r.stdout.startswith('start: -114\n'), (r.stdout, r.stderr)
    total = reader.sum_profiles(profiles(r))
    assert reader.by_function(total, 'alloc_objects', {'make_before'}) == {'make_before': 100}


def that_a_reader_that_never_reads_delays_neither_fork_nor_others_nor_exit():
    for conf in ('heap_rate=1,interval=20ms', 'heap_rate=1'):
        out = new_directory()
        r = run([victim('stuck'), f'{conf},out={out},exit_timeout=500ms'], preload=False)
        assert r.status == 0, (r.status, r.stderr)
        before, stuck, other, emit = (int(x) for x in r.stdout.split())
        assert other == 0 and emit == 0, (other, emit)  # a call that is delayed would wait for ever
        print('    fork, worst of 50:', before, 'us; while a reader is stuck:', stuck, 'us')


def that_a_thread_that_waits_for_the_program_is_not_waited_for():
    """Nor does a signal handler hang that comes in while the profiler's threads end."""
    r = run([victim('late'), f'unix:{new_directory()}/socket'], preload=False)
    assert (r.status, r.stdout) == (0, 'stopped or late\n' * 2 + 'handled\n'), (r.status, r.stdout, r.stderr)


main(globals())
