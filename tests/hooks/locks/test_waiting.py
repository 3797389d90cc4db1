# SPDX-License-Identifier: MIT
"""Waits under way are in the endpoint's `waits` and in block profiles, and each is counted once in the end."""
import http.client
import json
import os
import subprocess

from harness import BUILD, Run, environment, free_port, main, new_directory, profiles, reader, run, three_tries, unless_busy, victim, wait_until

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')


def waits(port):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    c.request('GET', '/debug/pprof/waits')
    return c.getresponse().read().decode()


def waiting(how, true, conf):
    """Runs the victim until true(port, directory) is true; returns its result, and the run."""
    out, port = new_directory(), free_port()
    with subprocess.Popen([victim('waiting'), *([how] if isinstance(how, str) else how)], env=environment(f'{conf},listen=127.0.0.1:{port}', out),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        try:
            answer = wait_until(lambda: true(port, out))
            stdout, _ = p.communicate(timeout=60)
        finally:
            p.kill()
    assert p.returncode == 0, p.returncode
    return answer, Run(stdout, '', p.returncode, out)


def that_a_deadlock_is_named():
    def told(port, out):
        text = waits(port)
        return text if text.count('a deadlock') == 2 and 'is_idle' in text else None
    text, _ = waiting('deadlock', told, 'interval=1h')
    paragraphs = {p.split('\n    ')[1]: p for p in text.split('\n\n')[1:]}
    a, b = paragraphs['first_then_second'], paragraphs['second_then_first']
    for one, other in ((a, b), (b, a)):
        assert ' s for mutex 0x' in one and f"held by {' '.join(other.split()[:2])}: a deadlock" in one, text
    assert ' s for cond 0x' in paragraphs['is_idle'] and 'held' not in paragraphs['is_idle'], text


def that_a_wait_that_just_ended_is_no_deadlock():
    """A thread has got its lock a moment before its wait is over: the lock's owner is then the thread that waits."""
    texts = []

    def told(port, out):
        texts.extend(waits(port) for _ in range(50))
        return sum(text.count(' s for mutex 0x') for text in texts) > 1000
    waiting('busy', told, 'interval=1h,block_rate=1ns')
    text = '\n'.join(texts)
    assert 'holds_for_a_moment' in text and ', held by thread ' in text, text[:1000]
    assert 'itself' not in text and 'deadlock' not in text, [line for line in text.splitlines() if 'itself' in line]


def that_a_function_that_jumped_to_the_lock_is_in_the_stack():
    def told(port, out):
        text = waits(port)
        return text if 'waits_below_a_jump' in text else None
    text, _ = waiting('jump', told, 'interval=1h')
    assert '\n    asks_by_a_jump\n    waits_below_a_jump\n' in text, text


def that_more_than_a_thousand_waiting_threads_are_all_shown():
    def told(port, out):
        text = waits(port)
        return text if text.startswith('1500 threads wait\n') else None
    text, r = waiting(('many', '1500'), told, 'interval=1h,block_rate=1ns')
    assert text.count('\n    waits_with_many\n') == 1500, text[:1000]
    rows = reader.sum_profiles(profiles(r, kind='block'))
    assert sum(row['contentions'] for (names, _), row in rows.items() if names[0] == 'waits_with_many') == 1500, rows


@three_tries
def that_stacks_are_whole_although_there_are_few_buffers_for_them():
    """With memory=4M there are about ten. Stacks of threads for which there is none in time are counted as that."""
    _, r = waiting(('many', '1500'), lambda port, out: waits(port).startswith('1500 threads wait'), 'interval=1h,block_rate=1ns,memory=4M')
    profile, = profiles(r, kind='block')
    found = [s for s in profile.samples if s.names[0] == 'waits_with_many']
    leaf_only = sum(s.values['contentions'] for s in found if len(s.names) == 1)
    assert sum(s.values['contentions'] for s in found) == 1500, found
    lost = [c for c in profile.comments if 'stacks' in c]
    assert lost == ([f'{leaf_only} stacks cut to the leaf frame: all buffers for stacks were in use (raise memory=)'] if leaf_only else []), lost
    unless_busy(leaf_only < 50, leaf_only)  # threads that are stopped keep their buffers


def that_a_wait_that_goes_on_is_counted_once():
    def seen(port, out):
        return sum(row['delay'] > 0 for path in reader.files(out, 'block')
                   for (names, _), row in reader.sum_profiles([reader.load(path)]).items() if 'waits_once' in names) >= 3
    _, r = waiting('once', seen, 'interval=50ms')
    rows = {kind: reader.sum_profiles(profiles(r, kind=kind)) for kind in ('block', 'mutex')}
    once = [row for (names, _), row in rows['block'].items() if 'waits_once' in names]
    assert sum(row['contentions'] for row in once) == 1, once
    delay = sum(row['delay'] for row in once)
    assert delay <= int(r.stdout), (delay, r.stdout)
    paid = sum(row['delay'] for (_, labels), row in rows['mutex'].items() if dict(labels)['lock'] == 'mutex')
    assert paid == delay, (paid, delay)


def pairs(r):
    """{(the waiter's function, the holder's): [n, ns]} over the chains of a run."""
    sums = {}
    for profile in profiles(r, kind='chain'):
        for pair in profile.pairs:
            was = sums.get((pair.waiter[0], pair.holder[0]), (0, 0))
            sums[pair.waiter[0], pair.holder[0]] = was[0] + pair.n, was[1] + pair.ns
    return sums


def that_a_chain_names_the_waiter_and_its_holder():
    """In the files of one interval only, and with all of the holder's time."""
    def seen(port, out):
        return sum(len(reader.load(path).samples) for path in reader.files(out, 'block')) >= 3
    _, r = waiting('once', seen, 'interval=50ms')
    held = {names[0]: row for (names, _), row in reader.sum_profiles(profiles(r, kind='mutex')).items()}
    wanted = {('waits_once', holder): (held[holder]['contentions'], held[holder]['delay']) for holder in ('holds', '[hand-over]') if holder in held}
    assert wanted['waits_once', 'holds'][0] == 1, wanted
    assert pairs(r) == wanted, (pairs(r), wanted)
    pair, = [pair for profile in profiles(r, kind='chain') for pair in profile.pairs if pair.holder[0] == 'holds']
    assert 'main' in pair.holder and 'main' not in pair.waiter, pair


def that_the_time_of_a_holder_is_divided_among_its_waiters():
    """Two threads wait for the same two locks of main, from two functions, one of them for longer."""
    r = run([victim('waiting'), 'two'], 'block_rate=1ns,interval=1h')
    held = {names[0]: row['delay'] for (names, _), row in reader.sum_profiles(profiles(r, kind='mutex')).items()}
    found = pairs(r)
    for holder in ('holds_first', 'holds_second'):
        ns = {waiter: found[waiter, holder][1] for waiter in ('waits_long', 'waits_short')}
        assert sum(ns.values()) == held[holder], (ns, held)
        assert ns['waits_long'] > ns['waits_short'] > 0, ns
    assert sum(ns for (_, holder), (_, ns) in found.items() if holder == '[hand-over]') == held.get('[hand-over]', 0), (found, held)


def told(r, *arguments):
    return subprocess.run([DELTAPROF, *arguments, *reader.files(r.out, 'chain')], check=True, capture_output=True, text=True, timeout=60).stdout


def order(text):
    """The functions of the holder in a text, in its order."""
    at = {name: text.index(name) for name in ('takes_its_turn', 'ends_its_turn', 'lets_go') if name in text}
    return sorted(at, key=at.get)


def that_inlined_functions_of_a_holder_have_one_order():
    """Whether the host named them or the tool does: that of calls, from the root of the holder."""
    inward = ['takes_its_turn', 'ends_its_turn', 'lets_go']
    for conf in 'symbolize=lines', 'symbolize=none':
        r = run([victim('waiting'), 'inlined'], f'block_rate=1ns,interval=1h,{conf}')
        chain, = profiles(r, kind='chain')
        pairs = json.loads(told(r, 'waits', '--json'))['pairs']
        holder, = [pair['holder'] for pair in pairs if 'takes_its_turn' in pair['holder']]
        assert order(' '.join(holder)) == inward[::-1], (conf, holder)
        tree = told(r, 'tree')
        assert order(tree[tree.index('[held by]'):]) == inward[::-1], (conf, tree)
        if conf == 'symbolize=lines':
            pair, = [pair for pair in chain.pairs if 'takes_its_turn' in pair.holder]
            assert list(pair.holder) == holder, (pair.holder, holder)
            folded = next(line for line in told(r, 'convert', '-o', '-', '--to', 'folded').splitlines() if 'takes_its_turn' in line)
            assert order(folded) == inward[::-1], folded
            shown = json.loads(told(r, 'convert', '-o', '-', '--to', 'speedscope'))
            stacks = [' '.join(shown['shared']['frames'][i]['name'] for i in stack) for stack in shown['profiles'][0]['samples']]
            assert [order(stack) for stack in stacks if 'takes_its_turn' in stack] == [inward[::-1]], stacks


main(globals())
