# SPDX-License-Identifier: MIT
"""Clients of `deltaprof serve` that ask for changes: no change comes twice, and none is lost."""
import os
import re
import shutil
import socket
import subprocess

from harness import environment, main, wait_until
from serving import BYTES, DELTAPROF, EXACT, Serving, made


def that_a_reply_that_was_lost_comes_again():
    with Serving() as s:
        first = s.start(50, 'wait')
        assert made(s.profile('delta_heap?after=0')) == {str(first.pid): 50}
        n = int(s.headers['X-Deltaprof-Seq'])
        second = s.start(60, 'wait')
        again = s.profile('delta_heap?after=0')  # reply 1 did not arrive
        assert made(again) == {str(first.pid): 50, str(second.pid): 60}, made(again)
        assert s.headers['X-Deltaprof-Seq'] == str(n)
        assert made(s.profile(f'delta_heap?after={n}')) == {}
        assert made(s.profile(f'delta_heap?after={n}')) == {}  # the empty second reply did not arrive either
        third = s.start(70, 'wait')
        assert made(s.profile(f'delta_heap?after={n}')) == {str(third.pid): 70}
        assert s.headers['X-Deltaprof-Seq'] == str(n + 1)
        assert s.get('delta_heap?after=0', 409).startswith(b'after:')
        assert s.get(f'delta_heap?after={n + 7}', 409).startswith(b'after:')


def that_a_cursor_of_an_earlier_server_is_refused():
    """Where its file is gone. Also where the new server has sent a reply to that name, which the client did not get."""
    with Serving() as s:
        first = s.start(50, 'wait')
        s.profile('delta_heap?after=0')
        n = s.headers['X-Deltaprof-Seq']
        s.kill_server()
        os.unlink(os.path.join(s.tables, 'cursors'))
        s.start_server()
        assert b'earlier deltaprof serve' in s.get(f'delta_heap?after={n}', 409)
        assert made(s.profile('delta_heap?after=0')) == {str(first.pid): 50}
        assert b'earlier deltaprof serve' in s.get(f'delta_heap?after={n}', 409)
        assert made(s.profile('delta_heap?after=0')) == {str(first.pid): 50}
        assert made(s.profile(f'delta_heap?after={n}&from=now')) == {}


def that_cursors_go_on_in_the_next_server():
    """With what was not sent, and what was sent without an answer, of processes that go on, begin, end and are killed."""
    with Serving() as s:
        processes = [s.start(10 * (i + 1), 'wait') for i in range(3)]
        slow = s.start(3000, 'slow', wait=False)
        gone = s.start(7, 'wait')
        sums = {'plain': 0, f'alone&pid={processes[0].pid}': 0}

        def poll(name, query=''):
            profile = s.profile(f'delta_heap?cursor={name}{query}')
            assert all(v >= 0 for x in profile.samples for v in x.values.values())
            return sum(made(profile).values())
        for name in sums:
            sums[name] += poll(name)
        unanswered = poll('careful', '&after=0')
        n = int(s.headers['X-Deltaprof-Seq'])
        gone.kill()
        gone.wait()
        wait_until(lambda: s.ended() >= 1)
        assert s.stop() == 0 and s.errors == '', s.errors
        assert sorted(os.listdir(s.tables))[-2:] == ['cursors', 'serve'], os.listdir(s.tables)
        late = s.start(50, 'end')  # between two servers
        late.wait()
        processes[1].kill()
        processes[1].wait()
        s.start_server()
        young = poll('young')  # perhaps before the processes were read that ended in between
        new = s.start(400, 'wait')
        slow.wait()
        wait_until(lambda: s.ended() == 4)
        total = sum(made(s.profile('heap')).values())
        assert total == 60 + 3000 + 7 + 50 + 400, total
        assert poll('careful', '&after=0') == total >= unanswered
        assert s.headers['X-Deltaprof-Seq'] == str(n)
        assert poll('careful', f'&after={n}') == 0
        for name in sums:
            sums[name] += poll(name)
        assert sums == {'plain': total, f'alone&pid={processes[0].pid}': 10}, sums
        assert poll('new') == total and young + poll('young') == total
        inuse = made(s.profile('delta_heap?cursor=plain'), 'inuse_space')
        assert inuse[str(new.pid)] == 200 * BYTES and str(processes[1].pid) not in inuse, inuse
        processes[0].kill()
        processes[0].wait()
        s.stop()
        s.start_server()  # the process has ended, and this server reads its table
        wait_until(lambda: s.ended() == 5)
        assert poll('plain') == 0 and poll('careful', f'&after={n + 1}') == 0


