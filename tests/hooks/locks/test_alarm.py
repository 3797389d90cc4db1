# SPDX-License-Identifier: MIT
"""The key `stuck`: one log line for each long wait for a lock that a thread holds, one for each deadlock, none for
idle threads. In every case the last thread waits for main, so that its line ends the wait for the others."""
import http.client
import json
import os
import re
import subprocess
import time

import reader
from harness import BUILD, environment, free_port, main, new_directory, three_tries, unless_busy, victim, wait_until

LAST = 'in waits_for_main'


def page(port):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    c.request('GET', '/debug/pprof/waits')
    return c.getresponse().read().decode()


def lines(how, n, see=None):
    """Waits for n lines and the line of the last thread. Returns the lines without the process's id, the last thread's
    line, and the result of see(port), which is called then."""
    port = free_port()
    with subprocess.Popen([victim('alarm'), how], env=environment(f'stuck=300ms,out=none,listen=127.0.0.1:{port}'),
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        try:
            os.set_blocking(p.stderr.fileno(), False)
            text = b''

            def logged():
                nonlocal text
                text += p.stderr.read() or b''
                return LAST in text.decode() and text.count(b'\n') > n
            wait_until(logged)
            seen = wait_until(lambda: see(port)) if see else None
            p.stdin.close()
            p.wait(60)
            text += p.stderr.read() or b''
        finally:
            p.kill()
    all_lines = [re.sub(r'^deltaprof\[\d+\]: ', '', line) for line in text.decode().splitlines()]
    last, others = [line for line in all_lines if LAST in line], [line for line in all_lines if LAST not in line]
    assert last[0].startswith('stuck: thread '), all_lines
    # A thread that comes 300 ms after another one makes that one's wait a line, and is not in it.
    unless_busy(len(last) == 1 and (n == 0 or len(others) == n), all_lines)
    return others, last[0], seen


def parts(line):
    """thread -> (lock, holder, stack) of each part of a line."""
    found = re.findall(r'thread (\d+) \(\w+\) waits \d+\.\d{3} s for (\S+) 0x\w+(?: \([^)]+\))? held by (.*?), in ([^;]+)', line)
    return {tid: (lock, holder, stack.split(' < ')) for tid, lock, holder, stack in found}


def that_a_circle_of_three_is_one_line():
    for how in ('circle', 'inherits', 'robust'):
        demand_circle(how)


def that_a_thread_of_cxx_begins_at_the_users_function():
    if not os.path.exists(os.path.join(os.path.dirname(victim('alarm')), 'victim_cxx_locks')):
        return
    with subprocess.Popen([victim('cxx_locks'), 'deadlock'], env=environment('stuck=300ms,out=none'), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        line = p.stderr.readline()
        p.stdin.close()
        p.wait(60)
    stacks = [stack for _, _, stack in parts(line.strip()).values()]
    assert 'deadlock of 2 threads' in line and sorted(stack[-1] for stack in stacks) == ['audit', 'transfer'], line


def demand_circle(how):
    (line,), _, _ = lines(how, 1)
    assert line.startswith('deadlock of 3 threads: '), line
    members = parts(line)
    assert len(members) == 3, line
    assert {f'thread {tid}' for tid in members} == {holder for _, holder, _ in members.values()}, line
    assert all(lock == 'mutex' and stack[0] == 'locks_two' for lock, _, stack in members.values()), line


def first_sentence(how):
    """The kind and text of what `deltaprof summary` says first of a program that was killed after two seconds of waiting."""
    out = new_directory()
    with subprocess.Popen([victim('alarm'), how], env=environment('interval=200ms,block_rate=1ns', out), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        try:
            wait_until(lambda: reader.files(out, 'block'))
            n = len(reader.files(out, 'block'))
            time.sleep(2)
            wait_until(lambda: len(reader.files(out, 'block')) > n + 2)
        finally:
            p.kill()
    found = json.loads(subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'summary', '--json', out], stdout=subprocess.PIPE, check=True, timeout=60).stdout)['sentences'][0]
    return found['kind'], found['text']


def that_threads_that_never_wake_are_the_first_sentence_of_the_summary():
    for how, words in (('circle', 'deadlock of 3 threads: '), ('inherits', 'deadlock of 3 threads: '), ('robust', 'deadlock of 3 threads: '),
                       ('left', 'deadlock of 3 threads: '), ('joins', 'deadlock of 2 threads: '), ('joins_only', 'deadlock of 3 threads: '), ('itself', 'deadlock of a thread with itself: '), ('behind', 'deadlock of a thread with itself: '),
                       ('ended', 'which has ended,'), ('ended_reader', ' held by 1 reader, thread ')):
        kind, said = first_sentence(how)
        assert kind == 'stuck' and words in said, (how, kind, said)


def that_a_lock_that_was_copied_by_fork_is_held_by_a_thread_of_the_parent():
    """The child names functions although it has loaded no module for that."""
    out = new_directory()
    with subprocess.Popen([victim('alarm'), 'parent'], env=environment('interval=200ms,block_rate=1ns', out), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        def first():
            answer = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'summary', '--json', out], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            return next((s['text'] for s in json.loads(answer)['sentences'] if s['kind'] == 'stuck'), None)
        try:
            wait_until(lambda: reader.files(out, 'block'))
            text = wait_until(first)
        finally:
            p.kill()
    assert re.search(r' waits \S+ s for mutex 0x\w+ \(\w+(?:\+0x\w+)?\) held by thread \d+ of the parent process when it forked, which never unlocks it here, in wants_to_lock\.$', text), text


def that_a_thread_that_does_not_move_at_a_pipe_is_told_with_the_one_that_could_move_it():
    """Of one that moves, only what it does."""
    outs = {how: new_directory() for how in ('pipe_and_mutex', 'pipe_and_join', 'pipe_moves')}
    victims = [subprocess.Popen([victim('alarm'), how], env=environment('interval=500ms,block_rate=1ns', out), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
               for how, out in outs.items()]

    def said():
        texts = {}
        for how, out in outs.items():
            answer = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'summary', '--json', out], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            texts[how] = next((s['text'] for s in json.loads(answer)['sentences'] if s['kind'] == 'stuck'), '')
        return texts if all(texts.values()) and texts['pipe_and_mutex'].count('a deadlock if') and texts['pipe_and_join'].count('a deadlock if') else None
    try:
        wait_until(lambda: all(reader.files(out, 'block') for out in outs.values()))
        texts = wait_until(said)
    finally:
        for p in victims:
            p.kill()
            p.wait()
            p.stdin.close()
            p.stderr.close()
    moves = texts.pop('pipe_moves')
    unless_busy('a deadlock if' not in moves and 'held by thread' in moves, moves)
    for how, first in (('pipe_and_mutex', r'mutex 0x\w+ \(\w+(?:\+0x\w+)?\) held by thread (\d+), in waits_for_ended'), ('pipe_and_join', r'the end of thread (\d+), in joins_a_writer')):
        found = re.search(rf': thread (\d+) \(\w+\) waits \S+ s for {first}; thread (\d+) \(\w+\) is in write\(\) of pipe:\[\d+\] for \d+ s or more'
                          r': a deadlock if thread (\d+) is to read from it\.$', texts[how])
        assert found and found[1] == found[4] and found[2] == found[3], texts[how]


def that_a_long_wait_for_a_lock_of_another_library_is_told_with_the_other_one():
    out = new_directory()
    with open(out + '.names', 'w') as names:
        names.write('waits_in_other_lock mutex\n')
    with subprocess.Popen([victim('alarm'), 'futexes'], env=environment(f'interval=1s,block_rate=1ns,lock_names={out}.names', out),
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        try:
            wait_until(lambda: reader.files(out, 'block'))

            def first():
                answer = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'summary', '--json', out], stdout=subprocess.PIPE, check=True, timeout=60).stdout
                said = next((s['text'] for s in json.loads(answer)['sentences'] if s['kind'] == 'stuck'), '')
                return said if said.count(' waits ') == 2 else None  # the second one came a little later
            text = wait_until(first)
        finally:
            p.kill()
    assert len(re.findall(r'thread \d+ \(victim_alarm\) waits \d+\.\d+ s for mutex 0x\w+ \(words(?:\+0x4)?\) in waits_in_other_lock', text)) == 2, text


