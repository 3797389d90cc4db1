# SPDX-License-Identifier: MIT
"""wall_rate: the states of each thread sum to its life, and have the shares that its own clocks say."""
import collections
import ctypes
import json
import os
import subprocess
import urllib.request

import reader
from interpreters import interpreters
from harness import BUILD, HOOKS, Run, environment, free_port, main, new_directory, profiles, run, skip, three_tries, unless_busy, victim, wait_for_server, wait_until

RATE = 'wall_rate=20ms,cpu_rate=10ms,thread=on,heap_rate=0'
MS = 1000000
CLONE_NEWNS, MS_REC, MS_PRIVATE, PR_CAPBSET_DROP = 0x20000, 0x4000, 0x40000, 24  # of the kernel's headers
STATES = {'running', 'runnable', 'lock', 'io', 'sleep', 'fault', 'unknown'}


def lives(r):
    """What the victim says: {name: ((life, at most), {state: ns})}."""
    lines = [line.split() for line in r.stdout.splitlines()]
    return {words[0]: ((int(words[1]), int(words[2])), {state: int(ns) for state, ns in (word.split('=') for word in words[3:])})
            for words in lines if len(words) > 3}


def rows(r, pid='*'):
    return [(s.names, dict(s.labels), s.values['wall']) for p in profiles(r, kind='wall', pid=pid) for s in p.samples]


def by_state(loaded, thread=None):
    sums = collections.Counter()
    for _, labels, ns in loaded:
        if thread in (None, labels.get('thread')):
            sums[labels['state']] += ns
    return sums


def assert_life(life, ns):
    """The profile begins before the thread's function and ends after it; its creator sees the thread before and after that."""
    own_ns, most_ns = life
    assert own_ns * 0.995 <= ns <= most_ns * 1.005 + MS, (life, ns)


def assert_share(own_ns, seen, state, life_ns, bound):
    """The profile also has what the thread did before it began to count and after it ended to."""
    more_ns = max(0, sum(seen.values()) - life_ns)
    unless_busy(own_ns - bound * life_ns - 20 * MS <= seen[state] <= own_ns + bound * life_ns + 20 * MS + more_ns, own_ns, seen, state, life_ns, bound)


