# SPDX-License-Identifier: MIT
"""Tables in a tmpfs: what a killed process had recorded is written by `deltaprof recover`, all of it and nothing else."""
import glob
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

import reader
from harness import BUILD, environment, main, need, new_directory, share, skip, victim, wait_until

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
FUNCTIONS = ['makes_one', 'makes_two', 'makes_three']
BOOK = 1 + 4 + 4 + 2 * len(FUNCTIONS)  # numbers of a process
random.seed(31)


def is_tmpfs(path):
    done = subprocess.run(['stat', '-f', '-c', '%T', path], capture_output=True, text=True)
    return done.stdout.strip() == 'tmpfs'


if not is_tmpfs('/dev/shm'):
    skip('no tmpfs at /dev/shm')


def has_ended(pid, thread=None):
    try:
        with open(f'/proc/{pid}/task/{thread or pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return True


def have_all_ended(pid):
    """A killed process's main thread can be gone before the others are."""
    try:
        return all(has_ended(pid, thread) for thread in os.listdir(f'/proc/{pid}/task'))
    except (FileNotFoundError, ProcessLookupError):
        return True


class Tables:
    """A directory for tables, one for profiles, and the page in which the victim keeps its book."""

    def __enter__(self):
        self.tables = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
        self.out = new_directory()
        self.page = os.path.join(self.tables, 'book')
        with open(self.page, 'wb') as f:
            f.write(bytes(4096))
        with open(self.page, 'r+b') as f:
            self.memory = mmap.mmap(f.fileno(), 4096)
        return self

    def __exit__(self, *unused):
        self.memory.close()
        shutil.rmtree(self.tables)

    def book(self, process=0):
        """(pid, begun, done, {function: (begun, done)}); begun and done are allocs, bytes, frees, freed bytes."""
        n = struct.unpack_from(f'{BOOK}q', self.memory, process * BOOK * 8)
        by_function = {name: n[9 + 2 * i:11 + 2 * i] for i, name in enumerate(FUNCTIONS)}
        return n[0], n[1:5], n[5:9], by_function

    def left(self):
        return [name for name in os.listdir(self.tables) if re.fullmatch(r'\d+\.\d+\.[0-9a-f]+(\.new)?', name)]

    def start(self, threads=1, mode='plain', conf='heap_rate=1,cpu_rate=0,log=none'):
        conf = f'{conf},tables={self.tables}'
        return subprocess.Popen([victim('tables'), self.page, str(threads), mode], env=environment(conf, self.out),
                                start_new_session=True, stdout=subprocess.DEVNULL)

    def kill(self, process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for i in range(2):
            wait_until(lambda: have_all_ended(self.book(i)[0]))

    def deltaprof(self, *words, status=0):
        done = subprocess.run([DELTAPROF, *map(str, words)], capture_output=True, text=True, timeout=120)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def heap(self, pid):
        """Of all files of a process: sums by function of {allocs, bytes, frees, freed bytes} of its own blocks."""
        files = reader.files(self.out, 'heap', '*', str(pid))
        sums = {}
        for path in files:
            for sample in reader.load(path).samples:
                if ('fork', 'inherited') in sample.labels:
                    continue
                name = next((n for n in sample.names if n in FUNCTIONS), 'other')
                row = sums.setdefault(name, [0, 0, 0, 0])
                row[0] += sample.values['alloc_objects']
                row[1] += sample.values['alloc_space']
                if path == files[-1]:
                    row[2] -= sample.values['inuse_objects']
                    row[3] -= sample.values['inuse_space']
        for row in sums.values():
            row[2] += row[0]
            row[3] += row[1]
        return sums, files


def lies_between(t, process=0, extra=0):
    """Each sum of the profiles lies between what was done and what was begun. extra: allocations before the book begins."""
    pid, begun, done, by_function = t.book(process)
    sums, files = t.heap(pid)
    assert files, os.listdir(t.out)
    total = [sum(sums.get(name, [0] * 4)[i] for name in FUNCTIONS) for i in range(4)]
    for i in range(4):
        assert done[i] <= total[i] <= begun[i], (i, done, total, begun, sums)
    for name in FUNCTIONS:
        assert by_function[name][1] <= sums[name][0] <= by_function[name][0], (name, by_function, sums)
    last = reader.load(files[-1])
    assert '#ended' in last.comments and '#killed' in last.comments, last.comments


def killed(rounds, threads, mode='plain', processes=1, conf='heap_rate=1,cpu_rate=0,log=none'):
    for _ in range(share(rounds)):
        with Tables() as t:
            process = t.start(threads, mode, conf)
            events = random.randrange(1000, 60000)
            wait_until(lambda: all(t.book(i)[2][0] > events for i in range(processes)))
            t.kill(process)
            wait_until(lambda: len(t.left()) >= processes)
            t.deltaprof('recover', t.tables)
            for i in range(processes):
                lies_between(t, i)
            assert t.left() == [], t.left()


def that_a_kill_loses_at_most_one_event_a_thread():
    killed(15, 1)
    killed(15, 4)


def memory_group():
    """A new control group with a limit of 48 MiB, and its file of members; None: this user may not make one."""
    for top, limit in ('/sys/fs/cgroup/memory', 'memory.limit_in_bytes'), ('/sys/fs/cgroup', 'memory.max'):
        group = os.path.join(top, f'deltaprof-test-{os.getpid()}')
        try:
            os.mkdir(group)
            with open(os.path.join(group, limit), 'w') as f:
                f.write(str(48 << 20))
            return group
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
    return None


def that_an_out_of_memory_kill_loses_no_more():
    group = memory_group()
    if not group:
        skip('no control group for memory')
    try:
        for threads in 1, 4:
            with Tables() as t:
                def join():
                    with open(os.path.join(group, 'cgroup.procs'), 'w') as f:
                        f.write(str(os.getpid()))
                process = subprocess.Popen([victim('tables'), t.page, str(threads), 'grow'], preexec_fn=join, start_new_session=True,
                                           env=environment(f'heap_rate=1,cpu_rate=0,log=none,tables={t.tables}', t.out))
                assert process.wait(120) == -signal.SIGKILL
                t.deltaprof('recover', t.tables)
                lies_between(t)
                assert t.left() == []
    finally:
        wait_until(lambda: not open(os.path.join(group, 'cgroup.procs')).read())
        os.rmdir(group)


def that_the_last_delta_begins_at_the_last_file():
    killed(6, 2, conf='heap_rate=1,cpu_rate=0,log=none,interval=20ms,keep=0')


def that_a_forked_child_leaves_its_own_events():
    killed(10, 2, 'fork', 2)


def that_exec_leaves_nothing_of_before():
    killed(5, 1, 'exec')


def that_a_raw_clone_counts_nothing_into_its_parent():
    killed(3, 1, 'raw')


def that_the_window_of_a_killed_process_has_its_cpu_time():
    with Tables() as t:
        process = subprocess.Popen([victim('cpu'), 'forever'], env=environment(f'cpu_rate=10ms,log=none,interval=0,tables={t.tables}', t.out),
                                   start_new_session=True, stdout=subprocess.DEVNULL)

        def used():
            with open(f'/proc/{process.pid}/stat') as f:
                return int(f.read().rsplit(')', 1)[1].split()[11]) / os.sysconf('SC_CLK_TCK')
        wait_until(lambda: used() > 2)
        process.kill()
        process.wait()
        t.deltaprof('recover', t.tables)
        [path] = reader.files(t.out, 'cpu', '*', str(process.pid))
        p = reader.load(path)
        assert 1e9 < p.total('cpu') < 2.1 * p.duration_ns, (p.total('cpu'), p.duration_ns)  # two threads


def that_a_process_whose_main_thread_has_left_lives():
    with Tables() as t:
        process = t.start(2, 'left')
        wait_until(lambda: t.book()[2][0] > 1000 and has_ended(process.pid))  # as /proc says of it
        t.deltaprof('recover', t.tables)
        assert len(t.left()) == 1 and str(process.pid) in t.deltaprof('ps', t.tables)
        process.kill()
        process.wait()
        t.deltaprof('recover', t.tables)
        lies_between(t)
        assert t.left() == [], t.left()


def that_a_normal_end_leaves_no_file():
    with Tables() as t:
        done = subprocess.run(['/bin/sh', '-c', 'x=$(echo 1); : "$x"; exit 3'],
                              env=environment(f'heap_rate=1,cpu_rate=0,log=none,tables={t.tables}', t.out))
        assert done.returncode == 3 and t.left() == [], t.left()


def that_allocations_while_the_last_profile_is_written_come_later():
    """Of other threads: their table stays, and its file says that the process was not killed. In some rounds none comes so late."""
    def is_late():
        with Tables() as t:
            done = t.start(4, 'exit', 'heap_rate=1,cpu_rate=0,log=none')
            assert done.wait(timeout=60) == 0, done
            pid, begun, *_ = t.book()
            left, before = t.left(), t.heap(pid)[1]
            t.deltaprof('recover', t.tables)
            sums, files = t.heap(pid)
            assert t.left() == [] and before == files[:len(before)], (t.left(), before, files)
            assert sum(row[0] for name, row in sums.items() if name in FUNCTIONS) <= begun[0], (sums, begun)
            if len(files) == len(before):
                return False
            rest = reader.load(files[-1])
            assert left and len(files) == len(before) + 1, (left, before, files)
            assert '#ended' in rest.comments and '#killed' not in rest.comments, rest.comments
            return sum(s.values['alloc_objects'] for s in rest.samples)
    wait_until(is_late)


def that_profiles_without_a_directory_stay_in_the_tables():
    """At the end of the process the line says so, and recover delivers them once there is a directory."""
    with Tables() as t:
        conf = f'heap_rate=1,cpu_rate=0,interval=0,tables={t.tables}'
        with subprocess.Popen([sys.executable, '-c', 'input(); print("read", flush=True); input()'], env=environment(conf, t.out),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            p.stdin.write('read\n')
            p.stdin.flush()
            assert p.stdout.readline() == 'read\n'
            assert len(t.left()) == 1, t.left()
            os.rmdir(t.out)
            _, errors = p.communicate('end\n', timeout=60)
        assert 'stay in the tables, for deltaprof recover' in errors and 'lost' not in errors, errors
        os.mkdir(t.out)
        t.deltaprof('recover', t.tables)
        assert t.left() == [], t.left()
        last = reader.load(reader.files(t.out, 'heap', '*', str(p.pid))[-1])
        assert sum(s.values['alloc_objects'] for s in last.samples) and '#ended' in last.comments, last.comments


def that_a_living_process_is_read_without_its_help():
    with Tables() as t:
        os.environ['XDG_RUNTIME_DIR'] = t.tables
        users = os.path.join(t.tables, f'deltaprof-{os.geteuid()}')
        process = subprocess.Popen([victim('tables'), t.page, '1', 'plain'], start_new_session=True,
                                   env=environment('heap_rate=1,cpu_rate=0,log=none,interval=0,types=waste', t.out))
        wait_until(lambda: t.book()[2][0] > 1000)
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: open(f'/proc/{process.pid}/stat').read().rsplit(')', 1)[1].split()[0] == 'T')
        top = t.deltaprof('top', '--type', 'alloc_objects', process.pid)
        assert all(name in top for name in FUNCTIONS), top
        new = os.path.join(t.out, 'new')
        for verb in ('tree',), ('leaks',), ('summary',), ('waits',), ('growth',), ('rss',), ('churn',), ('merge', '-o', new), ('check', '--max', '100G'), \
                ('convert', '-o', new + '.folded'), ('timeline', '-o', new + '.json'), ('pgo', '--for', 'bolt', '-o', new):
            done = subprocess.run([DELTAPROF, *verb, str(process.pid)], capture_output=True, text=True, timeout=60)
            assert done.returncode in (0, 1) and 'deltaprof ps' not in done.stderr and 'No such file' not in done.stderr, (verb, done)
            assert '/deltaprof.' not in done.stdout + done.stderr, done  # the directory that is deleted
        with open(new + '.folded') as f:
            assert any(name in f.read() for name in FUNCTIONS)
        for path in glob.glob(new + '*'):
            os.remove(path)
        done = subprocess.run([DELTAPROF, 'diff', str(process.pid), t.out], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and f'{process.pid}: no file; of a process deltaprof merge {process.pid} -o FILE makes one' in done.stderr, done
        listed = [line.split() for line in t.deltaprof('ps').splitlines()[1:]]
        assert [line[0] for line in listed] == [str(process.pid)] and listed[0][-1] == 'victim_tables', listed
        row = json.loads(t.deltaprof('ps', '--json'))['processes'][0]
        assert row['program'] == 'victim_tables' and row['kinds'] == listed[0][-2] and 'heap' in row['kinds'] and row['inuse_space'] > 0, row
        t.kill(process)
        assert t.deltaprof('ps').splitlines()[1:] == []
        t.deltaprof('top', t.out)  # delivers it
        lies_between(t)
        assert os.listdir(users) == []
        del os.environ['XDG_RUNTIME_DIR']


def that_a_living_process_and_its_files_are_one_process():
    """What it has written and what its tables have since are states of one process: memory in use counts once."""
    with Tables() as t:
        os.environ['XDG_RUNTIME_DIR'] = t.tables
        process = subprocess.Popen([victim('tables'), t.page, '1', 'plain'], start_new_session=True,
                                   env=environment('heap_rate=1,cpu_rate=10ms,log=none,interval=1s,wall_rate=100ms',
                                                   t.out))
        wait_until(lambda: reader.files(t.out, 'heap', '*', str(process.pid)) and
                   reader.files(t.out, 'wall', '*', str(process.pid)))
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: open(f'/proc/{process.pid}/stat').read().rsplit(')', 1)[1].split()[0] == 'T')
        _, begun, done, _ = t.book()
        top = json.loads(t.deltaprof('top', '--json', '-n', '0', '--type', 'inuse_space', process.pid))
        sums = {f['name']: f['flat'] for f in top['rows']}
        in_use = sum(sums.get(name, 0) for name in FUNCTIONS)
        assert done[1] - begun[3] <= in_use <= begun[1] - done[3], (in_use, begun, done)
        assert 'in use by 1 process,' in t.deltaprof('top', process.pid)
        for option in '--no-idle', '--no-id', '--inherited':  # none takes a value, so the pid behind it is one
            kind = 'heap' if option == '--inherited' else 'wall'
            assert 'Type:' in t.deltaprof('top', '--kind', kind, option, process.pid)
        t.kill(process)
        t.deltaprof('recover')
        lies_between(t)
        del os.environ['XDG_RUNTIME_DIR']


def that_a_damaged_table_is_refused_and_stays():
    with Tables() as t:
        process = t.start()
        wait_until(lambda: t.book()[2][0] > 1000)
        t.kill(process)
        wait_until(t.left)
        path = os.path.join(t.tables, t.left()[0])
        with open(path, 'rb') as f:
            whole = f.read()
        for i in range(3):
            with open(f'{t.tables}/{os.getpid()}.{i}.0123abcd', 'wb') as f:
                f.write(b'x' + whole[1:])
        done = subprocess.run([DELTAPROF, 'recover', t.tables], capture_output=True, text=True, timeout=60)
        assert '3 files of tables of another version' in done.stderr and len(t.left()) in (3, 4), (done, t.left())
        for i in range(3):
            os.remove(f'{t.tables}/{os.getpid()}.{i}.0123abcd')
        with open(path, 'wb') as f:
            f.write(whole)
        for at, what in ((0, b'x'), (24, b'\xff' * 16), (3000, b'\xff' * 1000), (5000, b'\xff' * 2000)):
            with open(path, 'r+b') as f:
                f.write(whole)
                f.seek(at)
                f.write(what)
            done = subprocess.run([DELTAPROF, 'recover', t.tables], capture_output=True, text=True, timeout=60)
            assert done.returncode in (0, 1), (at, done)
            if done.returncode == 0:
                return  # the bytes were not needed: it was delivered
            assert len(t.left()) == 1 and done.stderr.count('\n') == 1, (at, done.stderr)


def ends_as_without_us(argv, prefix=(), conf='heap_rate=1,cpu_rate=0,log=none', **options):
    out = new_directory()
    done = subprocess.run([*prefix, *argv], env=environment(conf, out), capture_output=True, timeout=120, **options)
    assert done.returncode == 0, (argv, prefix, done.returncode, done.stderr)
    return out


def that_limits_and_full_file_systems_harm_nobody():
    with Tables() as t:
        conf = f'heap_rate=1,cpu_rate=0,log=none,tables={t.tables}'
        no_files = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        ends_as_without_us([victim('many'), '200'] if os.path.exists(victim('many')) else ['/bin/true'], conf=conf + ',out=none',
                           preexec_fn=no_files)
        assert t.left() == []
        if os.geteuid() or subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode:
            return
        for size in '64k', '300k':
            script = f'mount -t tmpfs -o size={size} none {t.tables} && exec "$@"'
            ends_as_without_us(['/bin/sh', '-c', 'for i in 1 2 3; do x=$(echo $i); done'],
                               ['unshare', '-m', 'sh', '-c', script, 'sh'], conf)


def that_nothing_is_written_through_a_link_or_into_another_users_directory():
    with Tables() as t:
        real = os.path.join(t.tables, 'real')
        os.mkdir(real, 0o700)
        os.symlink(real, os.path.join(t.tables, 'link'))
        os.mkdir(os.path.join(t.tables, 'open'), 0o755)
        os.chmod(os.path.join(t.tables, 'open'), 0o755)
        for name in 'link', 'open':
            directory = os.path.join(t.tables, name)
            ends_as_without_us(['/bin/sh', '-c', 'x=$(echo 1)'], conf=f'heap_rate=1,cpu_rate=0,log=none,tables={directory}')
            assert os.listdir(directory) == [], name


def demand_what_another_user_has(t, process, stays):
    """Of a process whose user cannot write to the directory of its profiles, until it may; stays: another one that sees its /dev/shm."""
    def there(*words):
        done = subprocess.run(['nsenter', f'--mount=/proc/{stays.pid}/ns/mnt', 'env', '-u', 'XDG_RUNTIME_DIR', DELTAPROF, *map(str, words)], capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout
    os.chmod(os.path.dirname(t.out), 0o755)
    os.chmod(t.out, 0o755)
    wait_until(lambda: open(f'/proc/{stays.pid}/comm').read() == 'sleep\n')

    def logged():
        with open(os.path.join(t.tables, 'log')) as log:
            return f'cannot write profiles in {t.out} as uid 65534: EACCES (chmod 1777 lets it); they stay pending' in log.read()
    wait_until(logged)
    text = there(t.out)
    assert f'Missing: 1 process (victim_tables {process.pid}) of another user, which cannot write here: chmod 1777 {t.out}, then look again' in text, text
    text = there(process.pid)
    assert f'Missing: the ticks of process {process.pid}, whose user cannot write in {t.out}: chmod 1777' in text, text
    t.kill(process)
    assert f'Missing: 1 process (victim_tables {process.pid})' in there(t.out)
    os.chmod(t.out, 0o1777)
    text = there(t.out)
    assert 'Missing' not in text and 'kept pending' not in text and 'in use' in text and glob.glob(f'{t.out}/victim_tables.{process.pid}.*.heap.pb.gz'), text


def that_a_program_that_changes_its_user_makes_no_directory_of_the_first_one():
    """Its directory is that of the second user: root's, made by nobody, would be closed to root's processes."""
    if os.geteuid() or subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode:
        skip('root and unshare are needed')
    with Tables() as t:
        env = environment('heap_rate=1,cpu_rate=0,interval=100ms', t.out)
        script = 'exec 9<>"$0" && mount -t tmpfs none /dev/shm && exec "$@"'
        with open(os.path.join(t.tables, 'log'), 'w') as log:
            process = subprocess.Popen(['unshare', '-m', 'sh', '-c', script, t.page, 'env', '-u', 'XDG_RUNTIME_DIR',
                                        f'LD_PRELOAD={env.pop("LD_PRELOAD")}', victim('tables'), '/proc/self/fd/9', '1', 'user'],
                                       env=env, start_new_session=True, stderr=log)
        wait_until(lambda: t.book()[2][0] > 1000)
        place = f'/proc/{process.pid}/root/dev/shm'
        directories = os.listdir(place)
        owners = [os.stat(os.path.join(place, name)).st_uid for name in directories]
        files = [os.listdir(os.path.join(place, name)) for name in directories]
        stays = subprocess.Popen(['nsenter', f'--mount=/proc/{process.pid}/ns/mnt', 'sleep', '600'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            demand_what_another_user_has(t, process, stays)
        finally:
            stays.kill()
            stays.wait()
            if process.poll() is None:
                t.kill(process)
        assert directories == ['deltaprof-65534'] and owners == [65534], (directories, owners)
        assert len(files[0]) == 1 and files[0][0].startswith(f'{process.pid}.'), files


main(globals())