def that_cursors_go_on_after_a_server_was_killed():
    """As where it ends by itself, however often it is killed, and with what processes did that ended meanwhile."""
    with Serving() as s:
        processes = [s.start(10 * (i + 1), 'wait') for i in range(3)]
        sums = {'lost': 0, 'careful': 0, f'alone&pid={processes[0].pid}': 0}
        n = dict.fromkeys(sums, 0)

        def poll(name):
            profile = s.profile(f'delta_heap?cursor={name}&after={n[name]}')
            assert all(v >= 0 for x in profile.samples for v in x.values.values())
            n[name] = s.headers['X-Deltaprof-Seq']
            sums[name] += sum(made(profile).values())
        total = 60
        for round in range(4):
            for name in sums:
                poll(name)
            gone = s.start(1000, 'wait')
            unanswered = made(s.profile(f'delta_heap?cursor=lost&after={n["lost"]}'))
            assert unanswered == {str(gone.pid): 1000}, unanswered
            s.get('')  # the index reads what happened, too
            s.kill_server()
            gone.kill()
            gone.wait()
            s.start(7, 'end').wait()
            total += 1007
            s.start_server()
            wait_until(lambda: s.ended() == 2 * (round + 1))
        for name in sums:
            poll(name)
        assert sums == {'lost': total, 'careful': total, f'alone&pid={processes[0].pid}': 10}, (sums, total)
        assert sum(made(s.profile('heap')).values()) == total
        assert s.stop() == 0 and s.errors == '', s.errors


