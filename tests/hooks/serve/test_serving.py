# SPDX-License-Identifier: MIT
"""deltaprof serve: one endpoint for all processes of a directory of tables."""
import collections
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.request

import reader
from harness import BUILD, environment, main, new_directory, reachable_by, skip, victim, wait_until
from serving import BYTES, DELTAPROF, EXACT, Serving, made


def that_processes_are_summed_until_they_are_killed():
    """Two clients at their own pace get the same sums, and so does a client that asks for all since the start."""
    with Serving() as s:
        first = s.start(1000, 'wait')
        assert made(s.profile('delta_heap?cursor=a')) == {str(first.pid): 1000}
        second = s.start(300, 'wait')
        others = [s.start(10 * i, 'wait') for i in range(1, 5)]
        delta = s.profile('delta_heap?cursor=a')
        expected = {str(second.pid): 300, **{str(p.pid): 10 * i for i, p in enumerate(others, 1)}}
        assert made(delta) == expected, made(delta)
        assert made(delta, 'inuse_space')[str(first.pid)] == 500 * BYTES, made(delta, 'inuse_space')
        assert made(s.profile('delta_heap?cursor=a')) == {}
        for p in [second, *others]:
            p.kill()
            p.wait()
        wait_until(lambda: s.ended() == 5)
        last = s.profile('delta_heap?cursor=a')
        assert made(last) == {} and made(last, 'inuse_space') == {str(first.pid): 500 * BYTES}, made(last, 'inuse_space')
        late = s.profile('delta_heap?cursor=b')
        assert made(late) == {str(first.pid): 1000, 'ended': 400}, made(late)
        total = s.profile('heap')
        assert made(total) == made(late) and total.types[0] == ('alloc_objects', 'count')
        assert made(s.profile(f'heap?pid={first.pid}')) == {str(first.pid): 1000}
        assert s.get(f'heap?pid={second.pid}', 404).startswith(b'pid:')


def that_short_processes_are_not_missed():
    """Those that end by themselves before anybody looks, and those that are killed; files are written for these only."""
    with Serving() as s:
        out = new_directory()
        for i in range(30):
            how = 'wait' if i % 2 else 'end'
            p = s.start(7, how, conf=EXACT.replace('out=none,', ''), out=out)
            if how == 'wait':
                p.kill()
            p.wait()
        wait_until(lambda: s.ended() == 30)
        assert sum(made(s.profile('delta_heap')).values()) == 210
        assert sum(made(s.profile('allocs')).values()) == 210
        assert sorted(os.listdir(s.tables)) == ['cursors', 'serve'], (os.listdir(s.tables), s.stop(), s.errors)
        files = [reader.load(os.path.join(out, name)) for name in os.listdir(out) if name.endswith('.heap.pb.gz')]
        assert sum(n for f in files for n in made(f).values()) == 210, [made(f) for f in files]


def that_inherited_memory_is_told_of_one_process_alone():
    """A sum over several has the parent's memory once."""
    with Serving() as s:
        parent = s.start(1000, 'fork')
        with open(f'/proc/{parent.pid}/task/{parent.pid}/children') as f:
            child = int(f.read())
        s.stack.callback(os.kill, child, signal.SIGKILL)

        def in_use(page):
            """{(pid, inherited): bytes}"""
            sums = collections.Counter()
            for x in s.profile(page).samples:
                if 'works' in x.names:
                    sums[int(dict(x.labels)['pid']), ('fork', 'inherited') in x.labels] += x.values['inuse_space']
            return +sums
        both = {(parent.pid, False): 500 * BYTES, (child, False): 50 * BYTES}
        alone = {(child, True): 500 * BYTES, (child, False): 50 * BYTES}
        for page in ('delta_heap', 'delta_heap', 'heap'):
            assert in_use(page) == both, (page, in_use(page))
            assert in_use(f'{page}?pid={child}') == alone, (page, in_use(f'{page}?pid={child}'))
        metrics = s.get('metrics').decode()
        inuse = dict(re.findall(r'^deltaprof_heap_inuse_space_bytes{pid="(\d+)",.*} (\d+)', metrics, re.M))
        in_all = sum(x.values['inuse_space'] for x in s.profile('heap').samples)
        assert sum(map(int, inuse.values())) == in_all and int(inuse[str(child)]) < 500 * BYTES, (inuse, in_all)
        parent.kill()
        parent.wait()
        wait_until(lambda: s.ended() == 1)
        assert in_use('delta_heap') == alone, in_use('delta_heap')


