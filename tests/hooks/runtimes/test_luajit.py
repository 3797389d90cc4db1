# SPDX-License-Identifier: MIT
"""Stacks go through code that LuaJIT compiled, up to main, and have the frames of the calls that there were."""
import collections
import os

from harness import main, profiles, run, skip, victim

if not os.path.exists(victim('luajit')):
    skip('no libluajit-5.1-dev')

LEAVES = ('make_in_step', 'make_in_lua', 'make_in_handler')


def expected(text):
    result = {}
    for line in text.splitlines():
        leaf, path, n = line.split()
        result[leaf, path] = int(n)
    return result


def measured(loaded):
    """{(leaf, path of dives): allocations}, and how many of them were made below compiled code."""
    result, compiled = collections.Counter(), 0  # compiled code lies in no file
    for p in loaded:
        assert not any('cut short' in c for c in p.comments), p.comments
        for s in p.samples:
            names = [f.function or '' for f in s.frames]
            n = s.values['alloc_objects']
            leaf = next((x for x in names if x in LEAVES), None)
            if not leaf or not n:
                continue
            assert 'main' in names and '[truncated]' not in names, names
            dives = [x[5:] for x in names if x.startswith('dive_')]
            result[leaf, '/' + ''.join(f'{x}/' for x in reversed(dives))] += n
            compiled += n if any(f.mapping == '[anon]' for f in s.frames) else 0
    return result, compiled


def that_stacks_through_compiled_code_are_those_of_the_calls():
    for seed in '1', '2':
        r = run([victim('luajit'), seed, '8000'], 'heap_rate=1,interval=0,memory=256M')
        if r.status == 77:
            skip('this LuaJIT takes its own allocator only')
        assert r.status == 0 and r.stderr == '', (r.status, r.stderr)
        want, (got, compiled) = expected(r.stdout), measured(profiles(r))
        assert got == want, [(k, want.get(k), got.get(k)) for k in {*want, *got} if want.get(k) != got.get(k)][:20]
        assert compiled > sum(want.values()) / 2 and sum(n for (leaf, _), n in want.items() if leaf == 'make_in_handler') > 10, compiled


main(globals())
