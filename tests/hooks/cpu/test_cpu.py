# SPDX-License-Identifier: MIT
"""cpu_rate: the rows of each thread sum to its CPU clock; functions have their shares of it; a program's waits, signals and
threads are as without the profiler."""
import collections
import concurrent.futures
import json
import math
import os
import platform
import subprocess
import sys
import urllib.request

import reader
from harness import (BUILD, HOOKS, Run, environment, free_port, main, new_directory, profiles, run, skip, three_tries,
                     unless_busy, victim, wait_for_server)

RATE = 'cpu_rate=10ms,thread=on,heap_rate=0,mutex_rate=0,block_rate=0'
FAST = 'cpu_rate=1ms,heap_rate=0,mutex_rate=0,block_rate=0'
MS = 1000000
SYNTHETIC = ('[between samples]', '[masked]', '[not walked]', '[deltaprof]')


def clocks(r):
    """What the victim says of itself: {name: ns}."""
    return {words[0]: int(words[-1]) for words in (line.split() for line in r.stdout.splitlines())}


def rows(r, pid='*'):
    return [(s.names, dict(s.labels), s.values['samples'], s.values['cpu'])
            for p in profiles(r, kind='cpu', pid=pid) for s in p.samples]


def by_thread(loaded):
    sums = collections.Counter()
    for _, labels, _, ns in loaded:
        sums[labels.get('thread', '')] += ns
    return sums


def by_leaf(loaded, thread=None):
    sums = collections.Counter()
    for names, labels, _, ns in loaded:
        if thread in (None, labels.get('thread')):
            sums[names[0]] += ns
    return sums


def of_functions(loaded):
    """{function: ns} with the time of all that it calls, for the functions of the victim."""
    sums = collections.Counter()
    for names, _, _, ns in loaded:
        for name in set(names) & {'burn', 'burn_one', 'burn_two', 'burn_three'}:
            sums[name] += ns
    return sums


def assert_process(r, loaded):
    """All rows together are the process's clock, from the start of the profile to its end."""
    own, total = clocks(r), sum(ns for _, _, _, ns in loaded)
    # Before: what the loader used. After: the end of main, and the profiler's first file of the end.
    assert own['process'] - own['begin'] <= total <= own['process'] + 150 * MS, (own, total)


def assert_thread(own_ns, ns):
    # Before it names itself a thread may be looked at under its maker's name; after its last look at its own clock it still ends.
    assert own_ns - MS <= ns <= own_ns + 5 * MS, (own_ns, ns)