def that_threads_that_may_still_wake_are_no_sentence_of_the_summary():
    for how in 'idle', 'abandoned', 'readers', 'writer', 'chain', 'released', 'shared', 'shared_rwlock', 'foreign', 'late_reader':
        kind, said = first_sentence(how)
        assert kind != 'stuck', (how, said)


def that_a_join_can_be_a_part_of_a_circle():
    (line,), _, text = lines('joins', 1, see=lambda port: 'a deadlock' in (text := page(port)) and text)
    found = re.match(r'deadlock of 2 threads: thread (\d+) \(\w+\) waits \S+ s for mutex 0x\w+ \(\w+(?:\+0x\w+)?\) held by thread (\d+), in (\w+)'
                     r'; thread (\d+) \(\w+\) waits \S+ s for the end of thread (\d+), in (\w+)$', line)
    assert found, line
    waiter, holder, waits, joiner, joined, joins = found.groups()
    assert (waiter, holder) == (joined, joiner) and waits == 'waits_for_ended' and joins == 'joins_with_lock', line
    assert f'thread {joiner} waits' in text and f'with a thread that has not ended, thread {joined}: a deadlock' in text, text


def that_a_circle_is_named_after_main_has_ended():
    (line,), last, _ = lines('left', 1)
    assert line.startswith('deadlock of 3 threads: ') and len(parts(line)) == 3, line
    assert 'held by thread' in last, last


