# SPDX-License-Identifier: MIT
"""Processes that were killed, alone or with the server of their family: `deltaprof recover` writes what they did."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

import reader
from harness import BUILD, environment, main, new_directory, skip, victim, wait_until

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
EXACT = 'heap_rate=1,cpu_rate=0,mutex_rate=0,block_rate=0,out=none,log=none'

if subprocess.run(['stat', '-f', '-c', '%T', '/dev/shm'], capture_output=True, text=True).stdout.strip() != 'tmpfs':
    skip('no tmpfs at /dev/shm')


def made_in(out, pid='*'):
    """The blocks that the victims' function made, by the files of a process, or of all, after a call of recover."""
    subprocess.run([DELTAPROF, 'recover'], capture_output=True, timeout=60)
    files = reader.files(out, 'heap', '*', str(pid))
    return sum(s.values['alloc_objects'] for f in files for s in reader.load(f).samples if 'works' in s.names)


def that_a_family_whose_server_was_killed_is_recovered():
    out = new_directory()
    run = subprocess.Popen([DELTAPROF, 'run', '--serve', '127.0.0.1:20000-29999', '-o', EXACT.replace('out=none', f'out={out}'),
                            '--', victim('works'), '70', 'wait'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        tables = re.search(r'profiles of (\S+)', run.stderr.readline().decode())[1]
        assert run.stdout.readline() == b'done\n'
        subprocess.run(['pkill', '-9', '-f', f'serve .*--while {run.pid} '], check=True)
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
        run.stderr.close()
    # another user of /dev/shm may be the one that delivers, and deletes the directory after the files have their names
    wait_until(lambda: made_in(out) == 70 and not os.path.exists(tables))


def that_a_family_goes_on_without_its_server():
    """It is killed, and processes of the family end one after the other: recover writes the files of each where the server did."""
    out = os.path.join(new_directory(), 'files')
    script = f'{victim("works")} 70 wait & {victim("works")} 30 wait & wait'
    run = subprocess.Popen([DELTAPROF, 'run', '--serve', '127.0.0.1:20000-29999', '--serve-out', out, '-o', EXACT, '--', '/bin/sh', '-c', script],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pids = []
    try:
        tables = re.search(r'profiles of (\S+)', run.stderr.readline().decode())[1]
        for _ in range(2):
            assert run.stdout.readline() == b'done\n'
        with open(f'/proc/{run.pid}/task/{run.pid}/children') as f:
            pids = [int(pid) for pid in f.read().split()]
        assert len(pids) == 2, pids
        subprocess.run(['pkill', '-9', '-f', f'serve .*--while {run.pid} '], check=True)
        made_by = {}
        for pid in pids:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                made_by[pid] = int(f.read().split(b'\0')[1])
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: made_in(out, pids[0]) == made_by[pids[0]])
        os.kill(pids[1], signal.SIGKILL)
        wait_until(lambda: made_in(out) == 100 and not os.path.exists(tables))
    finally:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        run.kill()
        run.wait()
        run.stdout.close()
        run.stderr.close()


def that_a_process_with_keys_at_their_limits_is_recovered():
    for conf in ('memory=4M,depth=1,max_samples=1,types=alloc,symbolize=none,unwind=fp',
                 'memory=1G,depth=1024,max_samples=1000000000,types=waste,symbolize=lines,unwind=libunwind,address=elf,age=on'):
        tables, out = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm'), new_directory()
        p = subprocess.Popen([victim('works'), '70', 'wait'], env=environment(f'{EXACT},tables={tables},{conf}', out), stdout=subprocess.PIPE)
        try:
            assert p.stdout.readline() == b'done\n'
            p.kill()
            p.wait()
            subprocess.run([DELTAPROF, 'recover', tables], check=True, timeout=60, stdout=subprocess.DEVNULL)
            files = [reader.load(path) for path in reader.files(out, 'heap')]
            assert sum(s.values['alloc_objects'] for f in files for s in f.samples) >= 70, conf
        finally:
            p.kill()
            p.wait()
            p.stdout.close()
            shutil.rmtree(tables)


def that_directories_of_families_without_tables_are_deleted():
    """A recover that was killed left one; those that may be in use, and those with other files, stay."""
    parent = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    own = os.path.join(parent, f'deltaprof-{os.geteuid()}')
    ended = [subprocess.Popen(['true']) for _ in range(3)]
    for p in ended:
        p.wait()
    left, young, full, running = (os.path.join(own, f'run-{pid}') for pid in [*(p.pid for p in ended), os.getpid()])
    try:
        for path in (left, young, running, full):
            os.makedirs(path, 0o700)
            with open(os.path.join(path, 'serve'), 'w') as f:
                f.write('/out')
        os.chmod(own, 0o700)
        with open(os.path.join(full, 'other'), 'w') as f:
            f.write('x')
        for path in (left, running, full):
            os.utime(path, (0, os.stat(path).st_mtime - 100))
        subprocess.run([DELTAPROF, 'recover'], env=dict(os.environ, XDG_RUNTIME_DIR=parent), check=True, timeout=60, stdout=subprocess.DEVNULL)
        assert sorted(os.listdir(own)) == sorted(os.path.basename(path) for path in (young, running, full)), os.listdir(own)
    finally:
        shutil.rmtree(parent)


main(globals())
