# SPDX-License-Identifier: MIT
"""
Waits for futexes. The lock profiles agree about locks, other waits are only in the block profile, and the
program behaves as without the profiler.
"""
import json
import os
import shutil
import subprocess

import reader
from harness import BUILD, both, main, new_directory, profiles, same, skip, three_tries, unless_busy, victim
from lock_totals import ALL, delay, totals


def balance(r, lock='futex', pid='*'):
    t = totals(r, pid)
    sums = {kind: delay(t[kind], lock) for kind in t}
    assert sums['mutex'] == sums['block'] == sums['chain'] > 0, sums
    return t


@three_tries
def that_a_lock_of_an_unknown_library_has_its_holders():
    t = balance(same([victim('futexes'), 'lock'], ALL))
    blame = reader.by_function(t['mutex'], 'delay', {'holds_long', 'holds_short'})
    unless_busy(blame['holds_long'] > 10 * blame.get('holds_short', 0), blame)
    waits = reader.by_function(t['block'], 'delay', {'holds_long', 'holds_short'})
    assert waits['holds_short'] > 0, waits


OWN_LOCKS = '''# victim_futexes.c
take|give \tmutex

wait_on|wake    pass
works  park
'''


def names_of_locks(text):
    path = os.path.join(new_directory(), 'locks, own')
    with open(path, 'w') as f:
        f.write(text)
    return 'lock_names=' + path.replace(',', '\\,')


def that_the_users_table_names_a_lock_of_the_program():
    t = balance(same([victim('futexes'), 'lock'], f'{ALL},{names_of_locks(OWN_LOCKS)}'), 'mutex')
    assert delay(t['block'], 'futex') == delay(t['mutex'], 'futex') == 0, t
    assert most(t, 'mutex') == 'holds_long', t  # stacks begin at the function that requested the lock
    assert seen(t, 'block', 'mutex').keys() <= {'holds_long', 'holds_short'}, t


def that_the_users_table_names_parking():
    t = totals(same([victim('futexes'), 'events'], f'{ALL},{names_of_locks(OWN_LOCKS)}'))
    assert delay(t['block'], 'park') >= 400e6 and delay(t['block'], 'futex') == 0 and not t['mutex'], t


def that_bad_lines_of_the_users_table_are_named_at_once():
    conf = names_of_locks('take mutex\nwait_on\ngive mutx\n')
    without, r = both([victim('futexes'), 'events'], f'{ALL},{conf}')
    assert (r.status, r.stdout) == (without.status, without.stdout), r
    assert r.stderr.count('\n') == 1 and 'lock_names: bad lines (2 3)' in r.stderr and 'locks, own' in r.stderr, r.stderr
    assert not os.listdir(r.out), os.listdir(r.out)


def that_timeouts_and_signals_lose_nothing():
    for how in 'timeouts', 'signals':
        balance(same([victim('futexes'), how], ALL))


def that_idle_workers_wait_for_no_lock():
    r = same([victim('futexes'), 'events'], ALL)
    t = totals(r)
    assert delay(t['block'], 'futex') >= 400e6 and not t['mutex'], t


def that_results_are_the_same():
    for conf in ALL, 'block_rate=0,mutex_rate=0':
        r = same([victim('futexes'), 'results'], conf)
        assert r.status == 0, r
    assert 'six arguments: 0' in r.stdout, r.stdout


def that_abandoned_waits_count_for_no_thread():
    """Or, if a tick came before their end, up to that tick."""
    for conf in ALL, ALL + ',interval=0', ALL + ',interval=10ms':
        balance(same([victim('futexes'), 'abandon'], conf))


def that_a_forked_child_counts_only_its_own_waits():
    r = same([victim('futexes'), 'forks'], ALL)
    parent = min(p.pid for p in profiles(r, kind='block'))
    balance(r, pid=parent)