@three_tries
def that_the_states_of_each_thread_sum_to_its_life():
    r = run([victim('wall'), 'states', '3000'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), lives(r)
    assert {labels['state'] for _, labels, _ in loaded} <= STATES
    for thread, (life, states) in own.items():
        seen, life_ns = by_state(loaded, thread), life[0]
        print(thread, life, states, dict(seen))
        assert_life(life, sum(seen.values()))
        # The kernel tells both of the profiler and of the victim.
        assert_share(states['running'], seen, 'running', life_ns, 0.01)
        assert_share(states['runnable'], seen, 'runnable', life_ns, 0.02)
    # What the thread did but run: known exactly, but for time in queues.
    for thread, state in (('sleeper', 'sleep'), ('reader', 'io'), ('locker', 'lock')):
        (life_ns, _), states = own[thread]
        off_ns = life_ns - states['running'] - states['runnable']
        assert_share(off_ns, by_state(loaded, thread), state, life_ns, 0.1)
    # Looks sample what a thread of several states does: the bound is five times the deviation of the mean of 60 looks.
    (life_ns, _), states = own['mixed']
    seen = by_state(loaded, 'mixed')
    seen['off'] = seen.pop('io') + seen.pop('sleep')
    assert_share(life_ns - states['running'] - states['runnable'], seen, 'off', life_ns, 0.1)
    assert_share(states['sleep'], by_state(loaded, 'mixed'), 'sleep', life_ns, 0.35)
    places = {(names[:2], labels['state']) for names, labels, _ in loaded if len(names) > 2}
    for function, thread in (('naps', 'sleeper'), ('reads_line', 'reader'), ('waits_for_lock', 'locker'), ('burns', 'burner')):
        stacks = [names for names, labels, ns in loaded if labels.get('thread') == thread and function in names]
        assert stacks and all(thread in names and names[-1] in ('clone3', 'clone', '__clone') for names in stacks
                              if names[-1] != '[truncated]'), (thread, places)


@three_tries
def that_short_threads_are_whole():
    r = run([victim('wall'), 'brief', '200'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    life, states = lives(r)['brief']
    seen = by_state(rows(r), 'brief')
    print(life, states, dict(seen))
    assert_life(life, sum(seen.values()))
    assert states['running'] <= seen['running'], (states, seen)
    unless_busy(seen['running'] <= states['running'] + 200 * MS, states, seen)


@three_tries
def that_without_cpu_samples_running_is_known_too():
    r = run([victim('wall'), 'states', '1000'], 'wall_rate=20ms,cpu_rate=0,thread=on')
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    for thread, (life, states) in lives(r).items():
        seen = by_state(loaded, thread)
        assert_life(life, sum(seen.values()))
        assert states['running'] <= seen['running'], (thread, states, seen)
        unless_busy(seen['running'] <= states['running'] + 40 * MS, thread, states, seen)
    assert {names for names, labels, _ in loaded if labels['state'] == 'running'} == {('[not walked]',)}


@three_tries
def that_a_forked_child_has_a_life_of_its_own():
    r = run([victim('wall'), 'forked', '700'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    own = lives(r)
    names = {name for name in os.listdir(r.out) if '.wall.' in name}
    pids = {name.split('.')[1] for name in names}
    assert len(pids) == 2, names
    seen = {pid: {labels.get('thread') for _, labels, _ in rows(r, pid)} for pid in pids}
    of = {who: next(pid for pid, threads in seen.items() if who in threads) for who in ('parent', 'child')}
    assert of['parent'] != of['child'] and 'before' in seen[of['parent']] and 'before' not in seen[of['child']], seen
    for who in ('parent', 'child'):
        states = by_state(rows(r, of[who]), who)
        assert_life(own[who][0], sum(states.values()))
        assert states['sleep'] > 0, states


def that_a_host_that_drops_its_rights_goes_on():
    if os.geteuid():
        skip('needs root')
    r = run([victim('wall'), 'dropped', '500'], RATE)
    assert r.status == 0, r
    assert set(lives(r)) == {'before', 'dropped'}, r.stdout
    lines = [line for line in r.stderr.splitlines() if 'wall_rate' in line]
    assert len(lines) <= 1 and all('where threads wait cannot be read' in line for line in lines), r.stderr


def hide_processes():
    """For a child: its /proc shows a user's own processes only, and root has no capability that would show more."""
    libc = ctypes.CDLL(None)
    if (libc.unshare(CLONE_NEWNS) or libc.mount(b'none', b'/', None, MS_REC | MS_PRIVATE, None) or
            libc.mount(b'proc', b'/proc', b'proc', 0, b'hidepid=2')):
        os._exit(77)
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@three_tries
def that_a_hidden_proc_is_no_hindrance():
    if os.geteuid():
        skip('needs root')
    out = new_directory()
    done = subprocess.run([victim('wall'), 'states', '700'], env=environment(RATE, out), preexec_fn=hide_processes,
                          capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        skip('no such /proc can be mounted')
    assert done.returncode == 0 and done.stderr == '', done
    r = Run(done.stdout, done.stderr, 0, out)
    loaded = rows(r)
    for thread, (life, _) in lives(r).items():
        assert_life(life, sum(by_state(loaded, thread).values()))
    unless_busy(by_state(loaded, 'sleeper')['sleep'] > 0 and by_state(loaded, 'reader')['io'] > 0, by_state(loaded))


def that_a_host_that_is_not_dumpable_goes_on():
    r = run([victim('wall'), 'undumpable', '500'], RATE)
    own = lives(r)
    assert r.status == 0 and set(own) == {'before', 'undumpable'}, r
    for thread, (life, _) in own.items():
        assert_life(life, sum(by_state(rows(r), thread).values()))
    lines = [line for line in r.stderr.splitlines() if 'wall_rate' in line]
    assert len(lines) <= 1 and all('where threads wait cannot be read' in line for line in lines), r.stderr


def that_a_host_with_a_filter_goes_on():
    r = run([victim('wall'), 'filtered', '300'], RATE)
    assert r.status == 0, r
    own = lives(r)
    assert set(own) == {'before', 'filtered'}, own


def that_storms_end_as_without_the_profiler():
    for mode, *args in (('cancel',), ('fork',), ('dlopen', os.path.join(HOOKS, 'libplugin.so')), ('setid',)):
        r = run([victim('storm_cpu'), mode, '700', *args], 'wall_rate=1ms,cpu_rate=4ms', timeout=120)
        assert r.status == 0 and r.stderr == '', (mode, r.status, r.stderr)
        assert int(r.stdout.split()[-1]) > 0, mode


class Idle:
    """The victim with idle threads, and its endpoint."""

    def __init__(self, n, conf=''):
        self.port = free_port()
        env = environment(f'listen=127.0.0.1:{self.port},{conf}')
        self.process = subprocess.Popen([victim('wall'), 'idle', str(n)], env=env, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == 'ready\n'
        wait_for_server(self.port, self.process)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def get(self, page):
        return reader.load(urllib.request.urlopen(f'http://127.0.0.1:{self.port}/debug/pprof/{page}', timeout=120).read())


def functions_of(names):
    return {'idle_cond', 'idle_epoll', 'idle_poll', 'idle_read'} & set(names)


def functions(p):
    found = collections.Counter()
    for s in p.samples:
        for function in functions_of(s.names):
            found[function, dict(s.labels)['state']] += s.values['wall']
    return found


@three_tries
def that_the_endpoint_profiles_for_its_window():
    """Off before and after. Each of the idle threads stands where it is for the whole window."""
    with Idle(8) as victim_:
        p = victim_.get('wall?seconds=2')
        assert p.types == [('samples', 'count'), ('wall', 'nanoseconds')] and p.period == 100 * MS, (p.types, p.period)
        found = functions(p)
        print(dict(found))
        window_ns = p.duration_ns
        for key in (('idle_cond', 'lock'), ('idle_epoll', 'io'), ('idle_poll', 'sleep'), ('idle_read', 'io')):
            unless_busy(0.9 * 2 * 2000 * MS <= found[key] <= 2 * window_ns + 200 * MS, key, found, window_ns)
        before = victim_.get('wall').total('wall')
        assert victim_.get('wall').total('wall') == before  # nobody looks any more
        # From start: what windows had, once.
        assert abs(before - p.total('wall')) <= 0.1 * before, (before, p.total('wall'))


def that_threads_that_wait_for_work_have_their_names():
    with Idle(8, 'wall_rate=20ms,thread=on') as victim_:
        wanted = {('idle_cond', 'lock', 'yes'), ('idle_epoll', 'io', 'yes'), ('idle_poll', 'sleep', None), ('idle_read', 'io', None)}

        def found():
            of = [(s.names, dict(s.labels)) for s in victim_.get('wall').samples]
            return {(function, labels['state'], labels.get('idle')) for names, labels in of for function in functions_of(names)
                    if labels.get('thread') == 'victim_wall'}
        wait_until(lambda: wanted <= found())
        of = [s.names for s in victim_.get('wall').samples if functions_of(s.names)]
        assert all('[truncated]' not in names and len(names) > names.index((functions_of(names) & set(names)).pop()) + 1 for names in of), of


def that_deltas_sum_to_what_was_since_start():
    with Idle(8, 'wall_rate=20ms') as victim_:
        deltas = [victim_.get('delta_wall') for _ in range(3)]
        since = victim_.get('wall').total('wall')
        total = sum(p.total('wall') for p in deltas)
        assert 0 < total <= since, (total, since)
        last = victim_.get('delta_wall').total('wall')
        assert since <= total + last, (since, total, last)
        states = {('idle_cond', 'lock'), ('idle_epoll', 'io'), ('idle_poll', 'sleep'), ('idle_read', 'io')}
        wait_until(lambda: states <= set(functions(victim_.get('wall'))))


PYTHON = """import os, socket, sys, threading, time
near, far = socket.socketpair()
def naps():
    time.sleep(0.6)
def reads():
    far.recv(1)
def in_child():
    end = time.monotonic() + 60
    while len(os.listdir('/proc/self/task')) < 2 and time.monotonic() < end:
        bytearray(100000)  # a process with one thread gets the profiler's at an allocation
    naps()
if sys.argv[1] == 'threads':
    of = [threading.Thread(target=f) for f in (naps, reads)]
    for t in of: t.start()
    of[0].join()
    near.send(b'x')
    of[1].join()
else:
    time.sleep(0.2)
    child = os.fork()
    if not child:
        in_child()
        os._exit(0)
    os.waitpid(child, 0)
"""


@three_tries
def that_waits_of_python_have_its_lines():
    """The function and the line that wait, of a thread that runs nothing else."""
    for version, python in interpreters(('3.11', '3.12', '3.13', '3.14', '3.15', '3.13t')):
        for mode, functions in (('threads', {'naps': (4, 'sleep'), 'reads': (6, 'io')}), ('fork', {'naps': (4, 'sleep')})):
            r = run([python, '-c', PYTHON, mode], 'wall_rate=10ms,heap_rate=16k')
            assert r.status == 0, (version, r.stderr)
            seen = collections.Counter()
            for p in profiles(r, kind='wall'):
                for s in p.samples:
                    for frame in s.frames:
                        if frame.function in functions:
                            seen[frame.function, frame.line, dict(s.labels)['state']] += s.values['wall']
            print(version, mode, dict(seen))
            for function, (line, state) in functions.items():
                unless_busy(seen[function, line, state] >= 400 * MS, version, mode, function, seen)


def that_a_timeline_has_the_states():
    """Events have the time off the processor, of each thread and state as much as the rows but for waits for locks, which have
    events of their own; in a trace they do not overlap."""
    r = run([victim('wall'), 'states', '1000'], RATE + ',events=on')
    assert r.status == 0 and r.stderr == '', r.stderr
    off = ('runnable', 'io', 'sleep', 'fault', 'unknown')
    expected, events = collections.Counter(), collections.Counter()
    for kind, sums in (('wall', expected), ('events', events)):
        for p in profiles(r, kind=kind):
            for s in p.samples:
                labels = dict(s.labels)
                if labels.get('state') in off:
                    sums[labels.get('thread'), labels['state']] += s.values['wall']
    assert events == expected and events['sleeper', 'sleep'] > 0, (events, expected)
    out = os.path.join(r.out, 'trace.json')
    subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'timeline', r.out, '-o', out], check=True, capture_output=True)
    with open(out) as f:
        threads = [t for t in json.load(f)['threads'] if t['name'] == 'sleeper']
    markers = threads[0]['markers']
    slices = [(begin, end, threads[0]['stringArray'][name], data['time']) for begin, end, name, data in
              zip(markers['startTime'], markers['endTime'], markers['name'], markers['data']) if data['type'] == 'state']
    assert abs(sum(time for *_, state, time in slices if state == 'sleep') - events['sleeper', 'sleep'] / MS) < 0.01, slices
    slices.sort(key=lambda s: s[1] or s[0])
    assert all(a[1] is None or b[0] >= a[1] - 1e-3 for a, b in zip(slices, slices[1:])), slices
    trace = os.path.join(r.out, 'trace.pftrace')
    subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'timeline', r.out, '-o', trace], check=True, capture_output=True)
    with open(trace, 'rb') as f:
        assert b'off the processor' in f.read()


def that_nothing_is_written_while_it_is_off():
    r = run([victim('wall'), 'states', '200'], 'cpu_rate=10ms')
    assert r.status == 0 and r.stderr == '', r.stderr
    assert not [name for name in os.listdir(r.out) if '.wall.' in name]


main(globals())