def that_a_thread_that_waits_for_itself_is_named():
    (line,), _, _ = lines('itself', 1)
    (lock, holder, stack), = parts(line).values()
    assert line.startswith('deadlock of a thread with itself') and holder == 'itself' and stack[0] == 'locks_again', line


def that_a_thread_behind_a_circle_names_each_member_once():
    two, _, _ = lines('behind', 2)
    behind, = [line for line in two if 'waits_behind' in line]
    named = re.findall(r'(?:^stuck: |; )thread \d+ .*?, in (\w+)', behind)
    unless_busy(named != ['waits_behind'], behind)
    assert named == ['waits_behind', 'locks_again'], behind


def that_a_rwlock_names_its_writer_or_counts_its_readers():
    (line,), _, _ = lines('readers', 1)
    assert [p[:2] + (p[2][0],) for p in parts(line).values()] == [('rwlock-write', '2 readers', 'wants_to_write')], line
    (line,), _, _ = lines('writer', 1)
    ((lock, holder, stack),) = parts(line).values()
    assert lock == 'rwlock-read' and re.match(r'thread \d+$', holder) and stack[0] == 'wants_to_read', line
    assert holder + ' (' in line, line
    unless_busy(re.search(r' is in (pause\(\)|system call)', line), line)


def that_a_chain_is_followed_to_the_thread_that_sleeps():
    two, _, _ = lines('chain', 2)
    far, = [line for line in two if 'waits_for_both' in line]
    near, = [line for line in two if line != far]
    unless_busy(len(parts(far)) == 2, far)
    assert [p[2][0] for p in parts(far).values()] == ['waits_for_both', 'holds_and_waits'], far
    assert [p[2][0] for p in parts(near).values()] == ['holds_and_waits'], near


def that_a_holder_that_has_ended_is_named():
    (line,), _, _ = lines('ended', 1)
    assert re.search(r'held by thread \d+, which has ended, in waits_for_ended', line), line