def seen(t, kind, lock):
    """{function: ns} of the rows of a lock, by leaf. No row has the functions of the lock's library."""
    rows = {key: row for key, row in t[kind].items() if dict(key[1])['lock'] == lock}
    found = {}
    for name, ns in reader.by_function(rows, 'delay').items():
        name = name.split(' [clone')[0]  # a compiler may put a part of a function elsewhere
        found[name] = found.get(name, 0) + ns
    return found


def most(t, lock):
    """The function that made others wait most. How long a free lock stays [hand-over] depends on the scheduler."""
    blame = {name: ns for name, ns in seen(t, 'mutex', lock).items() if name != '[hand-over]'}
    return max(blame, key=blame.get)


def agree(t, *locks):
    for lock in locks:
        assert delay(t['mutex'], lock) == delay(t['block'], lock) > 0, (lock, t)
    for lock in 'cond', 'sem', 'park', 'barrier':
        assert delay(t['mutex'], lock) == 0, (lock, t)


def rust_program(*options):
    """Compiles the victim in Rust. Skips if there is no rustc in whose programs each parked thread waits on its own word."""
    version = subprocess.run(['rustc', '--version'], capture_output=True, text=True).stdout if shutil.which('rustc') else ''
    if not version or int(version.split('.')[1]) < 70:
        skip('no rustc from 1.70 on')
    program = os.path.join(new_directory(), 'rust_locks')
    source = os.path.join(os.path.dirname(__file__), 'victim_rust_locks.rs')
    subprocess.run(['rustc', '-O', *options, '-o', program, source], check=True)
    return program


def that_rust_names_its_locks_and_their_holders():
    program = rust_program('--crate-name', 'victim')
    t = totals(same([program], ALL))
    agree(t, 'mutex', 'rwlock', 'once')
    assert most(t, 'mutex') == 'victim::holds_long', t  # a function that ends with a tail call
    assert most(t, 'rwlock') == 'victim::writes', t
    assert 'victim::wants_it_made' in seen(t, 'mutex', 'once'), t
    for lock, function in (('mutex', 'holds_short'), ('rwlock', 'reads'), ('once', 'wants_it_made'), ('cond', 'waits_for'),
                           ('cond', 'gives_up'), ('park', 'is_parked')):
        assert seen(t, 'block', lock).get('victim::' + function, 0) > 1e6, (lock, function, t)
    assert not seen(t, 'block', 'futex'), t


def parking_lot_program():
    """Builds the victim with parking_lot. Skips if there is no cargo of today, or it cannot reach its registry."""
    version = subprocess.run(['cargo', '--version'], capture_output=True, text=True).stdout if shutil.which('cargo') else ''
    if not version or int(version.split('.')[1]) < 70:
        skip('no cargo from 1.70 on')
    crate = new_directory()
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(crate, 'target'), CARGO_NET_RETRY='0', CARGO_HTTP_TIMEOUT='20')
    os.mkdir(os.path.join(crate, 'src'))
    for source, name in (('victim_parking_lot.rs', 'main.rs'), ('rust_turns.rs', 'rust_turns.rs')):
        shutil.copy(os.path.join(os.path.dirname(__file__), source), os.path.join(crate, 'src', name))
    with open(os.path.join(crate, 'Cargo.toml'), 'w') as f:
        f.write('[package]\nname = "victim"\nversion = "0.0.0"\nedition = "2018"\n[dependencies]\nparking_lot = "=0.12.3"\n')
    fetched = subprocess.run(['cargo', 'fetch'], cwd=crate, env=env, capture_output=True, text=True)
    if fetched.returncode:
        skip('no registry of crates:', fetched.stderr.splitlines()[0])
    subprocess.run(['cargo', 'build', '--release', '--offline', '-q'], cwd=crate, env=env, check=True)
    return os.path.join(crate, 'target/release/victim')