def that_what_ended_before_the_first_cursor_is_in_each():
    """Also where the server ends or is killed before a client asks, and where the process ends without a server."""
    with Serving() as s:
        total = 0
        for end in (s.kill_server, s.stop, s.kill_server):
            s.start(30, 'end').wait()
            killed = s.start(40, 'wait')
            wait_until(lambda: s.ended() == total // 77 * 3 + 1)
            begin = s.profile('heap').time_ns
            end()
            killed.kill()
            killed.wait()
            s.start(7, 'end').wait()
            total += 77
            s.start_server()
            wait_until(lambda: s.ended() == total // 77 * 3)
            assert s.profile('heap').time_ns == begin
        for name in 'ab':
            assert sum(made(s.profile(f'delta_heap?cursor={name}')).values()) == total
        assert sum(made(s.profile('heap')).values()) == total


def that_a_reply_under_way_is_not_waited_for():
    """Its client has gone and asks again before the server knows."""
    with Serving() as s:
        program = subprocess.Popen(['/usr/bin/env', 'python3', '-c', 'import json, threading\nprint("done", flush=True)\nthreading.Event().wait()'],
                                   env=environment(f'{EXACT},tables={s.tables}'), stdout=subprocess.PIPE)
        s.stack.callback(program.stdout.close)
        s.stack.callback(program.kill)
        assert program.stdout.readline() == b'done\n'
        s.profile('delta_heap?after=0')
        n = int(s.headers['X-Deltaprof-Seq'])
        host, port, path = re.match(r'http://([\d.]+):(\d+)(/.*)', s.url).groups()
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)  # the reply does not fit
            slow.connect((host, int(port)))
            slow.sendall(f'GET {path}delta_heap?after={n} HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
            assert slow.recv(1, socket.MSG_PEEK)
            s.profile(f'delta_heap?after={n}')
            assert int(s.headers['X-Deltaprof-Seq']) == n + 1
        s.profile(f'delta_heap?after={n + 1}')
        assert int(s.headers['X-Deltaprof-Seq']) == n + 2


def that_the_files_of_a_process_may_come_after_its_cursors():
    """Its last files cannot be written when it ends. It counts once, in cursors and files, also in later servers."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out)
        process = s.start(50, 'wait')
        n = 0

        def poll():
            nonlocal n
            profile = s.profile(f'delta_heap?cursor=a&after={n}')
            n = s.headers['X-Deltaprof-Seq']
            return sum(made(profile).values())
        assert poll() == 50
        late = s.start(60, 'wait')
        shutil.rmtree(s.out)
        open(s.out, 'w').close()  # no directory
        for p in (process, late):
            p.kill()
            p.wait()
        wait_until(lambda: s.ended() == 2)
        assert poll() == 60
        assert sum(made(s.profile('heap')).values()) == 110
        os.unlink(s.out)
        os.mkdir(s.out)
        wait_until(lambda: s.in_files() == 110)  # this server tries again
        os.rename(s.out, s.out + '-before')
        open(s.out, 'w').close()
        s.start(70, 'end').wait()
        wait_until(lambda: s.ended() == 3)
        assert poll() == 70
        s.kill_server()
        os.unlink(s.out)
        os.rename(s.out + '-before', s.out)
        s.start_server('-o', s.out)
        wait_until(lambda: s.ended() == 3)
        assert poll() == 0
        assert sum(made(s.profile('heap')).values()) == 180, (s.profile('heap').samples, s.stop(), s.errors)
        assert s.in_files() == 180, (s.in_files(), os.listdir(s.tables), os.listdir(s.out), s.stop(), s.errors)


def that_a_start_that_fails_leaves_all_to_the_next():
    """The cursors, and the tables of processes that end after it."""
    with Serving() as s, socket.create_server(('127.0.0.1', 0)) as taken:
        process = s.start(50, 'wait')
        assert sum(made(s.profile('delta_heap?cursor=a&after=0')).values()) == 50
        n = s.headers['X-Deltaprof-Seq']
        late = s.start(60, 'wait')
        assert s.stop() == 0 and s.errors == '', s.errors
        failed = subprocess.run([DELTAPROF, 'serve', '--listen', f'127.0.0.1:{taken.getsockname()[1]}', s.tables],
                                capture_output=True, text=True, timeout=60)
        assert failed.returncode == 1 and 'Address already in use' in failed.stderr, failed
        late.kill()
        late.wait()
        s.start(70, 'end').wait()
        s.start_server()
        wait_until(lambda: s.ended() == 2)
        assert sum(made(s.profile(f'delta_heap?cursor=a&after={n}')).values()) == 60 + 70
        assert sum(made(s.profile('heap')).values()) == 50 + 60 + 70
        assert process.poll() is None


def that_cursors_go_on_where_the_next_server_writes_no_files():
    """It writes the last files of the one that did, and cursors have what is in these."""
    with Serving() as s:
        s.stop()
        s.start_server('-o', s.out)
        killed = s.start(50, 'wait')
        assert sum(made(s.profile('delta_heap?cursor=a')).values()) == 50
        late = s.start(60, 'wait')
        assert s.stop() == 0 and s.errors == '', s.errors
        for process in (killed, late):
            process.kill()
            process.wait()
        s.start(70, 'end').wait()
        s.start_server()
        assert s.in_files() == 50 + 60 + 70
        wait_until(lambda: s.ended() == 3)
        assert sum(made(s.profile('heap')).values()) == 50 + 60 + 70
        assert sum(made(s.profile('delta_heap?cursor=a')).values()) == 60 + 70


def that_a_file_of_cursors_that_is_broken_is_named():
    """The cursors begin anew, and no process is doubled."""
    with Serving() as s:
        process = s.start(20, 'wait')
        s.profile('delta_heap?cursor=a')
        assert s.stop() == 0 and s.errors == '', s.errors
        path = os.path.join(s.tables, 'cursors')
        with open(path, 'rb') as f:
            whole = f.read()
        flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:] for at in range(4, len(whole), len(whole) // 12)]
        for broken in (b'', whole[:-1], whole[:len(whole) // 2], b'x' + whole[1:], whole + b'x', *flipped):
            with open(path, 'wb') as f:
                f.write(broken)
            s.start_server()
            assert made(s.profile('delta_heap?cursor=a')) == {str(process.pid): 20}
            assert made(s.profile('heap')) == {str(process.pid): 20}
            assert s.stop() == 0 and re.fullmatch(r'deltaprof serve: \S+/cursors: .*; cursors begin anew\n', s.errors), (broken[:9], s.errors)
        old = os.stat(path).st_mtime - 90000
        os.utime(path, (old, old))
        s.start_server()
        assert made(s.profile('delta_heap?cursor=a')) == {str(process.pid): 20}


main(globals())
