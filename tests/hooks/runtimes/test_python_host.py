# SPDX-License-Identifier: MIT
"""Programs that embed Python: they open libpython late, or start and end the interpreter several times."""
import json
import os
import subprocess

from harness import main, profiles, run, same, skip, victim
from interpreters import interpreters

ROUNDS = 2
EXACT = 'heap_rate=1,depth=16,memory=512M,interval=0'  # short stacks: fewer rows to read
EACH = 80  # of a round: bytearrays of 3,000 bytes, whose blocks have one more
ASK = 'import json, sys, sysconfig as s; v = s.get_config_var; print(json.dumps([v("LIBDIR"), v("MULTIARCH") or "", v("INSTSONAME"), sys.prefix]))'


def libraries():
    """(version, path, environment) of each libpython that this machine's programs can open."""
    for version, path in interpreters():
        ask = subprocess.run([path, '-c', ASK], text=True, capture_output=True, check=True)
        directory, machine, name, prefix = json.loads(ask.stdout)
        library = next((p for p in (os.path.join(directory, name), os.path.join(directory, machine, name)) if os.path.exists(p)), None)
        home = {'PYTHONHOME': prefix}
        if library and run(host(library, 'local', 1), preload=False, extra=home).stdout == 'ok\n':
            yield version, library, home


def host(library, how, rounds):
    return [victim('python_host'), library, how, str(rounds)]


def grown(r):
    return [s for p in profiles(r, check=False) for s in p.samples
            if s.values['alloc_objects'] and s.values['alloc_space'] == 3001 * s.values['alloc_objects']]


def that_a_library_that_is_opened_later_runs_as_without():
    for version, library, home in LIBRARIES:
        for how in ('local', 'global'):
            r = same(host(library, how, ROUNDS), EXACT, extra=home)
            assert sum(s.values['alloc_objects'] for s in grown(r)) == EACH * ROUNDS, (version, how)
        same(host(library, 'local', ROUNDS), 'heap_rate=4k,block_rate=1ns,interval=100ms', extra=home)


def that_an_interpreter_that_starts_again_is_profiled_again():
    """Each block counts once, as Python's, and has its functions."""
    for version, library, home in LIBRARIES:
        r = same(host(library, 'local', ROUNDS), EXACT, behind=[library], extra=home)
        found = grown(r)
        known = [s for s in found if 'grow' in s.names]
        assert sum(s.values['alloc_objects'] for s in known) == EACH * ROUNDS, (version, known)
        assert {dict(s.labels).get('heap') for s in known} == {'python'}, (version, known)
        assert len(known) == len(found), version


LIBRARIES = list(libraries())
if not LIBRARIES:
    skip('no libpython')
main(globals())