def that_parking_lot_names_its_locks_and_their_holders():
    program = parking_lot_program()
    t = totals(same([program], ALL))
    agree(t, 'rwlock', 'once')
    waits, blame = seen(t, 'block', 'mutex'), seen(t, 'mutex', 'mutex')
    gave_up = waits['victim::tries_for_a_while']  # no holder ever wakes this thread again
    assert gave_up > 19e6 and delay(t['mutex'], 'mutex') == delay(t['block'], 'mutex') - gave_up > 0, t
    assert delay(t['mutex'], 'cond') == 0 and blame['victim::holds_long'] > 0, t
    assert most(t, 'rwlock') == 'victim::writes', t
    for lock, function in (('mutex', 'holds_short'), ('rwlock', 'reads'), ('once', 'wants_it_made'), ('cond', 'is_idle'), ('cond', 'gives_up')):
        assert seen(t, 'block', lock).get('victim::' + function, 0) > 1e6, (lock, function, t)
    assert not seen(t, 'block', 'futex') and not seen(t, 'block', 'park'), t


def that_abseil_names_its_locks_and_their_holders():
    if not os.path.exists(victim('abseil')):
        skip('no abseil')
    r = same([victim('abseil')], ALL)
    t = totals(r)
    agree(t, 'mutex', 'rwlock', 'once')
    for lock, holder in ('mutex', 'holds_long()'), ('mutex', 'spins_long()'), ('rwlock', 'writes()'), ('once', 'wants_it_made(int)'):
        assert seen(t, 'mutex', lock).get(holder, 0) > 1e6, (lock, holder, t)
    for lock, function in (('mutex', 'holds_short(int)'), ('mutex', 'spins_short(int)'), ('rwlock', 'reads(int)'), ('once', 'wants_it_made(int)'),
                           ('cond', 'is_idle()'), ('cond', 'gives_up()'), ('cond', 'waits_for()'), ('cond', 'waits_for_the_end()')):
        assert seen(t, 'block', lock).get(function, 0) > 1e6, (lock, function, t)
    # Abseil counts the processors once. A thread that waits for that is in a function without a name, so rarely a futex is left.
    unnamed = [stack for stack, labels in t['block'] if dict(labels)['lock'] in ('futex', 'park')]
    assert all(any('base_internal::NumCPUs' in function for function in stack) for stack in unnamed), unnamed


def that_top_leaves_out_what_only_locks_for_its_caller():
    if not os.path.exists(victim('abseil')):
        skip('no abseil')
    r = same([victim('abseil')], ALL)
    for kind, functions in ('block', {'spins_short', 'wants_it_made', 'reads'}), ('mutex', {'spins_long', 'wants_it_made', 'writes'}):
        said = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'top', '--json', '-n', '0', '--kind', kind, '--type', 'delay', r.out],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        flat = {row['name'] for row in json.loads(said)['rows'] if row['flat']}
        assert functions <= flat and not [name for name in flat if 'absl::' in name], flat


def that_parking_is_no_lock_in_a_stripped_program():
    """Without symbol names, wakes tell what is a lock: an idle thread never wakes another one where it waited itself."""
    program = rust_program('-C', 'strip=symbols')
    t = totals(same([program], ALL))
    assert delay(t['block'], 'futex') >= delay(t['mutex'], 'futex') + 600e6, t  # is_parked, waits_for, is_idle


def that_the_waits_of_cxx20_are_named():
    if not os.path.exists(victim('cxx20_waits')):
        skip('no C++20')
    t = totals(same([victim('cxx20_waits')], ALL))
    agree(t, 'once')
    blame, waits = sum(seen(t, 'mutex', 'futex').values()), seen(t, 'block', 'futex')
    assert blame == waits.get('holds_long(int)', 0) + waits['holds_short(int)'] > 0 and waits['waits_for_event(int)'] > 1e6, t
    assert most(t, 'futex') == 'holds_long(int)', t
    assert 'makes_it_once(int)' in seen(t, 'mutex', 'once'), t
    assert seen(t, 'block', 'sem')['waits_for_work(int)'] > 1e6, t
    assert seen(t, 'block', 'barrier')['waits_for_others(int)'] > 1e6, t


if __name__ == '__main__':
    main(globals())
