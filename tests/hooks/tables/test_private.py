# SPDX-License-Identifier: MIT
"""Processes whose tables are private memory, since the tmpfs is full: each has a mark, an empty file, as long as it lives."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile

from harness import BUILD, PRELOAD, main, skip, victim, wait_until

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
if os.geteuid() or subprocess.run(['unshare', '-m', '--pid', '--fork', 'true'], capture_output=True).returncode:
    skip('root and unshare are needed')


@contextlib.contextmanager
def directory():
    path = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    try:
        yield path
    finally:
        shutil.rmtree(path)


def start(tables, apart, how):
    """The victim, in a small tmpfs of its own."""
    script = f'mount -t tmpfs -o size=64k,mode=700 none {tables} && LD_PRELOAD={PRELOAD} exec {victim("works")} 70 {how}'
    env = dict(os.environ, DELTAPROF_CONF=f'heap_rate=1,cpu_rate=0,out=none,log=none,tables={tables}')
    process = subprocess.Popen([*apart, 'sh', '-c', script], env=env, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b'done\n'
    return process


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(child) for child in f.read().split()]


def ps(process, tables):
    return subprocess.run(['nsenter', f'--mount=/proc/{process}/ns/mnt', DELTAPROF, 'ps', tables], capture_output=True, text=True,
                          timeout=120).stdout


def that_a_process_whose_tables_are_private_is_named():
    """The tmpfs is full. Its mark goes with it, also if it is killed."""
    with directory() as tables:
        process = start(tables, ['unshare', '-m'], 'wait')
        there = ['nsenter', f'--mount=/proc/{process.pid}/ns/mnt', DELTAPROF]
        place = f'/proc/{process.pid}/root{tables}'
        files = os.listdir(place)
        assert len(files) == 1 and re.fullmatch(rf'{process.pid}\.\d+\.[0-9a-f]+\.28\.{os.stat("/proc/self/ns/pid").st_ino}\.none', files[0]), files
        listed = subprocess.run([*there, 'ps', tables], capture_output=True, text=True, timeout=120)
        assert re.search(rf'^ *{process.pid} .* tables are private +victim_works \(No space left on device\)$', listed.stdout, re.M), listed
        server = subprocess.Popen([*there, 'serve', '--listen', '127.0.0.1:20000-29999', tables], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
        said = server.stderr.readline()
        assert said.endswith(f': the tables of victim_works {process.pid} are private memory (No space left on device); it is not served\n'), said
        place = f'/proc/{server.pid}/root{tables}'
        process.kill()
        process.wait()
        wait_until(lambda: sorted(os.listdir(place)) == ['cursors', 'serve'])
        server.terminate()
        assert server.wait(60) == 0


def that_what_only_has_the_name_of_a_mark_names_no_process():
    """Links, directories, fifos, and numbers that are no error. They stay as they are."""
    with directory() as tables:
        mark, namespace = os.path.join(tables, f'{os.getpid()}.1.'), os.stat('/proc/self/ns/pid').st_ino
        os.symlink('/etc/passwd', mark + f'a.28.{namespace}.none')
        os.mkdir(mark + f'b.28.{namespace}.none')
        os.mkfifo(mark + f'c.28.{namespace}.none')
        open(mark + f'd.4096.{namespace}.none', 'w').close()
        before = sorted(os.listdir(tables))
        listed = subprocess.run([DELTAPROF, 'ps', tables], capture_output=True, text=True, timeout=120)
        assert listed.returncode == 0 and 'private' not in listed.stdout and not listed.stderr, listed
        assert sorted(os.listdir(tables)) == before


def that_a_forked_child_has_a_mark_too():
    with directory() as tables:
        process = start(tables, ['unshare', '-m'], 'fork')
        (child,) = children(process.pid)
        wait_until(lambda: len(re.findall(r'are private +victim_works', ps(process.pid, tables))) == 2)
        assert re.search(rf'^ *{child} .* tables are private +victim_works \(No space left on device\)$', ps(process.pid, tables), re.M)
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: re.findall(r'^ *(\d+) .* are private', ps(process.pid, tables), re.M) == [str(process.pid)])
        process.kill()
        process.wait()


def that_tables_wait_for_a_server_only_where_there_is_room():
    """A server has ended within the hour. The tmpfs is one of the test's own, of which more than half is in use, then less."""
    with directory() as tables:
        inside = f'mount -t tmpfs -o size=2m,mode=700 none {tables}; cd {tables}; printf none >serve; chmod 600 serve; run() ' \
            f'{{ LD_PRELOAD={PRELOAD} {victim("works")} 70 end >done; rm done; ls; }}; head -c 1500000 /dev/zero >full; run; rm full; run'
        env = dict(os.environ, DELTAPROF_CONF=f'heap_rate=1,cpu_rate=0,out={tables}/none,log=none,tables={tables}')
        shown = subprocess.run(['unshare', '-m', 'sh', '-c', inside], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        assert [re.sub(r'\d+\.\d+\.[0-9a-f]+', 'table', name) for name in shown] == ['full', 'none', 'serve', 'table', 'none', 'serve'] or \
            [re.sub(r'\d+\.\d+\.[0-9a-f]+', 'table', name) for name in shown] == ['full', 'none', 'serve', 'none', 'serve', 'table'], shown


def that_one_of_another_pid_namespace_is_named():
    """Its mark stays, since nobody here knows when the process ends."""
    with directory() as tables:
        process = start(tables, ['unshare', '-m', '--pid', '--fork', '--kill-child'], 'wait')
        (inner,) = children(process.pid)
        for _ in range(2):
            assert re.search(r'^ *1 .* are private +\[another pid namespace\] \(No space left on device\)$', ps(inner, tables), re.M)
        os.kill(inner, signal.SIGKILL)
        process.wait()


main(globals())
