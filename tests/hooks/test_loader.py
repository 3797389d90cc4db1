# SPDX-License-Identifier: MIT
"""No hook enters the dynamic loader: nobody waits for a lock that a callback, a dlopen or a dead thread holds."""
import os

from harness import HOOKS, main, names_in, profiles, run, victim

SECONDS = os.environ.get('DELTAPROF_STRESS_SECONDS', '4')
PLUGINS = [os.path.join(HOOKS, name) for name in ('libplugin.so', 'libplugin_other.so')]


def frames_of(r):
    return max(len(s.names) for p in profiles(r, program='victim_loader') for s in p.samples)


def that_a_held_loader_holds_nobody():
    for unwind in ('auto', 'libunwind'):
        r = run([victim('loader'), 'callback', '300'], f'heap_rate=1,unwind={unwind},interval=20ms', timeout=60)
        assert r.status == 0, (unwind, r.status, r.stdout, r.stderr)
        assert {'plain', 'aligned', 'wants_the_mutex'} <= names_in(r, program='victim_loader'), unwind


def that_libraries_come_and_go_and_forks_too():
    for unwind in ('auto', 'libunwind'):
        r = run([victim('loader'), 'churn', SECONDS, *PLUGINS], f'heap_rate=1,unwind={unwind},interval=50ms', timeout=120)
        assert r.status == 0, (unwind, r.status, r.stdout, r.stderr)
        names = names_in(r, program='victim_loader')
        assert {'plain', 'aligned', 'plugin_make', 'other_make'} <= names, (unwind, names)
        assert frames_of(r) >= 12, (unwind, frames_of(r))
        print('    ', unwind, r.stderr.strip())


main(globals())
