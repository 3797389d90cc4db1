# SPDX-License-Identifier: MIT
"""Whether the summary names threads that will never wake, and no others: thirty-one programs in which threads wait for what cannot
happen any more, and thirty-four whose threads wait for long and will wake.

    bench.py BUILD all [NAME...]    # a table; a planted wait is asked for after one interval, a healthy one for 13 s
    bench.py BUILD short            # some of each: fails if one is wrong

A planted wait is named if the first sentence about the process is that, and about its files. A program with one thread writes no
files while it is blocked: there the process is enough. A sentence that only says that a wait is long accuses nobody.
"""
import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

BUILD = sys.argv[1]
DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
PROGRAMS = ('planted_cycles', 'planted_endings', 'healthy', 'healthy_outside')
ONE_THREAD = ('pipe_to_self', 'parent_and_child', 'dead_process', 'forked_with_lock')
SHORT = {
    'planted_cycles': ('lock_join_lock', 'mutex_and_rwlock', 'pipes_crossed_reading', 'parent_and_child'),
    'planted_endings': ('ended_reader', 'ended_producer', 'futex_without_flag'),
    'healthy': ('thread_per_connection', 'signal_handler_posts', 'timed_orders'),
    'healthy_outside': ('owner_in_child', 'condition_of_child', 'pipe_of_child', 'end_in_a_socket', 'sharer_of_memory'),
}
VERDICTS = 'eadlock of', 'which has ended', 'which never unlocks it here'
INTERVAL_S, HEALTHY_S = 1, 13


def is_planted(program):
    return program.startswith('planted')


def sentences(path):
    done = subprocess.run([DELTAPROF, 'summary', '--json', str(path)], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)['sentences']
    except ValueError:
        return []


def stuck(path):
    """Place and text of the sentence about threads that never wake."""
    return next(((i, s['text']) for i, s in enumerate(sentences(path))
                 if s['kind'] == 'stuck' and any(words in s['text'] for words in VERDICTS)), None)


def processes_of(session):
    """A session's processes: a program's first process and its children."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError):
            if os.getsid(int(pid)) == session:
                found.append(int(pid))
    return sorted(found)


def is_named(name, answers):
    of_process, of_files = answers
    return bool(of_process and of_process[0] == 0 and (name in ONE_THREAD or (of_files and of_files[0] == 0)))


def ask_when_ready(program, name, patient):
    """The answers from the process and from its files; patient: not before they name a planted wait, or 60 s are over."""
    with tempfile.TemporaryDirectory() as out:
        p = subprocess.Popen([DELTAPROF, 'run', '-o', f'out={out},interval={INTERVAL_S}s,log=none', '--',
                              os.path.join(BUILD, 'tests/wakes', program), name], stdout=subprocess.PIPE, text=True, start_new_session=True)
        pids = []
        try:
            assert p.stdout.readline() == 'ready\n', (program, name)
            until = time.monotonic() + (60 if patient else 2 * INTERVAL_S + 0.5 if is_planted(program) else HEALTHY_S)
            answers = None, None
            while time.monotonic() < until and not (patient and is_named(name, answers)):
                time.sleep(0.1 if patient else until - time.monotonic())
                pids = processes_of(p.pid)
                answers = next(filter(None, map(stuck, pids)), None), stuck(out)
            return answers
        finally:
            for pid in processes_of(p.pid):
                os.kill(pid, signal.SIGKILL)
            p.wait()
            p.stdout.close()


def list_modes(program):
    return subprocess.run([os.path.join(BUILD, 'tests/wakes', program)], capture_output=True, text=True, check=True).stdout.split()


def run_short():
    for program, names in SHORT.items():
        for name in names:
            if is_planted(program):
                answers = ask_when_ready(program, name, patient=True)
                assert is_named(name, answers), (name, answers)
            else:
                answers = ask_when_ready(program, name, patient=False)
                assert not any(answers), (name, answers)


def run_all(only):
    counts = {True: [0, 0], False: [0, 0]}
    cases = [(program, name) for program in PROGRAMS for name in list_modes(program) if not only or name in only]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for (program, name), answers in zip(cases, pool.map(lambda case: ask_when_ready(*case, patient=False), cases)):
            planted = is_planted(program)
            named = is_named(name, answers) if planted else any(answers)
            counts[planted][0] += named
            counts[planted][1] += 1
            print(f'{"planted" if planted else "healthy":8} {name:28} {"named" if named else "-":6} {"" if named == planted else "WRONG"}')
            for where, answer in zip(('process', 'files'), answers):
                if named != planted or only:
                    print(f'    {where}: {answer}')
            sys.stdout.flush()
    print(f'planted_named {counts[True][0]} of {counts[True][1]}')
    print(f'healthy_accused {counts[False][0]} of {counts[False][1]}')


if sys.argv[2] == 'short':
    HEALTHY_S = 2.5
    run_short()
else:
    run_all(sys.argv[3:])
