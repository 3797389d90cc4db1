# SPDX-License-Identifier: MIT
"""Temporary blocks, blocks that realloc moves, and containers that grow: `deltaprof churn`, of profiles with age=on."""
import json
import os
import subprocess

from harness import BUILD, main, profiles, run, three_tries, unless_busy, victim

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
NAMES = 'make_temporary', 'grow_buffer', 'grow_vector', 'make_kept'


def churn(*arguments):
    done = subprocess.run([DELTAPROF, 'churn', *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@three_tries
def that_what_a_change_could_save_is_counted_exactly():
    r = run([victim('churn')], 'heap_rate=1,age=on,interval=1h')
    profiles(r)  # valid
    truth = {name: int(number) for name, number in map(str.split, r.stdout.splitlines())}
    rows = {row['name']: row for row in json.loads(churn('--json', '-n', '0', r.out))['rows']}
    assert truth['moved'] > 100, truth
    assert (rows['grow_buffer']['moved'], rows['grow_buffer']['moved_bytes']) == (truth['moved'], truth['moved_bytes']), (rows, truth)
    assert rows['grow_buffer']['outgrown'] == 0
    assert (rows['grow_vector']['outgrown'], rows['grow_vector']['outgrown_bytes']) == (truth['outgrown'], truth['outgrown_bytes']), (rows, truth)
    assert rows['grow_vector']['moved'] == 0
    assert 'make_kept' not in rows
    temporary = rows['make_temporary']
    assert (temporary['freed'], temporary['moved'], temporary['outgrown']) == (truth['temporary'], 0, 0), temporary
    assert temporary['temporary_bytes'] == 100 * temporary['temporary'] <= 100 * truth['temporary']
    unless_busy(temporary['temporary'] >= 0.9 * truth['temporary'], temporary)  # a thread may be stopped between the two calls


@three_tries
def that_the_largest_saving_stands_first():
    r = run([victim('churn')], 'heap_rate=1,age=on,interval=1h')
    rows = json.loads(churn('--json', r.out))['rows']
    savings = [row['saves_ns'] for row in rows]
    assert savings == sorted(savings, reverse=True) and savings[-1] > 0, savings
    lines = churn('-n', '3', r.out).splitlines()
    assert sum(any(line.endswith(name) for name in NAMES) for line in lines) == 3, lines
    unless_busy({row['name'] for row in rows[:3]} == set(NAMES[:3]), rows)


def that_profiles_without_lifetimes_say_what_is_needed():
    r = run([victim('churn')], 'heap_rate=1,interval=1h')
    done = subprocess.run([DELTAPROF, 'churn', r.out], capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1) and 'age=on' in done.stderr, done


if __name__ == '__main__':
    main(globals())
