# SPDX-License-Identifier: MIT
"""deltaprof on, off and set: a process that began with start=off hears them, and they do what they say. What it allocated
before is not in its profiles."""
import atexit
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from harness import BUILD, environment, main, new_directory, profiles, reachable_by, reader, skip, victim, wait_until

CLI = os.path.join(BUILD, 'src/tool/cli/deltaprof')
HEAD, SLOT = 4096, 2048
# A directory of this test alone, in the tmpfs that is there anyway.
RUNTIME = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm') if os.path.isdir('/dev/shm') else None
if RUNTIME is None or subprocess.run(['stat', '-fc%T', RUNTIME], capture_output=True, text=True).stdout != 'tmpfs\n':
    skip('/dev/shm is no tmpfs')
atexit.register(shutil.rmtree, RUNTIME, True)
CONTROL = os.path.join(RUNTIME, f'deltaprof-{os.getuid()}', 'control')


class Victim:
    """victim_dormant, which is off. Ends with the block."""

    def __init__(self, churning=0, conf='', start='start=off', extra=None, before=None, **kwargs):
        self.out = new_directory()
        env = environment(f'{start},interval=50ms,{conf}', self.out, extra={'XDG_RUNTIME_DIR': RUNTIME, **(extra or {})})
        self.process = subprocess.Popen([victim('dormant'), str(churning)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, bufsize=1, preexec_fn=before, **kwargs)
        self.pid = int(self.process.stdout.readline().split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.status = self.process.wait(60)
        self.errors = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()

    def say(self, line):
        """The number that it answers."""
        self.process.stdin.write(line + '\n')
        word, number = self.process.stdout.readline().split()
        assert word in (line.split()[0], 'ready'), (line, word)
        return int(number)

    def threads(self, pid=None):
        """The names of the profiler's threads."""
        task = f'/proc/{pid or self.pid}/task'
        names = []
        for thread in os.listdir(task):
            try:
                with open(f'{task}/{thread}/comm') as f:
                    names.append(f.read().strip())
            except (FileNotFoundError, ProcessLookupError):
                pass
        return [name for name in names if name == 'deltaprof']

    def has_agent(self):
        return bool(self.threads())

    def n_threads(self):
        return len(os.listdir(f'/proc/{self.pid}/task'))


def command(*words, status=0):
    done = subprocess.run([CLI, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert status in (None, done.returncode), (words, done.returncode, done.stdout, done.stderr)
    assert 'Sanitizer' not in done.stderr, done.stderr
    assert len((done.stdout + done.stderr).splitlines()) == 1, done
    return done.stdout + done.stderr


def on(pid, *words, **kwargs):
    return command('on', pid, '--wait', '60s', *words, **kwargs)


def off(pid, **kwargs):
    return command('off', pid, '--wait', '60s', **kwargs)


def sums(v, function, kind='heap'):
    """(allocated objects, bytes, in-use objects, bytes) of all samples with the function: allocations summed, in use of the newest."""
    found, last = [0, 0], [0, 0]
    for p in profiles(v, kind=kind):
        last = [0, 0]
        for sample in p.samples:
            if function in sample.names:
                values = sample.values
                assert min(values.values()) >= 0, values
                found = [found[0] + values['alloc_objects'], found[1] + values['alloc_space']]
                last = [last[0] + values['inuse_objects'], last[1] + values['inuse_space']]
    return (*found, *last)


def that_a_process_that_is_off_has_no_thread_no_file_and_no_table():
    with Victim() as v, Victim(3) as w:
        for process, threads in ((v, 1), (w, 4)):
            wait_until(lambda: process.n_threads() == threads)  # a prepared thread has ended
            process.say('warm')
            files = {os.readlink(f'/proc/{process.pid}/fd/{fd}') for fd in os.listdir(f'/proc/{process.pid}/fd')}
            assert all(re.match(r'pipe:', name) for name in files), files
            with open(f'/proc/{process.pid}/maps') as f:
                large = [line for line in f if 'rw-p' in line and re.search(r' 0 *$', line) and
                         sum(int(x, 16) * s for x, s in zip(line.split()[0].split('-'), (-1, 1))) in range(20 << 20, 60 << 20)]
            assert not large, large
    for process in v, w:
        assert process.status == 5 and process.errors == '' and os.listdir(process.out) == [], (process.status, process.errors)


def that_what_is_older_does_not_count_at_every_event():
    with Victim(1) as v:
        v.say('old 1000 100')
        assert on(v.pid, '-o', 'heap_rate=1') == f'process {v.pid}: on\n'
        wait_until(v.has_agent)
        v.say('warm')
        v.say('kept 500 100')
        v.say('free 200')
        v.say('free_old')
        assert off(v.pid) == f'process {v.pid}: off\n'
        wait_until(lambda: not v.has_agent())
        assert sums(v, 'hold_kept') == (500, 50000, 300, 30000), sums(v, 'hold_kept')
        assert sums(v, 'hold_old') == (0, 0, 0, 0)
        since = [c for p in profiles(v) for c in p.comments if c.startswith('on since ')]
        assert since and all(re.match(r'on since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: ', c) for c in since), since
        parts = {c.split('=')[0] for p in profiles(v) for c in p.comments if c.startswith('#RssPart malloc, held')}
        assert parts <= {'#RssPart malloc, held, or in use since before the profiler was on'}, parts
        # While it is off nothing is counted but frees; then it goes on.
        v.say('warm')
        v.say('kept 1000 100')
        v.say('free 100')
        on(v.pid)
        v.say('warm')
        v.say('kept 50 100')
        off(v.pid)
        assert sums(v, 'hold_kept') == (550, 55000, 250, 25000), sums(v, 'hold_kept')
    assert v.status == 5 and v.errors == '', (v.status, v.errors)


def that_what_is_older_does_not_count_at_a_rate():
    for conf, n, size in (('heap_rate=64k', 40000, 1000), ('heap_rate=512k', 50000, 8000)):
        with Victim(1) as v:
            v.say('old 20000 3000')
            on(v.pid, '-o', conf)
            v.say('warm')
            v.say(f'kept {n} {size}')
            v.say(f'free {n // 2}')
            v.say('free_old')
            v.say('old 1 10')
            off(v.pid)
            objects, n_bytes, in_use, in_use_bytes = sums(v, 'hold_kept')  # of more than 600 samples: six standard deviations
            assert 0.75 * n < objects < 1.25 * n and 0.75 * n < 2 * in_use < 1.25 * n, (objects, in_use)
            assert 0.75 * n * size < n_bytes < 1.25 * n * size and in_use_bytes == in_use * size
            assert sums(v, 'hold_old')[1] < 1 << 20
            v.say(f'free {n - n // 2}')
            on(v.pid)
            v.say('warm')
            off(v.pid)
            assert sums(v, 'hold_kept')[2:] == (0, 0)
        assert v.status == 5 and v.errors == ''


def that_on_and_off_change_a_process_with_threads():
    with Victim(3) as v:
        on(v.pid, '-o', 'heap_rate=16k')
        wait_until(v.has_agent)
        assert v.threads() == ['deltaprof']
        wait_until(lambda: profiles(v))
        on(v.pid)  # it is on already
        assert command('set', v.pid, 'heap_rate=1,interval=20ms') == f'process {v.pid}: changed\n'
        on(v.pid, '-o', 'heap_rate=64k')
        assert 'heap_rat: no such key' in command('set', v.pid, 'heap_rat=1', status=2)
        assert 'out' in command('on', v.pid, '-o', f'out={v.out}/x', status=1)
        off(v.pid)
        off(v.pid)  # it is off already
        wait_until(lambda: v.n_threads() == 4)
        assert 'deltaprof on' in command('set', v.pid, 'heap_rate=1', status=1)
        v.out = new_directory()
        on(v.pid, '-o', f'out={v.out}')
        wait_until(lambda: profiles(v))
    assert v.status == 5 and v.errors == '', (v.status, v.errors)
    assert {'#exit', '#ended'} & set(profiles(v)[-1].comments)


def that_ps_and_profiles_tell_since_when_it_is_off():
    with Victim(conf='tables=' + RUNTIME + '/t,out=none') as v:
        def listed():
            line = next((x for x in subprocess.run([CLI, 'ps', RUNTIME + '/t'], capture_output=True, text=True).stdout.splitlines()
                         if x.split()[0] == str(v.pid)), '')
            return line.split()
        on_now = lambda: v.say('churn') >= 0 and v.has_agent()
        command('on', v.pid, '-o', 'heap_rate=1', '--wait', '50ms', status=None)
        wait_until(on_now)
        wait_until(lambda: v.say('churn') >= 0 and 'heap' in ' '.join(listed()))
        assert 'mutex' in ' '.join(listed()), listed()
        command('set', v.pid, 'mutex_rate=0')
        assert 'mutex' not in ' '.join(listed()) and 'heap' in ' '.join(listed()), listed()
        off(v.pid)
        assert 'off' in listed() and 'heap' not in ' '.join(listed()), listed()
        command('on', v.pid, '--wait', '50ms', status=None)
        wait_until(on_now)
        assert 'heap' in ' '.join(listed()), listed()


def that_commands_of_several_shells_take_turns():
    with Victim(2, conf='heap_rate=1') as v:
        on(v.pid)
        words = [[CLI, 'set', str(v.pid), f'heap_rate={1 + i}', '--wait', '60s'] for i in range(6)]
        for _ in range(4):
            asked = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for line in words]
            answers = [(process.communicate(timeout=120)[0], process.returncode) for process in asked]
            assert all(status == 0 for _, status in answers), answers


def that_it_says_on_stderr_what_is_wrong():
    for churning in 0, 2:
        with Victim(churning) as v:
            assert not churning or f'process {v.pid}: exe= excludes this program' in command('on', v.pid, '--wait', '60s', '-o', 'exe=none*', status=None)
            command('on', v.pid, '--wait', '50ms' if not churning else '60s', '-o', 'out=/proc/none/x', status=0 if churning else 3)
            wait_until(lambda: v.say('warm') >= 0 and v.has_agent())
            command('set', v.pid, '--wait', '60s', 'heap_rate=1')
            v.say('warm')
            off(v.pid)
        assert v.status == 5 and re.match(r'deltaprof\[\d+\]: cannot write profiles in /proc/none/x ', v.errors), v.errors


def that_children_and_programs_that_it_executes_are_off_as_well():
    with Victim(1) as v:
        child = v.say('fork')
        on(v.pid)
        wait_until(v.has_agent)
        assert not v.threads(child)
        off(v.pid)
        wait_until(lambda: not v.has_agent())
        on(child)
        wait_until(lambda: v.threads(child))
        assert not v.has_agent()
        grandchild_of_one_that_is_on = None
        off(child)
        on(v.pid)
        grandchild_of_one_that_is_on = v.say('fork')
        wait_until(lambda: v.threads(grandchild_of_one_that_is_on))
        off(grandchild_of_one_that_is_on)
        wait_until(lambda: not v.threads(grandchild_of_one_that_is_on))
        assert v.has_agent()
        v.say('exec')
        assert not v.has_agent()
        on(v.pid, '-o', 'heap_rate=1')
        wait_until(v.has_agent)
    assert v.status == 5 and v.errors == '', (v.status, v.errors)


def that_a_process_which_does_not_allocate_hears_later():
    with Victim() as v:
        answer = command('on', v.pid, '--wait', '50ms', status=3)
        assert answer == f'deltaprof on: process {v.pid} has not heard it yet: it will while it allocates\n', answer
        assert not v.has_agent()

        def hears():
            v.say('churn')
            return v.has_agent()
        wait_until(hears)
        off(v.pid)
        command('on', v.pid, '--wait', '50ms', status=3)
        command('off', v.pid, '--wait', '50ms', status=3)  # takes the place of on
        v.say('warm')
        assert not v.has_agent()
        other = new_directory()
        command('on', v.pid, '-o', f'out={other}', '--wait', '50ms', status=3)
        command('on', v.pid, '--wait', '50ms', status=3)  # goes with the first one
        wait_until(hears)
        wait_until(lambda: v.say('churn') >= 0 and reader.files(other))
    assert v.status == 5 and v.errors == ''


def that_a_process_ends_as_it_would_after_its_main_thread():
    with Victim(0) as v:  # the last thread is the library's
        command('on', v.pid, '--wait', '50ms', status=3)
        v.say('warm')
        wait_until(v.has_agent)
        v.process.stdin.write('leave\n')
        assert v.process.wait(60) == 0
    with Victim(1) as v:
        v.process.stdin.write('leave\n')
        on(v.pid)
        wait_until(v.has_agent)
        off(v.pid)
        v.process.kill()


def that_it_survives_a_storm():
    with Victim(2) as v:
        v.say('storm')
        for i in range(8):
            on(v.pid, '-o', f'heap_rate={("1", "64k", "512k")[i % 3]}')
            off(v.pid)
        assert v.say('calm') == 0
        on(v.pid)
    assert v.status == 5, (v.status, v.errors)


def that_a_broken_control_file_harms_no_process():
    with Victim(1) as v:
        numbers = random.Random(7)
        for i in range(6):
            with open(CONTROL, 'r+b') as f:
                for slot in range(64):
                    junk = bytearray(numbers.randbytes(SLOT) if hasattr(numbers, 'randbytes') else os.urandom(SLOT))
                    junk[:4] = struct.pack('=I', v.pid)
                    f.seek(HEAD + slot * SLOT)
                    f.write(junk)
                at = 32 + v.pid % 1016 * 4
                f.seek(at)
                f.write(struct.pack('=I', numbers.getrandbits(32)))
            v.say('warm')
        assert not v.has_agent()
        with open(CONTROL, 'r+b') as f:
            f.seek(HEAD)
            f.write(bytes(64 * SLOT))
        on(v.pid)
        wait_until(v.has_agent)
        os.truncate(CONTROL, 0)
        v.say('warm')
        off(v.pid)  # fills the file again
        os.truncate(CONTROL, 0)
        for _ in range(5):
            v.say('warm')
        on(v.pid)
        off(v.pid)
        os.truncate(CONTROL, 100)
        v.say('warm')
        assert 'not a control file' in command('on', v.pid, status=1)
        os.remove(CONTROL)
        with Victim(1) as w:
            on(w.pid)
            answer = command('on', v.pid, status=1)
            assert f'process {v.pid} hears nothing: its file {CONTROL} was removed' in answer, answer
    assert v.status == w.status == 5 and v.errors == w.errors == '', (v.status, w.status, v.errors, w.errors)


def that_links_and_files_of_others_are_not_used():
    elsewhere = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    atexit.register(shutil.rmtree, elsewhere, True)
    directory = os.path.join(elsewhere, f'deltaprof-{os.getuid()}')
    target = os.path.join(elsewhere, 'target')

    def link_to_a_directory():
        os.mkdir(target)
        os.symlink(target, directory)

    def link_to_a_file():
        os.mkdir(directory, 0o700)
        with open(target, 'w'):
            pass
        os.symlink(target, os.path.join(directory, 'control'))

    def open_directory():
        os.mkdir(directory)
        os.chmod(directory, 0o755)

    def fifo():
        os.mkdir(directory, 0o700)
        os.mkfifo(os.path.join(directory, 'control'), 0o600)

    for plant in link_to_a_directory, link_to_a_file, open_directory, fifo:
        plant()
        with Victim(1, extra={'XDG_RUNTIME_DIR': elsewhere}) as v:
            v.say('warm')
            assert 'start=off' in command('on', v.pid, status=1)
        assert v.status == 5 and re.fullmatch(r'deltaprof\[\d+\]: start=off: the control file: EPERM; .*\n', v.errors), (plant, v.errors)
        assert not os.path.isdir(target) or os.listdir(target) == []
        assert not os.path.isfile(target) or os.path.getsize(target) == 0
        for name in os.listdir(elsewhere):
            path = os.path.join(elsewhere, name)
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)


def that_limits_end_no_process():
    def no_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    if os.path.exists(CONTROL):
        os.remove(CONTROL)
    with Victim(1, before=no_file) as v:
        v.say('warm')
        assert 'start=off' in command('on', v.pid, status=1)
    assert v.status == 5 and re.fullmatch(r'deltaprof\[\d+\]: start=off: the control file: EFBIG; .*\n', v.errors), v.errors
    with Victim(1), Victim(1, before=no_file) as v:  # another process has made the file
        on(v.pid)
        wait_until(v.has_agent)
        off(v.pid)
    assert v.status == 5, (v.status, v.errors)
    space = (256 << 20, 256 << 20)
    with Victim(1, before=lambda: resource.setrlimit(resource.RLIMIT_AS, space)) as v:
        done = subprocess.run([CLI, 'on', str(v.pid), '--wait', '60s'], capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1), done  # what libc reserves for threads leaves room for the tables, or not
        v.say('warm')
    assert v.status == 5, (v.status, v.errors)


def that_a_process_without_tmpfs_stays_off():
    if os.geteuid() or not shutil.which('unshare'):
        skip('root and unshare are needed')
    env = environment('start=off', new_directory(), extra={'XDG_RUNTIME_DIR': new_directory()})
    hidden = new_directory()
    done = subprocess.run(['unshare', '-m', 'sh', '-c', f'mount --bind {hidden} /dev/shm && exec "$@"', 'sh', 'env',
                           f'LD_PRELOAD={env.pop("LD_PRELOAD")}', victim('dormant')],
                          env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if subprocess.run(['stat', '-fc%T', hidden], capture_output=True, text=True).stdout == 'tmpfs\n' or 'mount' in done.stderr:
        skip('no file system to hide /dev/shm with')
    assert done.returncode == 5 and len(done.stderr.splitlines()) == 1 and 'no tmpfs' in done.stderr, done
    assert os.listdir(hidden) == []


def that_a_sandbox_ends_the_hearing():
    with Victim(1) as v:
        assert v.say('filter') == 0
        command('on', v.pid, '--wait', '300ms', status=3)
        assert not v.has_agent()
    with Victim(1) as w:
        on(w.pid)
        wait_until(w.has_agent)
        assert w.say('filter') == 0
        wait_until(lambda: not w.has_agent())
        command('off', w.pid, '--wait', '300ms', status=3)
    assert v.status == w.status == 5 and v.errors == '', (v.status, w.status, v.errors)


def that_each_user_asks_only_his_own_processes():
    nobody = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups']
    if os.geteuid() or not shutil.which('setpriv') or not reachable_by('65534'):
        skip('root, setpriv and a readable build are needed')
    shared = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    atexit.register(shutil.rmtree, shared, True)
    os.chown(shared, 65534, 65534)
    out = tempfile.mkdtemp(prefix='deltaprof-test-')
    atexit.register(shutil.rmtree, out, True)
    os.chown(out, 65534, 65534)
    env = environment(f'start=off,out={out}', extra={'XDG_RUNTIME_DIR': shared})
    with Victim(1) as v, subprocess.Popen(
            [*nobody, 'env', f'LD_PRELOAD={env.pop("LD_PRELOAD")}', victim('dormant'), '1'], env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as w:
        pid = int(w.stdout.readline().split()[1])
        assert os.path.exists(os.path.join(shared, 'deltaprof-65534', 'control'))
        on(pid)  # root asks everybody
        asked = subprocess.run([*nobody, CLI, 'off', str(pid), '--wait', '60s'], capture_output=True, text=True, timeout=120)
        assert (asked.returncode, asked.stdout) == (0, f'process {pid}: off\n'), asked
        refused = subprocess.run([*nobody, CLI, 'on', str(v.pid)], capture_output=True, text=True, timeout=120)
        assert refused.returncode == 1 and 'root may ask' in refused.stderr, refused
        w.communicate('')
    assert (v.status, w.returncode) == (5, 5)


def that_other_processes_are_refused_in_one_line():
    with Victim(1, start='start=on') as v, subprocess.Popen(['sleep', '600']) as plain:
        assert 'did not begin with start=off' in command('on', v.pid, status=1)
        assert f'process {plain.pid} does not have deltaprof in it: start it by deltaprof run --dormant -- COMMAND' in \
            command('off', plain.pid, status=1)
        plain.kill()
    assert f'there is no process {plain.pid}' in command('on', plain.pid, status=1)
    for words in (['on'], ['on', 'x'], ['on', '1', '2'], ['on', '1', '--wait', 'x'], ['on', '1', '-o', 'start=on'], ['set', '1'],
                  ['off', '1', '-o', 'heap_rate=1'], ['set', '1', 'out=/tmp']):
        command(*words, status=2)


def that_run_has_an_option_for_it():
    env = environment(preload=False, extra={'XDG_RUNTIME_DIR': RUNTIME})
    out = new_directory()
    with subprocess.Popen([CLI, 'run', '--dormant', '-o', 'out=.,interval=50ms', '--', victim('dormant'), '1'], env=env, cwd=out,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert int(process.stdout.readline().split()[1]) == process.pid
        on(process.pid, '-o', 'heap_rate=16k')
        wait_until(lambda: reader.files(out))
        process.communicate('')
    assert process.returncode == 5


def that_the_durations_of_profiles_leave_out_the_time_off():
    recorded = {'heap': 0, 'cpu': 0}
    with Victim(1) as v:
        for rate, kinds in ('1ms', recorded), ('0', ['heap']), ('1ms', recorded):
            n, begin = {kind: len(profiles(v, kind=kind)) for kind in kinds}, time.monotonic_ns()
            on(v.pid, '-o', 'heap_rate=1,cpu_rate=' + rate)
            wait_until(lambda: (v.say('warm'), all(len(profiles(v, kind=kind)) > n[kind] for kind in kinds))[1])
            off(v.pid)
            recorded.update({kind: recorded[kind] + time.monotonic_ns() - begin for kind in kinds})
            time.sleep(1)
        lasted = {kind: sum(p.duration_ns for p in profiles(v, kind=kind)) for kind in recorded}
        assert all(0 < lasted[kind] <= recorded[kind] for kind in recorded), (lasted, recorded)


main(globals())
