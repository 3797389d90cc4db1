# SPDX-License-Identifier: MIT
"""A program linked to the core: the functions of deltaprof.h, and the profiles in the program's directory."""
import os
import pty
import re
import subprocess
import time

import reader
from harness import Run, environment, main, new_directory, profiles, skip, victim

CLI = os.path.join(os.environ['DELTAPROF_BUILD'], 'src/tool/cli/deltaprof')


def api(how, status=0, conf=None, wrap=(), program='api'):
    """Runs the victim in a new directory; out is its subdirectory `profiles`."""
    cwd = new_directory()
    env = environment(preload=False)
    env.pop('DELTAPROF_CONF', None)
    if conf is not None:
        env['DELTAPROF_CONF'] = conf
    done = subprocess.run([*wrap, victim(program), how], env=env, cwd=cwd, timeout=60, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == status, (how, done.returncode, done.stdout, done.stderr)
    return Run(done.stdout, done.stderr, done.returncode, os.path.join(cwd, 'profiles'))


def totals(r, function, **kwargs):
    total = reader.sum_profiles(profiles(r, **kwargs))
    return tuple(reader.by_function(total, t, {function}).get(function, 0) for t in ('alloc_objects', 'inuse_objects'))


def files(r):
    return sorted(os.listdir(r.out))


def that_every_call_answers_as_its_comment_says():
    r = api('answers')
    assert r.stderr == '', r.stderr


def that_each_emit_is_a_file_and_exit_is_the_last():
    r = api('emits')
    assert [p.seq for p in profiles(r)] == [1, 2, 3]
    assert [p.total('alloc_objects') for p in profiles(r)] == [10, 0, 5]
    assert [p.total('inuse_space') for p in profiles(r)] == [1000, 1000, 1500]
    assert totals(r, 'make') == (15, 15)
    assert {dict(s.labels).get('heap') for p in profiles(r) for s in p.samples} == {'pool'}
    assert r.stderr == ''


def that_a_child_counts_from_the_fork_and_holds_what_it_inherited():
    r = api('forks')
    idle, child = r.stdout.split()
    assert not any(f'.{idle}.' in f for f in files(r)), files(r)
    assert [p.seq for p in profiles(r, pid=child)] == [1, 2]
    assert totals(r, 'make_in_child', pid=child) == (6, 6)
    assert totals(r, 'make', pid=child) == (0, 10)
    parent = next(f.split('.')[1] for f in files(r) if f.split('.')[1] != child)
    assert totals(r, 'make', pid=parent) == (13, 13)
    assert totals(r, 'make_in_child', pid=parent) == (0, 0)
    assert len(files(r)) == 3, files(r)


def that_a_stuck_sink_delays_no_other():
    api('is-stuck')  # a sink, fork or exit that is delayed would wait for ever


def that_exit_waits_for_exit_timeout_and_not_for_ever():
    r = api('exits-in-time', program='api_agent')
    waited = time.monotonic() - float(r.stdout)
    assert waited >= 0.3, waited
    assert r.stderr.count('\n') == 1 and 'exit_timeout=300ms' in r.stderr, r.stderr


def that_the_agent_keeps_no_descriptor_of_the_host():
    api('closes', program='api_agent')


def that_the_interval_changes_while_it_runs():
    r = api('changes', program='api_agent')
    assert r.stderr == ''


def that_a_signal_asks_for_profiles():
    r = api('asks', program='api_agent')
    assert len(files(r)) in (2, 3)  # the last at exit, if there was anything


def that_the_agent_stops_when_told_and_starts_again():
    api('quiesces', program='api_agent')


def that_a_process_under_seccomp_gets_one_log_line_and_no_profiler():
    r = api('under-seccomp', program='api_agent')
    assert r.stderr.count('\n') == 1 and 'seccomp' in r.stderr, r.stderr


def that_keep_bounds_the_files():
    r = api('keeps')
    assert [p.seq for p in profiles(r)] == [9, 10, 11] or [p.seq for p in profiles(r)] == [8, 9, 10], files(r)


def that_exe_leaves_programs_alone():
    r = api('is-left-out')
    assert not os.path.exists(r.out) and r.stderr == ''


def that_the_environment_overrides_what_the_program_says():
    cwd = new_directory()
    r = api('keeps', conf=f'out={cwd}/%e-%p,keep=0')
    assert not os.path.exists(r.out)
    [name] = os.listdir(cwd)
    assert re.fullmatch(r'victim_api-\d+', name), name
    assert len(os.listdir(os.path.join(cwd, name))) >= 10


def that_a_bad_environment_profiles_nothing_and_says_why():
    r = api('is-left-out', status=1, conf='interval=15')
    assert 'DELTAPROF_CONF: interval=15: a time with its unit' in r.stderr, r.stderr


def one_line_each(r, errno):
    lines = [line for line in r.stderr.splitlines() if line.startswith('deltaprof[')]
    assert len(lines) == 2 and errno in lines[0] and 'again' in lines[1], r.stderr


def that_a_missing_directory_loses_nothing_and_is_logged_once():
    r = api('has-no-directory')
    one_line_each(r, 'ENOENT')
    assert totals(r, 'make') == (4, 4)
    assert not any(f.startswith('.') for f in files(r)), files(r)


def that_a_full_disk_loses_nothing_and_is_logged_once():
    script = 'mkdir profiles && mount -t tmpfs -o size=256k none profiles && "$0" "$1" && cp -r profiles kept'
    probe = subprocess.run(['unshare', '-m', 'true'], stderr=subprocess.DEVNULL)
    if probe.returncode:
        skip('no mount namespaces here')
    r = api('has-no-room', wrap=('unshare', '-m', 'sh', '-c', script))
    one_line_each(r, 'ENOSPC')
    r.out = os.path.join(os.path.dirname(r.out), 'kept')
    assert totals(r, 'make') == (13, 13)
    assert not any(f.startswith('.') for f in files(r)), files(r)


def that_a_crash_handler_on_a_small_stack_delivers():
    r = api('crashes', status=7)
    [p] = profiles(r)
    assert p.total('alloc_objects') == 100


def on_terminal(argv, conf):
    """The text that a program under `run` prints when its stderr is a terminal."""
    try:
        master, slave = pty.openpty()
    except OSError:
        return None  # a chroot without /dev/pts
    out = new_directory()
    p = subprocess.Popen([CLI, 'run', '-o', f'{conf},out={out}', '--', *argv], stderr=slave, stdout=subprocess.DEVNULL,
                         stdin=subprocess.DEVNULL, env=environment(preload=False))
    p.wait(timeout=60)
    os.close(slave)
    text = b''
    try:
        while piece := os.read(master, 4096):
            text += piece
    except OSError:  # EIO: the end
        pass
    os.close(master)
    return text.decode().replace('\r\n', '\n')


def that_only_the_program_that_run_started_prints_at_exit():
    script = '/bin/ls / > /dev/null; /bin/ls / > /dev/null; exit 0'
    text = on_terminal(['/bin/sh', '-c', script], 'heap_rate=1')
    if text is None:
        return print('no terminals here')
    assert len(re.findall(r'\d+ files? in .*, \d+ samples', text)) == 1, text
    text = on_terminal(['/bin/sh', '-c', script], 'heap_rate=1,log=none')
    assert text == '', text


def that_a_program_that_closes_stderr_at_its_end_gets_the_summary():
    text = on_terminal(['/bin/ls', '/'], 'heap_rate=1')
    if text is None:
        return print('no terminals here')
    assert re.search(r'\d+ files? in .*, \d+ samples', text), text
    text = on_terminal(['/bin/sh', '-c', 'exec 2>/dev/null; x=y'], 'heap_rate=1')
    assert text == '', text


def that_a_program_without_a_sample_is_told_which_rate_would_catch_it():
    text = on_terminal([victim('process'), 'return'], 'heap_rate=1G')
    if text is None:
        return print('no terminals here')
    assert re.search(r'no sample: \S+ bytes were allocated with heap_rate=1G; use heap_rate=\S+ to sample them', text), text


def that_nothing_is_printed_where_stderr_is_no_terminal():
    out = new_directory()
    done = subprocess.run([CLI, 'run', '-o', f'heap_rate=1,out={out}', '--', victim('process'), 'return'],
                          stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, env=environment(preload=False), timeout=60, text=True)
    assert done.returncode == 5 and done.stderr == '', done.stderr
    done = subprocess.run([CLI, 'run', '-o', f'heap_rate=1,cpu_rate=0,log=info,out={out}', '--', victim('process'), 'return'], text=True,
                          stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(preload=False), timeout=60)
    assert re.search(r': 1 file in', done.stderr), done.stderr


main(globals())
