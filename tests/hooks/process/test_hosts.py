# SPDX-License-Identifier: MIT
"""Programs in which the profiler can do little: under a sanitizer, in an empty chroot, with too little memory."""
import ctypes
import os
import re
import shutil
import signal
import subprocess

import reader
from harness import BUILD, PRELOAD, Run, both, environment, main, new_directory, profiles, run, same, skip, victim

BEHIND = os.path.join(BUILD, 'tests/hooks/libbehind_create.so')


def that_a_sanitized_program_is_left_alone():
    for name in ('asan', 'tsan', 'ubsan'):
        if not os.path.exists(victim(name)):
            print('    no', name, 'here')
            continue
        r = same([victim(name)], 'heap_rate=1,interval=10ms')
        assert r.status == 5 and r.stdout == 'done 7\n', (r.status, r.stdout, r.stderr)
        assert name == 'ubsan' or not profiles(r), name


def that_a_malloc_inside_the_program_is_left_alone():
    for conf in ('heap_rate=1', 'heap_rate=1,interval=10ms'):
        r = same([victim('own')], conf)
        assert r.status == 5 and r.stdout == 'used: 1, grown: 1\n'


def that_libcs_own_checks_of_blocks_go_on():
    """MALLOC_CHECK_ needs this library; glibc has it since 2.34. Its functions are hidden from dlsym."""
    debug = 'libc_malloc_debug.so.0'
    try:
        ctypes.CDLL(debug)
    except OSError:
        skip('no', debug, 'here')
    for conf in ('heap_rate=1', 'heap_rate=1,interval=10ms'):
        for n_more, status in ('0', 5), ('1', -signal.SIGABRT):
            r = run([victim('overrun'), n_more], conf, behind=[debug], extra={'MALLOC_CHECK_': '3'})
            assert r.status == status, (conf, n_more, r.status, r.stderr)
        assert profiles(r), conf


def that_a_function_with_the_name_of_an_allocators_is_not_called():
    r = same([victim('namesakes')], 'heap_rate=1')
    assert r.status == 5 and not r.stderr, (r.status, r.stderr)


def libraries(path):
    """What ld.so loads for path, itself included."""
    text = subprocess.run(['ldd', path], capture_output=True, text=True, check=True).stdout
    return re.findall(r'(/\S+) \(0x', text)


def libgcc():
    """pthread_exit loads it."""
    ctypes.CDLL('libgcc_s.so.1')
    with open('/proc/self/maps') as maps:
        return next(line.split()[-1] for line in maps if 'libgcc_s' in line)


def that_a_start_that_fails_keeps_no_memory():
    """The limit has no room for the tables. What is left is for the program, but for the libraries' own variables."""
    def data_kb(r):
        return int(re.search(r'VmData:\s+(\d+) kB', r.stdout).group(1))
    for kb in (2000, 4000, 8000, 16000):
        argv = ['sh', '-c', f'ulimit -d {kb}; exec cat /proc/self/status']
        without, r = both(argv, 'heap_rate=1')
        assert r.status == 0 and 'cannot start: ENOMEM' in r.stderr, (kb, r.status, r.stderr)
        assert data_kb(r) < data_kb(without) + 1500, (kb, data_kb(r), data_kb(without))


def bare_root():
    """A directory for chroot with a program, the profiler and BEHIND, and nothing else."""
    root = new_directory()
    os.makedirs(root + '/out')
    for path in libraries(victim('process')) + libraries(PRELOAD) + [libgcc()]:
        if '/libdeltaprof' in path:
            continue
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(victim('process'), root + '/program')
    os.makedirs(root + '/src')
    os.makedirs(root + '/runtime_hooks/preload')  # the two libraries find each other by the paths of the build tree
    shutil.copy(PRELOAD, root + '/runtime_hooks/preload')
    shutil.copy(BEHIND, root)
    shutil.copy(os.path.join(BUILD, 'src/libdeltaprof.so.0'), root + '/src')
    return root


def run_in(root, how, conf, behind=''):
    script = ('import os, sys; os.chroot(sys.argv[1]); os.chdir("/"); os.execve("/program", ["/program", sys.argv[2]], '
              '{"LD_PRELOAD": "/runtime_hooks/preload/libdeltaprof_preload.so:" + sys.argv[4], '
              '"DELTAPROF_CONF": sys.argv[3] + ",exit_timeout=60s,out=/out"})')
    return subprocess.run(['/usr/bin/python3', '-c', script, root, how, conf, behind], capture_output=True, text=True, timeout=60)


def that_a_bare_chroot_runs_as_without_the_profiler():
    if os.geteuid() != 0:
        skip('not root, so no chroot')
    for conf in ('heap_rate=1', 'heap_rate=1,interval=5ms', 'heap_rate=512k', 'heap_rate=1,unwind=libunwind'):
        root = bare_root()
        for how in ('return', '_exit', 'vfork', 'dlerror', 'threads', 'late'):
            without = subprocess.run(['/usr/sbin/chroot', root, '/program', how], env={}, capture_output=True, text=True, timeout=60)
            with_us = run_in(root, how, conf)
            assert (with_us.returncode, with_us.stdout) == (without.returncode, without.stdout), (how, with_us, without)
            assert all(l.startswith('deltaprof[') for l in with_us.stderr.splitlines()), with_us.stderr
        if 'heap_rate=1' in conf.split(','):
            loaded = profiles(Run('', '', 0, root + '/out'), check=False)
            assert any(s.values['alloc_space'] == 1234 for p in loaded for s in p.samples), os.listdir(root + '/out')


def that_a_background_thread_that_ends_as_soon_as_it_begins_is_not_waited_for():
    """Without /proc it ends once main has left, here before pthread_create returns to the thread that makes it."""
    if os.geteuid() == 0:
        r = run_in(bare_root(), 'late', 'heap_rate=512k', '/' + os.path.basename(BEHIND))
        assert r.returncode == 0 and not r.stdout, r


def that_memory_stays_under_its_bound_and_totals_stay_true():
    """A million different stacks in a table for a few thousand: the sums still equal the victim's counts."""
    peaks = {}
    for conf in (None, 'heap_rate=1,memory=16M,interval=100ms', 'heap_rate=1,memory=16M'):
        out = new_directory()
        p = subprocess.Popen([victim('stacks'), '300000'], env=environment(conf or '', out, preload=conf is not None),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stdout, stderr = p.communicate(timeout=120)
        assert p.returncode == 0, stderr
        objects, size, held_objects, held_size, peak = (int(x) for x in stdout.split())
        peaks[conf] = peak
        if conf is None:
            continue
        loaded = profiles(Run('', '', 0, out))
        total = reader.sum_profiles(loaded)
        seen = {t: sum(row[t] for (names, _), row in total.items() if 'branch_' in ' '.join(names) or names == ('[overflow]',))
                for t in ('alloc_objects', 'alloc_space', 'inuse_objects', 'inuse_space')}
        assert seen['alloc_objects'] >= objects and seen['alloc_space'] >= size, (seen, stdout)
        assert seen['alloc_objects'] < objects + 1000, (seen, stdout)  # [overflow] also has events outside the victim's loop
        assert any('[overflow]' in names for names, _ in total), 'the table was never full'
        assert any('overflow' in c for p in loaded for c in p.comments), loaded[-1].comments
        # The modules' code and the agent's stack do not count as `memory`.
        assert peak - peaks[None] < (16 << 10) + 8192, peaks


main(globals())
