# SPDX-License-Identifier: MIT
"""The lock profiles say which lock it was: its variable, the block or the stack that it is in; without symbols, its place in the file."""
import collections
import json
import os
import shutil
import subprocess
import tempfile

import reader
from harness import BUILD, Run, environment, main, new_directory, profiles, run, victim

CONF = 'interval=1h,block_rate=1ns,heap_rate=1,symbolize=lines'
COMMAND = os.path.join(BUILD, 'src/tool/cli/deltaprof')
SEVERAL = 'several locks, the longest wait for '
HELD = {'variable': 'cache_lock', 'second': 'parts+0x50', 'member': 'Cache::instance+0x28', 'table': '(anonymous namespace)::table_lock',
        'stack': 'on the stack of the main thread'}


def places(r, kind):
    """{function: where its locks are}; of a chain, {(waiter, holder): where}."""
    found = collections.defaultdict(set)
    for p in profiles(r, kind=kind):
        for s in p.samples:
            names = [n for n in s.names if n.startswith(('waits_', 'holds_'))]
            if names:
                found[tuple(names) if kind == 'chain' else names[0]].add(dict(s.labels).get('lock_at'))
    return found


def that_each_lock_is_named_where_it_was_held_and_where_it_was_waited_for():
    for name in 'lock_places', 'lock_places_fixed':
        r = run([victim(name)], CONF)
        assert r.status == 0 and r.stderr == '', r.stderr
        held, waited, chained = (places(r, kind) for kind in ('mutex', 'block', 'chain'))
        for case, at in HELD.items():
            assert held[f'holds_{case}'] == waited[f'waits_{case}'] == {at}, (case, held[f'holds_{case}'], waited[f'waits_{case}'])
            assert chained[f'waits_{case}', f'holds_{case}'] | chained[f'holds_{case}', f'waits_{case}'] == {at}, (case, chained)
        assert waited['waits_cond'] == {'work_ready'}, waited['waits_cond']


def that_the_block_of_a_lock_is_told_with_the_line_that_allocated_it():
    r = run([victim('lock_places')], CONF)
    for found in places(r, 'mutex')['holds_block'], places(r, 'block')['waits_block']:
        (at,) = found
        assert at.startswith('in a block of 80 bytes allocated by makes_a_connection (victim_lock_places.cpp:'), at


def that_a_block_that_was_not_sampled_is_only_known_to_be_one():
    r = run([victim('lock_places')], CONF.replace('heap_rate=1,', 'heap_rate=1G,'))
    assert places(r, 'mutex')['holds_block'] == {'in the heap'}, places(r, 'mutex')['holds_block']


def that_the_stack_of_a_thread_is_named_by_the_thread():
    r = run([victim('lock_places')], CONF)
    (at,) = places(r, 'mutex')['holds_other_stack']
    assert at == 'on the stack of thread victim_lock_pla', at


def that_memory_whose_owner_is_not_known_is_not_called_the_heap():
    r = run([victim('lock_places')], CONF)
    assert places(r, 'mutex')['holds_tls'] == {'in anonymous memory'}, places(r, 'mutex')['holds_tls']


def that_thousands_of_locks_in_one_place_are_one_row():
    n = 3000
    r = run([victim('lock_places'), str(n)], CONF)
    assert r.status == 0 and r.stderr == '', r.stderr
    for kind, function in ('mutex', 'holds_many'), ('block', 'waits_many'):
        rows = [s for p in profiles(r, kind=kind) for s in p.samples if function in s.names]
        assert len(rows) == 1 and rows[0].values['contentions'] == n, (kind, [(s.names, s.labels, s.values) for s in rows])
        assert dict(rows[0].labels)['lock_at'].startswith(SEVERAL + 'one in a block of 40 bytes allocated by main (victim_lock_places.cpp:'), rows[0].labels


def that_a_stripped_program_has_the_address_in_its_file():
    symbols = subprocess.run(['nm', victim('lock_places')], stdout=subprocess.PIPE, text=True, check=True).stdout
    address = {name: int(value, 16) for value, _, name in (line.split() for line in symbols.splitlines() if len(line.split()) == 3)}
    want = {f'victim_lock_places_stripped+0x{at:x}' for at in (address['cache_lock'], address['_ZL5parts'] + 0x50, address['_ZN5Cache8instanceE'] + 0x28,
                                                                address['_ZN12_GLOBAL__N_110table_lockE'])}
    r = run([victim('lock_places_stripped')], CONF)
    assert r.status == 0 and r.stderr == '', r.stderr
    seen = {dict(s.labels).get('lock_at') for p in profiles(r, kind='mutex') for s in p.samples}
    assert want <= seen, (want - seen, seen)


def that_the_commands_tell_it():
    r = run([victim('lock_places')], CONF)
    ask = lambda *words: subprocess.run([COMMAND, *words, r.out], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    pairs = json.loads(ask('waits', '--json'))['pairs']
    assert {p['lock_at'] for p in pairs if 'holds_member' in p['holder']} == {'Cache::instance+0x28'}, pairs
    assert '\n' + ' ' * 29 + 'lock: cache_lock\n' in ask('waits'), ask('waits')
    rows = json.loads(ask('top', '--json', '--kind', 'mutex', '--type', 'contentions', '--by', 'label:lock_at'))['rows']
    assert {'cache_lock', 'parts+0x50'} <= {row['name'] for row in rows}, rows


def that_a_killed_process_has_left_it_in_its_tables():
    out, tables = new_directory(), tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    try:
        with subprocess.Popen([victim('lock_places'), '1', 'stays'], env=environment(f'{CONF},tables={tables}', out), stdout=subprocess.PIPE) as p:
            p.stdout.readline()
            p.kill()
        subprocess.run([COMMAND, 'recover', tables], check=True, timeout=60)
    finally:
        shutil.rmtree(tables)
    held = places(Run('', '', 0, out), 'mutex')
    assert held['holds_variable'] == {'cache_lock'} and held['holds_second'] == {'parts+0x50'}, held
    assert held['holds_block'] == {None}, held  # another process reads no memory


main(globals())