def that_each_thread_has_its_cpu_clock():
    r = run([victim('cpu'), 'unequal', '64', '1'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), clocks(r)
    sums = by_thread(loaded)
    for i in range(64):
        assert_thread(own[f't{i}'], sums[f't{i}'])
    assert_process(r, loaded)
    assert sum(n for _, _, n, _ in loaded) > 50, 'samples'


def that_threads_shorter_than_a_period_are_whole():
    r = run([victim('cpu'), 'brief', '200', '5'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    own, ns = clocks(r)['brief'], by_thread(loaded)['brief']
    assert own <= ns <= own + 200 * MS, (own, ns)
    assert_process(r, loaded)


def that_a_thread_of_raw_clone_is_sampled():
    r = run([victim('cpu'), 'raw'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    ns = by_thread(loaded)['raw']
    assert 0 < ns <= clocks(r)['raw'], (ns, clocks(r))  # its last period is not seen: it goes to no thread
    assert by_leaf(loaded, 'raw')['burn'] > 0
    assert_process(r, loaded)


def that_no_thread_is_missed_where_all_are_created_before_the_first_runs():
    r = run([victim('cpu'), 'equal', '150', '8'], RATE, behind=behind('late_threads'), extra={'LATE_THREADS': '150'})
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), clocks(r)
    sums = by_thread(loaded)
    for i in range(150):
        assert_thread(own[f't{i}'], sums[f't{i}'])
    assert_process(r, loaded)


def that_a_thread_that_is_listed_after_its_end_is_counted_once():
    r = run([victim('cpu'), 'lingering'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    assert_thread(clocks(r)['lingers'], by_thread(loaded)['lingers'])
    assert_process(r, loaded)


def that_a_report_counts_no_thread_that_a_look_will_find():
    """A thread of raw clone, where profiles are more frequent than looks for threads."""
    r = run([victim('cpu'), 'raw', '1500'], RATE + ',interval=50ms')
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    ns, unnamed_ns, own = by_thread(loaded)['raw'], by_thread(loaded)[''], clocks(r)['raw']
    assert ns <= own <= ns + unnamed_ns <= own + 30 * MS, (ns, unnamed_ns, own)
    assert_process(r, loaded)


@three_tries
def that_a_thread_that_blocks_every_signal_has_its_time():
    r = run([victim('cpu'), 'masked'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), clocks(r)
    for thread in ('masked', 'filled'):
        assert_thread(own[thread], by_thread(loaded)[thread])
    # sigfillset does not block the signal; the system call does.
    assert by_leaf(loaded, 'filled')['burn_three'] > 0
    assert '[masked]' not in by_leaf(loaded, 'filled')
    leaves = by_leaf(loaded, 'masked')
    unless_busy(leaves['[masked]'] >= 550 * MS, leaves)  # a look of the profiler comes within 600 ms of CPU time
    assert leaves['burn_two'] > 0
    assert_process(r, loaded)


def that_a_forked_child_has_a_clock_of_its_own():
    r = run([victim('cpu'), 'forked'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    for line in r.stdout.splitlines():
        who, *rest = line.split()
        if who not in ('child', 'parent'):
            continue
        pid, own = rest[0], int(rest[1])
        loaded = rows(r, pid)
        functions = of_functions(loaded)
        assert (functions['burn_two'] > 0) == (who == 'child'), (who, functions)
        assert (functions['burn_one'] > 0) == (who == 'parent'), (who, functions)
        total = sum(ns for _, _, _, ns in loaded)
        assert own - 30 * MS <= total <= own + 150 * MS, (who, own, total)  # the parent's loader comes before


def that_shares_of_functions_are_within_the_binomial_bound():
    """One thread that never allocates. A sample lies in a function with the probability of its share."""
    r = run([victim('cpu'), 'shares', '4'], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), clocks(r)
    n, total = sum(n for _, _, n, _ in loaded), sum(ns for _, _, _, ns in loaded)
    assert n > 100, n
    truth = sum(own[f] for f in ('burn_one', 'burn_two', 'burn_three'))
    functions = of_functions(loaded)
    for f in ('burn_one', 'burn_two', 'burn_three'):
        p, seen = own[f] / truth, functions[f] / total
        bound = 5 * math.sqrt(p * (1 - p) / n) + 0.02  # 0.02: the rest of the last period, and the process's ends
        print(f, 'share', round(p, 4), 'seen', round(seen, 4), 'bound', round(bound, 4))
        assert abs(seen - p) <= bound, (f, p, seen, bound)
    assert_process(r, loaded)
    # A leaf is one row for each caller, and not one for each instruction.
    assert len({names for names, _, _, _ in loaded}) < 40
    # The last profile is written in the program's own thread; that time is not a function's.
    assert not any(name.startswith('dp_') for names, _, _, _ in loaded for name in names)


def that_samples_have_their_exact_addresses():
    """A leaf's address is where the thread was; all of a function's lie between its ends, and add up to its samples."""
    r = run([victim('cpu'), 'shares', '3'], 'cpu_rate=4ms,address=elf')
    assert r.status == 0 and r.stderr == '', r.stderr
    table = subprocess.run(['nm', '-S', victim('cpu')], capture_output=True, text=True, check=True).stdout
    ends = {words[3]: (int(words[0], 16), int(words[0], 16) + int(words[1], 16))
            for words in map(str.split, table.splitlines()) if len(words) == 4}
    seen = collections.defaultdict(collections.Counter)
    for p in profiles(r, kind='cpu'):
        for s in p.samples:
            if s.frames[0].function in ('burn_one', 'burn_two', 'burn_three'):
                seen[s.frames[0].function][s.frames[0].address] += s.values['samples']
    for function in ('burn_two', 'burn_three'):
        begin, end = ends[function]
        inside = {address: n for address, n in seen[function].items() if begin <= address < end}
        assert inside == dict(seen[function]) and sum(n for a, n in inside.items() if a != begin) > 20, (function, seen)


def that_ever_new_stacks_do_not_fill_the_table():
    """Of a small table: stacks lose their roots, and no sample its function."""
    r = run([victim('cpu'), 'churn', '6'], 'cpu_rate=4ms,memory=4M')
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, leaves = rows(r), collections.Counter()
    for names, _, n, ns in loaded:
        leaves[names[0]] += ns
    cut = sum(n for names, _, n, _ in loaded if names[-1] == '[truncated]')
    total = sum(n for _, _, n, _ in loaded)
    print(len(loaded), 'rows', total, 'samples', cut, 'cut')
    assert '[overflow]' not in leaves and total > 1000 and 0 < cut < total, (total, cut, leaves)
    assert leaves['burn_one'] > 0.9 * sum(leaves.values()), leaves
    assert any('stacks were cut short: much of the record table' in c for c in profiles(r, kind='cpu')[-1].comments)
    assert_process(r, loaded)


def that_no_blocking_call_ends_early():
    """18 functions that wait, under timers as frequent as the kernel has them. A timer of the wall clock shows that the victim
    notices what it looks for."""
    def counts(r):
        assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
        lines = [line.split() for line in r.stdout.splitlines()]
        return {words[0]: tuple(map(int, words[1:])) for words in lines}
    control = counts(run([victim('eintr'), '2', '3', 'control'], preload=False))
    assert sum(eintr for _, eintr, _ in control.values()) > 0, control
    r = run([victim('eintr'), '10', '3'], FAST)
    seen = counts(r)
    signals = sum(n for _, _, n, _ in rows(r))
    print(sum(calls for calls, _, _ in seen.values()), 'calls', signals, 'signals')
    assert {name: ends[1:] for name, ends in seen.items() if any(ends[1:])} == {}, seen
    assert signals > 50, signals
    assert all(calls for calls, _, _ in seen.values()), seen


def storm(mode, *args, **kwargs):
    r = run([victim('storm_cpu'), mode, '1500', *args], FAST, timeout=120, **kwargs)
    assert r.status == 0 and r.stderr == '', (mode, r.status, r.stderr)
    return r, int(r.stdout.split()[-1])


def that_storms_end_as_without_the_profiler():
    plugin = os.path.join(HOOKS, 'libplugin.so')
    for mode, *args in (('cancel',), ('fork',), ('exec',), ('system',), ('dlopen', plugin), ('setid',)):
        _, n = storm(mode, *args)
        print(mode, n)
        assert n > 0, mode


def that_signals_of_the_program_are_as_without_the_profiler():
    for mode in ('sigprof', 'sigwait'):
        _, n = storm(mode)
        assert n > 0, mode


def alone(argv):
    """In a user namespace, if there may be one: what other processes of this user queue is not counted there."""
    own = ['unshare', '--map-root-user']
    return own + argv if subprocess.run(own + ['true'], stderr=subprocess.DEVNULL).returncode == 0 else argv


def that_timers_leave_signals_to_queue():
    """With 60 signals for the user, 40 threads, and 8 signals that the program queues."""
    out = new_directory()
    done = subprocess.run(alone(['prlimit', '--sigpending=60', victim('storm_cpu'), 'sigqueue', '1000']),
                          env=environment(FAST, out), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == '', done
    loaded = profiles(Run(done.stdout, done.stderr, 0, out), kind='cpu')
    leaves = collections.Counter()
    for p in loaded:
        for s in p.samples:
            leaves[s.names[0]] += s.values['cpu']
    assert leaves['[not walked]'] > 0 and leaves['spin'] + leaves['burns'] > 0, leaves
    assert any('RLIMIT_SIGPENDING' in c for c in loaded[-1].comments), loaded[-1].comments


def that_a_limit_that_is_lowered_later_is_kept():
    r = run(alone([victim('storm_cpu'), 'lowered', '3500']), FAST, timeout=120)
    assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
    assert r.stdout == '30\n', r.stdout


def that_nothing_is_armed_while_it_is_off():
    for conf in ('', 'cpu_rate=0'):
        own = clocks(run([victim('cpu'), 'idle'], conf))
        assert own['timers'] <= 0 and own['caught'] == 0, own
    own = clocks(run([victim('cpu'), 'idle'], RATE))
    assert own['timers'] in (-1, 1) and own['caught'] == 1, own


def behind(name):
    return [os.path.join(HOOKS, f'libbehind_{name}.so')]


def that_a_kernel_whose_timers_end_waits_gets_none():
    r = run([victim('cpu'), 'unequal', '8', '10'], RATE, behind=behind('old_kernel'))
    assert r.status == 0 and 'without stacks' in r.stderr and r.stderr.count('\n') == 1, r.stderr
    loaded, own = rows(r), clocks(r)
    for i in range(8):
        assert_thread(own[f't{i}'], by_thread(loaded)[f't{i}'])
    assert set(by_leaf(loaded)) <= {'[not walked]', '[between samples]', '[deltaprof]'}, by_leaf(loaded)
    assert all(n == 0 for _, _, n, _ in loaded)
    assert_process(r, loaded)


def that_a_kernel_that_does_not_tell_is_tried():
    r = run([victim('cpu'), 'unequal', '8', '10'], RATE, behind=behind('unknown_kernel'))
    assert r.status == 0 and r.stderr == '', r.stderr
    assert of_functions(rows(r))['burn'] > 0


def that_sigprof_serves_where_the_other_signal_is_kept():
    if platform.machine() != 'x86_64':
        skip('on x86_64 only')
    r = run([victim('cpu'), 'unequal', '8', '10'], RATE, behind=behind('no_signal'))
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded, own = rows(r), clocks(r)
    assert of_functions(loaded)['burn'] > 0
    for i in range(8):
        assert_thread(own[f't{i}'], by_thread(loaded)[f't{i}'])


def timers(pid):
    with open(f'/proc/{pid}/timers') as f:
        return sum(line.startswith('ID:') for line in f)


def that_the_endpoint_profiles_for_its_window():
    """Off before and after; two windows at once have the same rows."""
    port = free_port()
    burner = subprocess.Popen([victim('cpu'), 'forever'], env=environment(f'listen=127.0.0.1:{port}'), stdout=subprocess.DEVNULL)
    try:
        wait_for_server(port, burner)
        url = f'http://127.0.0.1:{port}/debug/pprof/'
        if os.path.exists(f'/proc/{burner.pid}/timers'):
            assert timers(burner.pid) == 0
        with concurrent.futures.ThreadPoolExecutor() as pool:
            bodies = list(pool.map(lambda page: urllib.request.urlopen(url + page, timeout=120).read(),
                                   ['profile?seconds=2', 'cpu?seconds=2']))
        for body in bodies:
            p = reader.load(body)
            assert p.types == [('samples', 'count'), ('cpu', 'nanoseconds')] and p.period == 10 * MS, p.types
            leaves = collections.Counter()
            for s in p.samples:
                leaves['burn' if 'burn' in s.names else s.names[0]] += s.values['cpu']
            between = leaves['[between samples]']  # on a busy machine a thread runs for less than a sample at a time
            assert leaves['burn'] > 0 and leaves['burn'] + between > 0.9 * p.total('cpu') > 0, leaves
        if os.path.exists(f'/proc/{burner.pid}/timers'):
            assert timers(burner.pid) == 0
        total = reader.load(urllib.request.urlopen(url + 'delta_cpu', timeout=120).read()).total('cpu')
        assert total >= reader.load(bodies[0]).total('cpu'), total
    finally:
        burner.kill()
        burner.wait()


def that_python_s_functions_have_their_time():
    program = ('def one(n):\n    x = 0\n    for i in range(n): x += i * i\n    return x\n'
               'def two(n): return sum(one(1000) for _ in range(n))\nfor _ in range(400): two(20)\n')
    r = run([sys.executable, '-c', program], RATE)
    assert r.status == 0 and r.stderr == '', r.stderr
    loaded = rows(r)
    named, total = collections.Counter(), sum(ns for _, _, _, ns in loaded)
    for names, _, _, ns in loaded:
        for name in {'one', 'two'} & set(names):
            named[name] += ns
    print(dict(named), total)
    assert total > 0 and named['two'] >= named['one'] > total / 4, (named, total)


def that_the_commands_show_cpu_time():
    r = run([victim('cpu'), 'unequal', '4', '50'], RATE)
    deltaprof = os.path.join(BUILD, 'src/tool/cli/deltaprof')
    def answer(*words):
        return subprocess.run([deltaprof, *words], capture_output=True, text=True, check=True).stdout
    top = json.loads(answer('top', '--kind', 'cpu', '--json', r.out))
    assert top['type'] == 'cpu' and top['unit'] == 'nanoseconds', top
    assert top['total'] == sum(ns for _, _, _, ns in rows(r)), top['total']
    assert any(row['name'] == 'burn' and row['cum'] > top['total'] / 2 for row in top['rows']), top['rows']
    assert 'burn' in answer('tree', '--kind', 'cpu', r.out)
    sentence = json.loads(answer('summary', '--json', r.out))['sentences'][0]
    assert sentence['kind'] == 'cpu' and sentence['ns'] == top['total'] and ' cores on average in ' in sentence['text'], sentence
    assert sentence['more'].startswith('deltaprof top --kind cpu '), sentence
    def check(*words):
        return subprocess.run([deltaprof, 'check', *words, r.out], capture_output=True, text=True)
    assert check('--max', 'cpu=1h').returncode == 0 and check('--max', 'cpu=1ms').returncode == 1
    assert check('--max', 'cores=1000').returncode == 0 and check('--max', 'cores=0.0001').returncode == 1


def that_a_timeline_has_each_sample_on_its_thread():
    r = run([victim('cpu'), 'unequal', '4', '50'], RATE + ',events=on')
    out = os.path.join(r.out, 'trace.json')
    deltaprof = os.path.join(BUILD, 'src/tool/cli/deltaprof')
    subprocess.run([deltaprof, 'timeline', r.out, '-o', out], check=True, capture_output=True)
    with open(out) as f:
        threads = {t['name']: t for t in json.load(f)['threads']}
    expected = collections.Counter()
    for _, labels, n, ns in rows(r):
        expected[labels.get('thread')] += ns if n else 0
    for i in range(4):
        weights = threads[f't{i}']['samples']['weight']
        assert weights and abs(sum(weights) - expected[f't{i}'] / MS) < 1e-3, (i, sum(weights), expected)


def that_a_handler_on_a_small_signal_stack_is_not_interrupted():
    for _ in range(3):
        r = run([victim('small_stack')], 'cpu_rate=4ms,interval=0')
        assert (r.status, r.stdout, r.stderr) == (0, 'same mask\n', ''), (r.status, r.stdout, r.stderr)


main(globals())
