# SPDX-License-Identifier: MIT
"""When the background thread starts, and that it makes nothing hang: profiles arrive while the program runs."""
import os
import re
import shutil
import signal
import subprocess

import reader
from http_client import forbid_pidfd_getfd
from harness import HOOKS, Run, environment, main, names_in, need, new_directory, run, same, skip, victim, wait_until

PLUGIN = os.path.join(HOOKS, 'libplugin.so')


def writes(how, *args, conf='heap_rate=1,interval=100ms', files=1, kind='heap', program=victim('agent'), **kwargs):
    """Runs the program; checks that profiles are written before its input ends, and that it then ends with status 5."""
    out = new_directory()
    with subprocess.Popen([program, how, *args], env=environment(conf, out, **kwargs), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        try:
            wait_until(lambda: len(reader.files(out, kind)) >= files)
            output = p.communicate(timeout=60)
        finally:
            p.kill()
    assert (p.returncode, output[1]) == (5, b''), (how, p.returncode, output)
    return Run(output[0], output[1], p.returncode, out)


def that_a_thread_in_the_loader_may_wait_for_an_allocating_thread():
    for _ in range(3):
        writes('loader', PLUGIN, conf='heap_rate=1,block_rate=1ns,interval=100ms', files=2)


def that_an_allocator_that_uses_mutexes_is_not_entered_again():
    for _ in range(3):
        writes('locker', conf='heap_rate=1,block_rate=1ns,interval=100ms', files=2, behind=[os.path.join(HOOKS, 'liblocker.so')])


def that_in_a_container_the_agent_has_its_own_descriptors():
    """A container refuses pidfd_getfd, and its standard error is a pipe. Log lines arrive in that pipe."""
    out = new_directory()
    conf = 'heap_rate=1,interval=50ms'
    with subprocess.Popen([victim('workers'), '0', '1', '0', 'wait'], env=environment(conf, out), stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=forbid_pidfd_getfd) as p:
        try:
            tasks = f'/proc/{p.pid}/task'
            wait_until(lambda: len(reader.files(out)) >= 2)
            others = [tid for tid in os.listdir(tasks) if int(tid) != p.pid]
            assert len(others) == 1, others
            assert os.readlink(f'{tasks}/{others[0]}/fd/2') == '/dev/null' != os.readlink(f'{tasks}/{p.pid}/fd/2')
            shutil.rmtree(out)
            line = p.stderr.readline()
            assert out in line and line.startswith('deltaprof['), line
        finally:
            p.stdin.close()


def that_the_agent_hears_its_own_crashes_and_no_signal_of_the_program():
    """abort unblocks SIGABRT itself; SIGXCPU and SIGSYS are sent to the process."""
    own = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
    others = {signal.SIGABRT, signal.SIGXCPU, signal.SIGSYS, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGALRM}
    for conf, heard in ('', own), (',signals=off', set()):
        out = new_directory()
        with subprocess.Popen([victim('workers'), '0', '1', '0', 'wait'], env=environment('heap_rate=1,interval=50ms' + conf, out),
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as p:
            try:
                tasks = f'/proc/{p.pid}/task'
                wait_until(lambda: len(reader.files(out)) >= 2)
                agent, = [tid for tid in os.listdir(tasks) if int(tid) != p.pid]
                with open(f'{tasks}/{agent}/status') as f:
                    blocked = int(re.search(r'^SigBlk:\s*(\w+)$', f.read(), re.M)[1], 16)
                assert {s for s in own | others if not blocked >> (s - 1) & 1} == heard, (conf, hex(blocked))
            finally:
                p.stdin.close()


def that_ticks_leave_no_descriptor_open():
    out = new_directory()
    with subprocess.Popen([victim('workers'), '0', '1', '0', 'wait'], env=environment('heap_rate=1,interval=20ms,keep=100', out),
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as p:
        try:
            tasks = f'/proc/{p.pid}/task'
            wait_until(lambda: len(reader.files(out)) >= 2)
            agent, = [tid for tid in os.listdir(tasks) if int(tid) != p.pid]
            n_open = len(os.listdir(f'{tasks}/{agent}/fd'))  # a tick may be under way
            wait_until(lambda: len(reader.files(out)) >= 22)
            wait_until(lambda: len(os.listdir(f'{tasks}/{agent}/fd')) <= n_open)
        finally:
            p.stdin.close()


def that_threads_of_the_profiler_have_room_beside_large_thread_local_variables():
    writes('', program=victim('large_tls'), files=2)


def that_without_descriptors_a_line_says_why_there_are_no_profiles():
    """Four: the program's three, and the one that the loader needs. Standard error is a file."""
    out = new_directory()
    with open(os.path.join(new_directory(), 'stderr'), 'w+') as said:
        done = subprocess.run(['sh', '-c', 'ulimit -n 4; exec "$0" turns 2 200 5', victim('locks')], env=environment('block_rate=1ns,exe=victim_*', out),
                              stdout=subprocess.DEVNULL, stderr=said, timeout=60)
        said.seek(0)
        text = said.read()
    assert done.returncode == 0 and not reader.files(out), (done, text)
    assert f'cannot write profiles in {out} as uid {os.getuid()}: EMFILE; they are lost' in text, text


def that_allocations_before_a_long_idle_time_are_reported():
    r = writes('load', conf='heap_rate=512k,interval=1s')
    assert 'make_load' in names_in(r), names_in(r)
    writes('fork', conf='heap_rate=512k,interval=1s')


def that_the_agent_starts_with_the_first_thread():
    for how in ('pthread', 'c11', 'clone'):
        writes(how)


def that_a_go_program_that_allocates_in_c_is_profiled():
    """Its runtime makes threads before anything is sampled, and ends without exit."""
    need('go')
    program = os.path.join(new_directory(), 'leak')
    subprocess.run(['go', 'build', '-o', program, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'victim_leak.go')], check=True,
                   env={**os.environ, 'GO111MODULE': 'off'} if 'HOME' in os.environ else {**os.environ, 'GO111MODULE': 'off', 'GOCACHE': new_directory()})
    assert 'leak' in ' '.join(names_in(writes('', program=program, conf='heap_rate=512k,interval=100ms', files=2)))
    # The runtime has a handler for every signal: the profiler sees the requesting signal before that handler.
    out = new_directory()
    with subprocess.Popen([program], env=environment('heap_rate=512k,interval=0,signal=USR2', out), stdin=subprocess.PIPE) as p:
        def has_answered():
            with open(f'/proc/{p.pid}/status') as f:
                caught = int(next(line for line in f if line.startswith('SigCgt')).split()[1], 16)
            if caught >> (signal.SIGUSR2 - 1) & 1:
                os.kill(p.pid, signal.SIGUSR2)
            return len(reader.files(out)) >= 2
        try:
            wait_until(has_answered)
            p.communicate(timeout=60)
        finally:
            p.kill()
    assert p.returncode == 5, p.returncode


def that_a_thread_that_no_hook_saw_counts():
    writes('hidden')


def that_a_failed_pthread_create_leaves_no_thread():
    assert same([victim('agent'), 'no-thread'], 'heap_rate=1,interval=100ms').status == 5


def that_rights_that_the_program_gives_up_are_given_up_by_every_thread():
    """Steps that this kernel refuses are left out; the first one needs no right, so it always runs."""
    refused = []
    for how in ('no_new_privs', 'no_new_privs-call', 'capset', 'capset-call', 'bounding', 'securebits', 'ambient', 'chroot',
                'chroot-call', 'groups-call', 'uid-call', 'ids', 'ids-unqueued', 'ids-unqueued-thread', 'stages'):
        place = [new_directory()] if how.startswith(('chroot', 'stages')) else []
        r = run([victim('rights'), how, *place], 'heap_rate=1,interval=100ms,log=none')
        if r.status == 77:
            refused.append(how)
        else:
            assert r.status == 5, (how, r.status, r.stdout, r.stderr)
    assert not refused or os.geteuid() != 0 or not refused[0].startswith('no_new'), refused


def that_no_thread_is_created_while_the_ids_change():
    """A thread that begins between the end of the library's thread and the change of the ids would keep the old ones."""
    for how in ('ids-unqueued', 'ids-unqueued-thread'):
        r = run([victim('rights'), how], 'heap_rate=1,interval=100ms,log=none', behind=[os.path.join(HOOKS, 'libbehind_ids.so')])
        assert r.status in (5, 77), (how, r.status, r.stdout, r.stderr)


def that_a_program_hears_of_messages_in_its_queue():
    """The kernel ends mq_notify when any thread of the process closes a descriptor of the queue: its own copy, too."""
    out = new_directory()
    done = subprocess.run([victim('queue'), os.path.join(out, '*.heap.pb.gz')], env=environment('heap_rate=1,interval=100ms', out),
                          capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        skip('there are no message queues')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'told\n', ''), done


def that_landlock_binds_the_thread_that_writes():
    out = new_directory()
    with subprocess.Popen([victim('rights'), 'landlock'], env=environment('heap_rate=1,interval=20ms', out), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        line = p.stderr.readline()
        if not line:  # it ended
            assert p.wait(timeout=60) == 77, p.returncode
            skip('no landlock')
        assert b'EACCES' in line, line
        p.communicate(timeout=60)
        assert p.returncode == 5, p.returncode


main(globals())
