# SPDX-License-Identifier: MIT
"""No hook enters the dynamic loader, so no thread waits in a hook for the loader's lock: not while a callback of the
loader runs, nor during a dlopen, nor in a forked child whose parent held the lock."""
import os

from harness import BUILD, HOOKS, PRELOAD, free_port, main, names_in, new_directory, profiles, run, victim

SECONDS = os.environ.get('DELTAPROF_STRESS_SECONDS', '4')
PLUGINS = [os.path.join(HOOKS, name) for name in ('libplugin.so', 'libplugin_other.so')]


def older_core():
    """The core as built for older glibc, in a new directory with the modules beside it."""
    where = new_directory()
    os.symlink(os.path.join(BUILD, 'tests/hooks/older_glibc/libdeltaprof.so.0'), os.path.join(where, 'libdeltaprof.so.0'))
    os.symlink(os.path.join(BUILD, 'src/modules'), os.path.join(where, 'modules'))
    return os.path.join(where, 'libdeltaprof.so.0')


def frames_of(r):
    return max(len(s.names) for p in profiles(r, program='victim_loader') for s in p.samples)


def that_a_locked_loader_blocks_no_hook():
    for unwind in ('auto', 'libunwind'):
        r = run([victim('loader'), 'callback', '300'], f'heap_rate=1,unwind={unwind},interval=20ms')
        assert r.status == 0, (unwind, r.status, r.stdout, r.stderr)
        assert {'plain', 'aligned', 'wants_the_mutex'} <= names_in(r, program='victim_loader'), unwind


def that_the_profilers_thread_does_not_begin_to_allocate_inside_the_loader():
    r = run([victim('first_malloc')], 'block_rate=1ns,interval=20ms')
    assert (r.status, r.stdout) == (0, 'done\n'), (r.status, r.stdout, r.stderr)


def that_libraries_may_be_opened_and_closed_beside_forks():
    for unwind in ('auto', 'libunwind'):
        r = run([victim('loader'), 'churn', SECONDS, *PLUGINS], f'heap_rate=1,unwind={unwind},interval=50ms', timeout=120)
        assert r.status == 0, (unwind, r.status, r.stdout, r.stderr)
        names = names_in(r, program='victim_loader')
        assert {'plain', 'aligned', 'plugin_make', 'other_make'} <= names, (unwind, names)
        assert frames_of(r) >= 12, (unwind, frames_of(r))
        print('    ', unwind, r.stderr.strip())


def that_the_same_is_true_with_an_older_glibc():
    for argv in (['callback', '300'], ['churn', SECONDS, *PLUGINS]):
        r = run([victim('loader'), *argv], 'heap_rate=1,interval=50ms', behind=[older_core()], timeout=120)
        assert r.status == 0, (argv, r.status, r.stdout, r.stderr)
        names = names_in(r, program='victim_loader')
        assert {'plain', 'aligned', argv[0] == 'churn' and 'plugin_make' or 'wants_the_mutex'} <= names, names
        assert frames_of(r) >= (12 if argv[0] == 'churn' else 3), frames_of(r)
        print('    ', r.stderr.strip())


def that_stacks_through_a_plugin_are_whole_from_its_first_call():
    for behind in ([], [older_core()]):
        r = run(['/usr/bin/python3', '-c', 'import _sqlite3, _json; _sqlite3.connect(":memory:").execute("create table t(a)")'],
                'heap_rate=1,interval=0', behind=behind)
        assert r.status == 0, r.stderr
        through = [s.names for p in profiles(r) for s in p.samples if any('sqlite3' in n for n in s.names)]
        assert through and all('main' in n[-4:] or '_start' in n[-1] for n in through), through[:3]


def that_an_interposer_between_the_hooks_and_libc_is_called():
    """Functions of libc are looked up without the loader only where no other object defines them."""
    behind = os.path.join(HOOKS, 'libbehind_locks.so')
    alone = run([victim('behind_locks')], preload=False, behind=[behind])
    assert 'behind: 3 mutex, 2 rwlock, 5 sigaction' in alone.stderr, alone.stderr
    for first, argv in (([behind], [victim('behind_locks')]),
                        ([os.path.join(HOOKS, 'libbehind.so'), behind], [victim('behind_locks')])):
        r = run(argv, 'heap_rate=1,signals=off', behind=first)
        assert r.status == 0 and 'behind: 3 mutex, 2 rwlock,' in r.stderr, (r.status, r.stderr)
        assert int(r.stderr.split(' sigaction')[0].split()[-1]) >= 5, r.stderr
        assert {'main'} <= names_in(r, program='victim_behind_locks')


def that_functions_that_the_search_calls_may_be_interposed_and_lock():
    """The search for the real functions then calls a hook, before it has found the function behind it."""
    argv, strings = [victim('behind_locks')], os.path.join(HOOKS, 'libbehind_strings.so')
    alone = run(argv, preload=False, behind=[strings])
    assert alone.status == 0, alone.stderr
    for order in ([PRELOAD, strings], [strings, PRELOAD]):
        r = run(argv, 'heap_rate=1,signals=off', extra={'LD_PRELOAD': ' '.join(order)})
        assert (r.status, r.stdout) == (0, alone.stdout), (order, r.status, r.stdout, r.stderr)
        assert {'main'} <= names_in(r, program='victim_behind_locks')


def that_a_module_that_does_not_load_is_named_with_the_loaders_reason():
    where = new_directory()
    core, module = os.path.join(where, 'libdeltaprof.so.0'), os.path.join(where, 'modules/http.so')
    os.symlink(os.path.join(BUILD, 'src/libdeltaprof.so.0'), core)
    os.mkdir(os.path.dirname(module))
    with open(module, 'w') as f:
        f.write('This is no shared object, and longer than the header of one. ' * 4)
    r = run(['/bin/true'], f'listen=127.0.0.1:{free_port()}', behind=[core])
    assert r.status == 0, r.status
    assert f'module http: the module does not load: {module}: invalid ELF header, profiles are not served' in r.stderr, r.stderr


main(globals())