def that_idle_threads_and_abandoned_waits_are_no_alarm():
    for how in ('idle', 'abandoned'):
        others, last, _ = lines(how, 0)
        assert others == [], others
        assert 'held by thread' in last, last


def that_the_last_release_is_known():
    others, last, text = lines('released', 0, see=page)
    assert others == [], others
    assert '; last released, while a thread waited, in releases_while_one_waits' in last, last
    paragraph, = [p for p in text.split('\n\n') if 'waits_for_main' in p]
    assert '  last released, while a thread waited, in\n    releases_while_one_waits\n' in paragraph, text


def that_a_lock_of_several_processes_names_its_holder():
    for how, kind in ('shared', 'mutex'), ('shared_rwlock', 'rwlock-read'):
        (line,), _, text = lines(how, 1, see=lambda port: 'wants' in (text := page(port)) and text)
        ((lock, holder, _),) = parts(line).values()
        assert lock == kind and re.match(r'thread \d+$', holder), line
        unless_busy(re.search(r'; thread \d+ \(\w+\) is in (pause\(\)|system call)', line), line)
        paragraph, = [p for p in text.split('\n\n') if 'wants' in p]
        assert f', held by {holder} (' in paragraph and 'another process' not in text, text


def that_a_holder_in_another_process_is_named_as_such():
    for how in ('foreign', 'foreign_robust'):
        (line,), _, text = lines(how, 1, see=lambda port: 'wants' in (text := page(port)) and text)
        ((lock, holder, _),) = parts(line).values()
        assert lock == 'mutex' and re.match(r'thread \d+ of another process$', holder), line
        assert f', held by {holder} (' in text, text


def that_readers_who_may_make_a_deadlock_are_named():
    """Those who locked by a try function, which has no hook."""
    for how, here, there in ('reader_waits_tried', 'writes_behind_a_reader', 'reads_and_locks'), \
            ('two_rwlocks_tried', 'reads_and_writes', 'reads_and_writes'):
        two, _, text = lines(how, 2, see=page)
        tids = {tid: stack[0] for line in two for tid, (lock, _, stack) in list(parts(line).items())[:1]}
        assert sorted(tids.values()) == sorted((here, there)), two
        line = next(line for line in two if line.startswith('stuck: ') and re.search(' in ' + here, line.split(';')[0]))
        waiter = re.match(r'stuck: thread (\d+)', line)[1]
        other, = set(tids) - {waiter}
        assert f'held by 1 reader, in {here}' in line, line
        unless_busy('; a deadlock if' in line, line)
        assert re.search(rf'; a deadlock if one of the readers is thread {other}, which waits in {there}', line), line
        assert f', held by 1 reader, a deadlock if one of them is thread {other} (' in text, text


def that_readers_who_wait_are_part_of_a_circle():
    (line,), _, _ = lines('reader_waits', 1)
    assert line.startswith('deadlock of 2 threads: '), line
    reads, writes = (next(item for item in parts(line).items() if item[1][2][0] == name) for name in ('reads_and_locks', 'writes_behind_a_reader'))
    assert (reads[1][1], writes[1][1]) == ('thread ' + writes[0], '1 reader, thread ' + reads[0]), line
    (line,), _, _ = lines('two_rwlocks', 1)
    assert line.startswith('deadlock of 2 threads: ') and {holder for _, holder, _ in parts(line).values()} == {
        '1 reader, thread ' + tid for tid in parts(line)}, line


def that_the_page_names_a_circle_once():
    _, _, text = lines('circle', 1, see=page)
    found = re.findall(r'^deadlock: thread (\d+) waits for thread (\d+), which waits for thread (\d+), which waits for the first one$',
                       text, re.M)
    assert len(found) == 1 and len(set(found[0])) == 3, text


main({name: three_tries(test) for name, test in globals().items() if name.startswith('that_')})
