# SPDX-License-Identifier: MIT
"""Programs that give up rights: namespaces, seccomp filters, no clock, limits on files, another user."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from endings import WITH_AND_WITHOUT_AGENT, ends, last
from harness import BUILD, Run, environment, main, new_directory, run, victim


def that_namespaces_work_while_the_agent_runs():
    ends('unshare', program='sandbox', confs=['heap_rate=1,interval=20ms'])


def says_why(how, words, conf='heap_rate=1,interval=20ms'):
    """The log has one line at the end; before it there may be one of a tick that failed."""
    r = run([victim('sandbox'), how], conf)
    *earlier, line = r.stderr.splitlines()
    assert r.status == 5 and words in line and line.startswith('deltaprof['), (r.status, r.stderr)
    assert [e.replace('stay pending', 'are lost') for e in earlier] in ([], [line]), r.stderr
    return r


def that_a_seccomp_filter_is_survived():
    for conf in WITH_AND_WITHOUT_AGENT:
        assert last(says_why('seccomp', 'seccomp', conf=conf), 'sandbox') == (1, 1)


def that_a_filter_past_the_hooks_is_survived():
    """No library function is called for it. The profiler finds it before a tick."""
    for conf in ('heap_rate=1,interval=0', 'heap_rate=1,interval=2s'):
        r = run([victim('sandbox'), 'seccomp-directly'], conf)
        assert r.status == 5 and not r.stderr, (conf, r.status, r.stderr)


def that_asking_about_filters_changes_nothing():
    ends('seccomp-asks', program='sandbox')


def that_behind_a_narrow_filter_the_profiler_makes_no_call():
    for conf in WITH_AND_WITHOUT_AGENT:
        assert last(says_why('narrow', 'seccomp', conf=conf + ',block_rate=1ns'), 'sandbox') == (1, 1)
        p = subprocess.Popen([victim('sandbox'), 'narrow', 'wait'], env=environment(conf + ',log=none', new_directory()),
                             stdout=subprocess.PIPE)
        assert p.stdout.readline() == b'ready\n', p.wait(timeout=60)
        p.send_signal(signal.SIGTERM)
        assert p.wait(timeout=60) == -signal.SIGTERM


# Executes a program behind a filter that answers EPERM to some system calls, as those of older container engines do.
REFUSING = """import ctypes, os, struct, sys
numbers = [int(number) for number in sys.argv[1].split(',')]
code = struct.pack('HBBI', 0x20, 0, 0, 0) + b''.join(struct.pack('HBBIHBBI', 0x15, 0, 1, n, 6, 0, 0, 0x50001) for n in numbers)
code = ctypes.create_string_buffer(code + struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
program = struct.pack('HxxxxxxQ', len(code) // 8, ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.c_char_p(program)):
    sys.exit('no filter')
os.execvp(sys.argv[2], sys.argv[2:])"""
FACCESSAT2, RENAMEAT2 = 439, 276 if os.uname().machine == 'aarch64' else 316


def refused(numbers, *command):
    return subprocess.run([sys.executable, '-c', REFUSING, ','.join(map(str, numbers)), *command], env=environment(preload=False),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)


def that_calls_which_an_old_filter_refuses_are_not_needed():
    for numbers in [FACCESSAT2], [RENAMEAT2], [FACCESSAT2, RENAMEAT2]:
        out, tables = new_directory(), tempfile.mkdtemp(dir='/dev/shm')
        env = environment('heap_rate=1,interval=5ms', out)
        words = {name: env[name] for name in ('LD_PRELOAD', 'DELTAPROF_CONF')}
        done = refused(numbers, 'env', *map('='.join, words.items()), victim('sandbox'), 'seccomp-asks')
        r = Run(done.stdout, done.stderr, done.returncode, out)
        assert (r.status, r.stderr, last(r, 'sandbox')) == (5, '', (1, 1)), (numbers, r.status, r.stderr)
        assert all(re.fullmatch(r'[^.].*\.pb\.gz', name) for name in os.listdir(out)), os.listdir(out)
        words['DELTAPROF_CONF'] = f'interval=0,heap_rate=1,tables={tables},out={out}/killed'
        done = refused(numbers, 'env', *map('='.join, words.items()), 'sh', '-c', 'kill -9 $$')
        assert (done.returncode, done.stderr) == (-signal.SIGKILL, ''), (done.returncode, done.stderr)
        done = refused(numbers, os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'recover', tables)
        assert (done.returncode, done.stdout, done.stderr) == (0, '1 process recovered\n', ''), (numbers, done.stdout, done.stderr)
        assert [name for name in os.listdir(out + '/killed') if name.endswith('.heap.pb.gz')], os.listdir(out + '/killed')
        shutil.rmtree(tables)


def that_a_process_without_a_clock_goes_on():
    for how in ('strict', 'clockless'):
        for conf in WITH_AND_WITHOUT_AGENT:
            r = run([victim('sandbox'), how], conf + ',log=none')
            assert r.status == 5, (how, conf, r.status)


def that_a_limit_on_file_sizes_does_not_kill():
    for conf in WITH_AND_WITHOUT_AGENT:
        says_why('no-files', 'EFBIG; they are lost', conf=conf + ',tables=none')


def that_privileges_can_be_dropped_while_the_agent_runs():
    if os.geteuid() == 0:
        says_why('setuid', 'as uid 65534: EACCES (chmod 1777 lets it); they are lost', conf='heap_rate=1,interval=20ms,tables=none')


main(globals())