def that_windows_and_bad_requests_are_answered():
    with Serving() as s:
        assert b'no profiled process' in s.get('delta_heap', 503)
        process = s.start(50, 'wait')
        window = s.profile('heap?seconds=1')
        assert made(window) == {} and made(window, 'inuse_space') == {str(process.pid): 25 * BYTES}, made(window)
        assert window.duration_ns >= 1000000000, window.duration_ns
        for page, kind, key in (('profile?seconds=1', 'cpu', 'cpu_rate'), ('delta_mutex', 'mutex', 'mutex_rate'),
                                ('block', 'block', 'block_rate'), (f'delta_chain?pid={process.pid}', 'chain', 'mutex_rate')):
            text = s.get(page, 404).decode()
            assert text.startswith(f'{kind} is off') and f'{key}=' in text, text
        for page, status in (('delta_heap?pid=x', 400), ('heap?pid=1', 404), ('heap?types=inuse', 400), ('waits?pid=1', 404),
                             ('waits?pid=x', 400), ('nothing', 404), ('delta_heap?cursor=%20', 400)):
            assert s.get(page, status).count(b'\n') == 1, page
        assert b'loopback' not in s.get('', 403, {'Host': 'evil.example'})
        index = s.get('').decode()
        assert f'<td>{process.pid}<td>victim_works' in index and 'delta_chain: off' in index, index
        metrics = s.get('metrics').decode()
        assert f'deltaprof_heap_alloc_objects_total{{pid="{process.pid}",program="victim_works"}} 5' in metrics, metrics
        assert metrics.endswith('# EOF\n') and 'deltaprof_mutex' not in metrics and b'<html' in s.get('view')
        other = subprocess.run([DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', s.tables], capture_output=True, text=True)
        assert other.returncode == 1 and 'another deltaprof serve' in other.stderr, other
        assert s.stop() == 0 and s.errors == '', s.errors


def that_kinds_are_answered_that_a_process_has():
    """One process without locks beside one with them, which then ends: its waits were measured, and none is a result."""
    with Serving() as s:
        s.start(50, 'wait')
        s.get('delta_block', 404)
        other = s.start(50, 'wait', conf=EXACT.replace('block_rate=0', 'block_rate=1ns'))
        assert made(s.profile('delta_block'), 'contentions') == {}
        metrics = s.get('metrics').decode()
        assert re.findall(r'^deltaprof_block_contentions_total{pid="(\d+)"', metrics, re.M) == [str(other.pid)], metrics
        other.kill()
        other.wait()
        wait_until(lambda: s.ended() == 1)
        s.profile('block')


def that_waits_of_all_processes_are_told():
    """With their processes, stacks and holders, from processes that write nothing themselves, as their first waits are."""
    conf = EXACT.replace('mutex_rate=0,block_rate=0', 'mutex_rate=1,block_rate=1ns')
    with Serving() as s:
        s.start(5, 'wait')  # its locks are off
        processes = []
        for how in ('deadlock', 'once'):
            p = subprocess.Popen([victim('waiting'), how], env=environment(f'{conf},tables={s.tables}'), stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            s.stack.callback(p.stdin.close)
            s.stack.callback(p.kill)
            processes.append(p)
        stuck, once = processes

        def ready():
            text = s.get('waits').decode()
            return text if text.count(': a deadlock') == 2 and f'of process {once.pid} ' in text else None
        wait_until(ready)
        text = s.get('waits').decode()
        assert re.match(r'\d+ threads wait, of 2 processes\n', text), text
        assert re.search(rf'^deadlock: in process {stuck.pid} \(victim_waiting\), thread \d+ waits for thread \d+', text, re.M), text
        paragraph = next(p for p in text.split('\n\n') if f'of process {stuck.pid} ' in p and 'deadlock' in p)
        assert 'first_then_second' in paragraph or 'second_then_first' in paragraph, text
        assert re.search(rf'^thread \d+ of process {once.pid} \(victim_waiting\) waits [\d.]+ s for mutex 0x[0-9a-f]+ \(\w+\), held by thread {once.pid}', text, re.M), text
        alone = s.get(f'waits?pid={once.pid}').decode()
        assert re.match(r'\d+ threads? waits?\n', alone) and 'process' not in alone and f'held by thread {once.pid}' in alone, alone


def that_ps_tells_the_worst_wait():
    """Of the row with the most time; one without waits has none."""
    with Serving() as s:
        waiting = s.start(50, 'locks', conf=EXACT.replace('block_rate=0', 'block_rate=1ns'))
        other = s.start(50, 'wait')
        delays = [x.values['delay'] for x in s.profile(f'block?pid={waiting.pid}').samples]
        listed = subprocess.run([DELTAPROF, 'ps', s.tables], capture_output=True, text=True, timeout=60).stdout
        rows = {int(line.split()[0]): line.split() for line in listed.splitlines()[1:]}
        assert rows[other.pid][2:4] == ['2.44kB', '-'], listed
        number, unit = re.fullmatch(r'([\d.]+)(ns|us|ms|s)', rows[waiting.pid][3]).groups()
        shown_ns = float(number) * {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}[unit]
        assert 0.98 * max(delays) <= shown_ns <= 1.02 * max(delays), (delays, listed)


def that_files_of_all_processes_are_written():
    """With their own pids, at the interval and at their ends; a later server goes on."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out, '--interval', '100ms')
        ended, killed, living = s.start(70, 'end'), s.start(30, 'wait'), s.start(20, 'wait')
        ended.wait()
        wait_until(lambda: s.in_files() == 120)
        killed.kill()
        killed.wait()
        wait_until(lambda: s.ended() == 2)
        last = {p.pid: reader.load(reader.files(s.out, 'heap', '*', str(p.pid))[-1]).comments for p in (ended, killed)}
        assert '#ended' in last[ended.pid] and '#killed' not in last[ended.pid], last
        assert '#ended' in last[killed.pid] and '#killed' in last[killed.pid], last
        assert s.stop() == 0 and s.errors == '', s.errors
        s.start_server('-o', s.out)
        living.kill()
        living.wait()
        wait_until(lambda: s.ended() == 3)  # with those of the server before
        assert s.in_files() == 120, s.files()
        top = subprocess.run([DELTAPROF, 'top', '--by', 'process', '--type', 'alloc_objects', s.out], capture_output=True, text=True)
        assert all(re.search(rf'victim_works[. ]{p.pid}', top.stdout) for p in (ended, killed, living)), top


def that_it_ends_while_processes_go_on_ending():
    """The next server has those that it did not read any more."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out, '--interval', '100ms')
        script = f'i=0; while [ $i -lt 40 ]; do {victim("works")} 3 end; i=$((i + 1)); done'
        loops = [subprocess.Popen(['sh', '-c', script], env=environment(f'{EXACT},tables={s.tables}'), stdout=subprocess.DEVNULL) for _ in range(2)]
        for loop in loops:
            s.stack.callback(loop.kill)
        wait_until(lambda: s.ended() > 5)
        assert s.stop() == 0 and s.errors == '', s.errors
        for loop in loops:
            loop.wait()
        s.start_server('-o', s.out)
        wait_until(lambda: sorted(os.listdir(s.tables)) == ['cursors', 'serve'])
        by_process = collections.Counter()
        for path in reader.files(s.out, 'heap', 'victim_works'):
            by_process[os.path.basename(path).split('.')[1]] += sum(made(reader.load(path)).values())
        assert len(by_process) == 80 and set(by_process.values()) == {3}, by_process


def that_old_files_are_deleted():
    """Of one that runs, and of those that have ended, the newest; files of others stay."""
    with Serving() as s:
        s.stop()
        with open(os.path.join(s.out, 'other.1.0001.heap.pb.gz'), 'w') as f:
            f.write('of another producer')
        s.start_server('-o', s.out, '--interval', '10ms', '--keep', '3')
        running = s.start(20, 'wait')
        ended = []
        for _ in range(5):
            ended.append(s.start(10, 'end'))
            ended[-1].wait()
            wait_until(lambda: s.ended() == len(ended))
        wait_until(lambda: len(reader.files(s.out, 'heap', 'victim_works', str(running.pid))) > 5)
        last = reader.files(s.out, 'heap', 'victim_works', str(running.pid))[-1]
        assert s.stop() == 0 and s.errors == '', s.errors
        left = reader.files(s.out, 'heap', 'victim_works', str(running.pid))
        assert len(left) == 3 and left[-1] >= last, left
        left = {p.pid: len(reader.files(s.out, 'heap', 'victim_works', str(p.pid))) for p in ended}
        assert sum(left.values()) == 3 and left[ended[-1].pid], left
        assert os.path.exists(os.path.join(s.out, 'other.1.0001.heap.pb.gz'))
        s.start_server()


def that_a_server_that_is_killed_loses_and_doubles_nothing():
    """Processes begin, go on, end and are killed meanwhile, and while there is no server."""
    with Serving() as s:
        s.stop()
        expected, words = 0, ('-o', s.out, '--interval', '20ms')
        s.start_server(*words)
        for i in range(6):
            slow = s.start(2000, 'slow', wait=False)
            killed = s.start(100 + i, 'wait')
            s.kill_server()
            s.start_server(*words)
            killed.kill()
            killed.wait()
            s.kill_server()
            slow.wait()
            expected += 2100 + i
            s.start_server(*words)
        wait_until(lambda: sorted(os.listdir(s.tables)) == ['cursors', 'serve'])
        assert not [name for name in os.listdir(s.out) if name.endswith('.tmp')], os.listdir(s.out)
        assert s.in_files() == expected, (s.in_files(), expected)
        s.kill_server()
        s.start(50, 'end').wait()
        done = subprocess.run([DELTAPROF, 'recover', s.tables], check=True, capture_output=True, text=True)
        assert s.in_files() == expected + 50, (s.in_files(), expected, done, os.listdir(s.tables))
        s.start_server()


def that_a_wait_that_goes_on_is_counted_once():
    """In replies, in files, and in what ps shows; and no value becomes lower when the process is killed in it."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out, '--interval', '20ms')
        p = s.start(10, 'stuck', EXACT.replace('block_rate=0', 'block_rate=1ms'))
        sums = collections.Counter()

        def ask():
            for x in s.profile('delta_block?cursor=a').samples:
                sums.update(x.values)
            return sums['contentions']
        wait_until(ask)
        before = sums['delay']
        wait_until(lambda: ask() and sums['delay'] > before)
        assert sums['contentions'] == 1, sums
        listed = subprocess.run([DELTAPROF, 'ps', s.tables], capture_output=True, text=True, timeout=120)
        assert re.search(rf'^ *{p.pid} +\S+ +\S+( \S+)? +[0-9.]+ *[a-z]+ ', listed.stdout, re.M), listed
        wait_until(lambda: s.files('block'))
        p.kill()
        p.wait()
        wait_until(lambda: s.ended() == 1)
        in_files = [x.values for f in s.files('block') for x in f.samples]
        assert sum(v['contentions'] for v in in_files) == 1 and all(v['delay'] >= 0 for v in in_files), in_files


def that_a_server_with_another_directory_writes_nothing_twice():
    """After a server that was killed at any call, also between the name of a file and the note that it has it."""
    with Serving() as s:
        s.stop()
        outs, serve = [s.out, new_directory()], [DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', '--interval', '10ms', s.tables, '-o']
        for at in range(1, 24):
            p = s.start(20, 'wait')
            env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, 'tests/hooks/libkilled.so'), KILLED_AT=str(at))
            assert subprocess.run([*serve, outs[at % 2]], env=env, capture_output=True, timeout=60).returncode == -signal.SIGKILL
            s.start_server('-o', outs[(at + 1) % 2])
            p.kill()
            p.wait()
            assert s.stop() == 0 and s.errors == '', s.errors
            written = [f'{out}/{name}' for out in outs for name in os.listdir(out) if f'.{p.pid}.' in name and name.endswith('.heap.pb.gz')]
            assert sum(n for path in written for n in made(reader.load(path)).values()) == 20, (at, written)
        s.start_server()


def that_a_process_that_ends_between_two_servers_has_its_files():
    """For an hour: then nobody seems to come back, and its table does not stay."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out)
        running = s.start(30, 'wait')
        s.stop()
        running.kill()
        running.wait()
        s.start(70, 'end').wait()
        s.start_server('-o', s.out)
        wait_until(lambda: s.in_files() == 100)
        s.stop()
        mark = os.path.join(s.tables, 'serve')
        os.utime(mark, (0, os.stat(mark).st_mtime - 4000))
        s.start(5, 'end').wait()
        assert sorted(os.listdir(s.tables)) == ['cursors', 'serve'], os.listdir(s.tables)
        s.start_server()


def that_recover_that_is_killed_at_any_call_goes_on():
    """Of two kinds, each has its events once, in whatever order they got their files."""
    tables = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    try:
        victim_out = new_directory()
        p = subprocess.Popen([victim('works'), '50', 'locks'], stdout=subprocess.PIPE,
                             env=environment(f'heap_rate=1,block_rate=1ns,mutex_rate=0,cpu_rate=0,log=none,tables={tables}/t', victim_out))
        assert p.stdout.readline() == b'done\n'
        p.kill()
        p.wait()
        p.stdout.close()
        shutil.copytree(os.path.join(tables, 't'), os.path.join(tables, 'kept'))
        os.chmod(os.path.join(tables, 'kept'), 0o700)

        def sums():
            by_kind = {kind: sum(x.values[type] for path in reader.files(victim_out, kind) for x in reader.load(path).samples)
                       for kind, type in (('heap', 'alloc_objects'), ('block', 'contentions'))}
            shutil.rmtree(victim_out)
            return by_kind

        def recover(at=''):
            env = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, 'tests/hooks/libkilled.so'), KILLED_AT=at)
            return subprocess.run([DELTAPROF, 'recover', os.path.join(tables, 't')], env=env, capture_output=True, timeout=60).returncode
        assert recover() == 0
        expected = sums()
        assert expected['heap'] >= 50 and expected['block'] == 3, expected
        for at in range(1, 100):
            for name in os.listdir(os.path.join(tables, 'kept')):
                shutil.copy(os.path.join(tables, 'kept', name), os.path.join(tables, 't', name))
            status = recover(str(at))
            assert status in (0, -signal.SIGKILL), status
            assert recover() == 0 and os.listdir(os.path.join(tables, 't')) == []
            assert not [name for name in os.listdir(victim_out) if name.endswith('.tmp')], (at, os.listdir(victim_out))
            assert sums() == expected, (at, expected)
            if status == 0:
                break
        assert 10 < at < 99, at
    finally:
        shutil.rmtree(tables)


def that_run_serves_a_family_until_it_has_ended():
    """A shell and two programs that it starts, beside no other process of the user."""
    script = f'{victim("works")} 70 end; {victim("works")} 30 wait & read stop; kill -9 $!; wait; read stop'
    run = subprocess.Popen([DELTAPROF, 'run', '--serve', '127.0.0.1:20000-29999', '-o', EXACT.replace('out=none,', ''), '--',
                            '/bin/sh', '-c', script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        line = run.stderr.readline().decode()
        url, tables = re.search(r'http://\S+', line)[0], re.search(r'profiles of (\S+)', line)[1]
        for _ in range(2):
            assert run.stdout.readline() == b'done\n'

        def seen():
            with urllib.request.urlopen(url + 'heap', timeout=60) as reply:
                return made(reader.load(reply.read()))
        wait_until(lambda: sum(seen().values()) == 100)
        listed = subprocess.run([DELTAPROF, 'ps'], capture_output=True, text=True, timeout=60).stdout
        assert 'victim_works' in listed, listed
        run.stdin.write(b'\n')
        run.stdin.flush()
        wait_until(lambda: seen() == {'ended': 100})
        run.stdin.close()
        assert run.wait(60) == 1  # of `read`, at the end of its input
        wait_until(lambda: not os.path.exists(tables))
    finally:
        run.kill()
        run.stdout.close()
        run.stderr.close()
    bad = subprocess.run([DELTAPROF, 'run', '--serve', 'here', '--', '/bin/true'], capture_output=True, text=True)
    assert bad.returncode == 2 and '--serve here' in bad.stderr and 'HOST:PORT' in bad.stderr and bad.stderr.count('\n') == 1, bad


def that_run_passes_the_servers_options_on():
    out = os.path.join(new_directory(), 'files')
    run = subprocess.run([DELTAPROF, 'run', '--serve', '127.0.0.1:20000-29999', '--serve-out', out, '-o', EXACT, '--', victim('works'), '70', 'end'],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run
    tables = re.search(r'profiles of (\S+)', run.stderr)[1]
    wait_until(lambda: not os.path.exists(tables))
    assert sum(n for path in reader.files(out, 'heap') for n in made(reader.load(path)).values()) == 70, os.listdir(out)
    for words, what in ((['--serve-out', 'x'], '--serve ADDRESS'),
                        (['--serve', '127.0.0.1:20000-29999', '--serve-out', '/nowhere/at/all'], '/nowhere/at/all'),
                        (['--serve', '127.0.0.1:20000-29999', '--serve-out', out, '--serve-to', 'here'], '--to here')):
        bad = subprocess.run([DELTAPROF, 'run', *words, '--', '/bin/true'], capture_output=True, text=True)
        assert bad.returncode in (2, 126) and what in bad.stderr and bad.stderr.count('\n') == 1, bad


def that_root_sees_the_processes_of_other_users():
    """Also one that changed its user: its tables are in the other user's directory."""
    if os.geteuid() or not reachable_by('65534'):
        skip('root and a readable build are needed')
    p = subprocess.Popen(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', victim('works'), '20', 'wait'],
                         env=environment(EXACT), stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b'done\n'
        listed = subprocess.run([DELTAPROF, 'ps'], capture_output=True, text=True, timeout=60)
        assert re.search(rf'^ *{p.pid} .*victim_works', listed.stdout, re.M), listed
        top = subprocess.run([DELTAPROF, 'top', '--type', 'alloc_objects', str(p.pid)], capture_output=True, text=True, timeout=60)
        assert re.search(r'^ *20 .* works$', top.stdout, re.M), top
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
        subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', DELTAPROF, 'recover'], capture_output=True, cwd='/')


def that_wrong_arguments_are_named():
    for words, status, what in ((['--listen', 'here'], 2, 'HOST:PORT'), (['--listen', '*:7070'], 2, '--token'),
                                (['--while', 'x'], 2, '--while x'), (['--interval', '3', '-o', 'x'], 2, '--interval 3'), (['--keep', '9'], 2, '-o DIR'),
                                (['--keep', 'x', '-o', 'x'], 2, '--keep x'), (['-o', '/nowhere/at/all'], 1, '-o /nowhere'), (['a', 'b'], 2, 'wrong arguments'),
                                (['/nowhere/at/all'], 1, '/nowhere/at/all')):
        done = subprocess.run([DELTAPROF, 'serve', *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == status and what in done.stderr and done.stderr.count('\n') == 1, (words, done)


if __name__ == '__main__':
    main(globals())
