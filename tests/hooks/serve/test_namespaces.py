# SPDX-License-Identifier: MIT
"""A program in another namespace of process ids, as in the next container of a pod: its number means another process here, or none."""
import os
import re
import subprocess

from harness import main, skip, victim, wait_until
from serving import DELTAPROF, EXACT, PRELOAD, Serving, made

NEW = ['unshare', '--pid', '--fork', '--kill-child']
if os.geteuid() or subprocess.run([*NEW, 'true'], capture_output=True).returncode:
    skip('root and unshare are needed')


def unused_pid():
    return next(pid for pid in range(20000, 30000) if not os.path.exists(f'/proc/{pid}'))


def start(s, n, how):
    """A first process of the namespace, and as its child the program. Returns the first one, and the number that the program knows."""
    script = f'echo {unused_pid() - 1} >/proc/sys/kernel/ns_last_pid; LD_PRELOAD={PRELOAD} {victim("works")} {n} {how} & echo $!; wait'
    env = dict(os.environ, DELTAPROF_CONF=f'{EXACT},tables={s.tables}')
    first = subprocess.Popen([*NEW, 'sh', '-c', script], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    s.stack.callback(first.stdout.close)
    s.stack.callback(first.kill)
    lines = {first.stdout.readline(), first.stdout.readline()}
    assert 'done\n' in lines, lines
    return first, next(int(line) for line in lines if line != 'done\n')


def tables(s):
    return [name for name in os.listdir(s.tables) if re.fullmatch(r'\d+\.\d+\.[0-9a-f]+', name)]


def that_it_is_read_and_lives_until_it_ends():
    with Serving() as s:
        first, pid = start(s, 70, 'wait')
        assert made(s.profile('delta_heap?cursor=a')) == {str(pid): 70}
        s.get('waits')
        listed = subprocess.run([DELTAPROF, 'ps', s.tables], capture_output=True, text=True, timeout=120)
        assert re.search(rf'^ *{pid} .* victim_works$', listed.stdout, re.M) and not listed.stderr, listed
        s.stop()
        done = subprocess.run([DELTAPROF, 'recover', s.tables], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and len(tables(s)) == 1, (done, os.listdir(s.tables))
        s.start_server('-o', s.out)
        first.kill()  # and with it the others of its namespace
        wait_until(lambda: not tables(s))
        assert s.ended() == 1 and s.in_files() == 70


main(globals())
