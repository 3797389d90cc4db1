# SPDX-License-Identifier: MIT
"""The memory in use when a program began to end, and at its peak, is in a file that is marked so."""
import subprocess

from harness import Run, environment, free_port, main, new_directory, profiles, run, same, victim, wait_until

MIB = 1 << 20


def held(p):
    return sum(s.values['inuse_space'] for s in p.samples if any('hold' in name for name in s.names))


def says(p, mark):
    return mark in p.comments


def that_the_profile_of_the_end_is_made_before_destructors_run():
    for how in ('return', 'exit'):
        for what in ('atexit', 'on_exit', 'destructor'):
            r = same([victim('exit'), how, what], 'heap_rate=1')
            at_exit, ended = profiles(r)
            assert (held(at_exit), says(at_exit, '#exit'), says(at_exit, '#ended')) == (MIB, True, False), (how, what)
            assert (held(ended), says(ended, '#exit'), says(ended, '#ended')) == (0, False, True), (how, what)


def that_two_threads_in_exit_lose_nothing():
    """The second thread ends the process while the first one is in a handler of the program."""
    for how in 'return', 'exit':
        for what in 'two', 'two-at-unload':
            r = same([victim('exit'), how, what], 'heap_rate=1')
            assert r.status == 3, (how, what, r.status)
            ended = profiles(r)[-1]
            assert (held(ended), says(ended, '#ended')) == (2 * MIB, True), (how, what, held(ended), ended.comments)


def that_main_does_not_overtake_a_thread_in_exit():
    for _ in range(10):
        r = run([victim('exit'), 'overtaken'], 'heap_rate=1,interval=1h')
        assert r.status == 3, r.status
        assert held(profiles(r)[-1]) == MIB


def that_a_process_ends_when_its_main_thread_left_and_then_the_last_other_thread_ended():
    for how in 'exit', 'cancel', 'syscall':
        r = same([victim('exit'), 'leave', how], 'heap_rate=1,interval=1h')
        assert held(profiles(r)[-1]) == MIB, how


def that_a_process_keeps_the_status_of_a_main_thread_that_left_by_a_system_call():
    port = free_port()
    for conf in 'interval=1h', 'interval=10ms', f'interval=1h,listen=127.0.0.1:{port}':
        r = same([victim('exit'), 'leave-alone'], 'heap_rate=1,' + conf)
        assert r.status == 7, (conf, r.status)


def that_a_child_of_another_thread_ends_when_its_main_thread_left():
    for how in 'exit', 'cancel', 'syscall', 'return':
        r = same([victim('exit'), 'forked', how], 'heap_rate=1,interval=1h')
        assert r.status == 0 and profiles(r), (how, r.status, r.stderr)


def that_an_end_that_changes_nothing_has_one_file():
    p, = profiles(run([victim('exit'), 'return', 'none'], 'heap_rate=1'))
    assert held(p) == MIB and says(p, '#exit')


def that_no_frame_of_the_profiler_is_below_main():
    p, = profiles(run([victim('exit'), 'return', 'none'], 'heap_rate=1'))
    sample, = [s for s in p.samples if any('hold' in name for name in s.names)]
    below = sample.names[sample.names.index('main') + 1:]
    assert not any('dp_' in name or 'deltaprof' in name for name in below) and len(below) <= 3, below


def that_the_peak_has_a_file():
    out = new_directory()
    with subprocess.Popen([victim('exit'), 'peak'], env=environment('heap_rate=64k,interval=1h', out), stdin=subprocess.PIPE) as p:
        try:
            wait_until(lambda: any(held(f) > 50 * MIB for f in profiles(Run('', '', 0, out), check=False)))
        finally:
            p.communicate(timeout=60)
    r = Run('', '', p.returncode, out)
    marked = [f for f in profiles(r) if says(f, '#peak')]
    assert held(marked[-1]) == max(map(held, profiles(r))) and held(profiles(r)[-1]) < 10 * MIB


def that_the_profile_of_the_end_counts_the_bytes_since_the_last_sample_too():
    counts = []
    for rate in '1', '64k':
        p = profiles(run([victim('exit'), 'return', 'small'], f'heap_rate={rate}'))[0]
        counts += [comment for comment in p.comments if comment.startswith('#allocated ')]
    assert len(counts) == 2 and counts[0] == counts[1], counts


main(globals())
