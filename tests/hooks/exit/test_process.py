# SPDX-License-Identifier: MIT
"""How processes end, and how they change themselves before: same status, same output, and the last delta arrives."""
import gzip
import os
import shutil
import signal
import subprocess
import time

import reader
from endings import WITH_AND_WITHOUT_AGENT, ends, last
from harness import BUILD, HOOKS, environment, main, names_in, new_directory, profiles, run, same, victim, wait_until, Run

PLUGIN = os.path.join(HOOKS, 'libplugin.so')


def that_every_way_to_exit_delivers_the_last_delta():
    for how in ('return', 'exit', '_exit', '_Exit', 'quick_exit', 'exit_group'):
        ends(how)


def that_a_last_delta_that_cannot_be_written_is_logged():
    for conf in WITH_AND_WITHOUT_AGENT:
        r = run([victim('process'), 'return'], conf + ',tables=none', out='/proc/nowhere')
        lines = r.stderr.splitlines()
        assert r.status == 5 and len(lines) == 2, (r.status, lines)
        for line, then in zip(lines, ('stay pending', 'are lost')):
            assert line.endswith(f'cannot write profiles in /proc/nowhere as uid {os.getuid()}: ENOENT; they {then}'), line


def that_top_names_functions_that_the_process_could_not_name():
    program = os.path.join(new_directory(), 'program')
    shutil.copy(victim('process'), program)
    r = run([program, '_exit'], 'heap_rate=1')
    files = [os.path.join(r.out, f) for f in os.listdir(r.out)]
    assert 'make_last' not in names_in(r), names_in(r)
    for expected, source in (('make_last', None), ('program+0x', victim('host')), ('program+0x', __file__)):
        if source:
            os.unlink(program)
            shutil.copy(source, program)  # as if built again: it has other functions now
        top = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'top', *files], capture_output=True, text=True,
                             timeout=60, check=True)
        assert top.stderr == '' and top.stdout.splitlines()[4].split()[5].startswith(expected), top


def that_the_last_thread_need_not_be_main():
    r = ends('late', status=0)
    assert 'make_last' in names_in(r), names_in(r)  # /proc/self is main's and empty by then
    without = [p.comments for p in profiles(r) if not any(c.startswith('#RssTotal') for c in p.comments)]
    assert all('#ended' in comments for comments in without), without


def that_a_crash_and_abort_keep_their_status():
    ends('abort', status=-signal.SIGABRT, kept=None)
    ends('crash', status=-signal.SIGSEGV, kept=None)


def that_default_signals_deliver_and_then_kill():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        ends('signal', str(int(number)), status=-number)


def that_signals_off_leaves_them_alone():
    ends('signal', '15', status=-15, kept=(0, 0), confs=['heap_rate=1,signals=off'])


def that_a_signal_of_another_process_delivers():
    for conf in WITH_AND_WITHOUT_AGENT:
        out = new_directory()
        p = subprocess.Popen([victim('process'), 'wait'], env=environment(conf, out), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert p.stdout.readline() == b'ready\n'
        p.send_signal(signal.SIGTERM)
        assert p.wait(timeout=60) == -signal.SIGTERM
        assert last(Run('', '', 0, out)) == (1, 1)


def that_a_signal_during_the_last_profile_lets_it_finish():
    """As multiprocessing.Pool does to workers that exit already."""
    for delay_ms in range(0, 60, 3):
        out = new_directory()
        p = subprocess.Popen(['/usr/bin/python3', '-S', '-c', 'import json, os; os.write(1, b"ready\\n"); os._exit(0)'],
                             env=environment('heap_rate=1,interval=0', out), stdout=subprocess.PIPE)
        assert p.stdout.readline() == b'ready\n'
        time.sleep(delay_ms / 1000)
        p.send_signal(signal.SIGTERM)
        assert p.wait(timeout=60) in (0, -signal.SIGTERM)
        p.stdout.close()
        assert [n for n in os.listdir(out) if n.endswith('.heap.pb.gz')], (delay_ms, p.returncode)


def that_threads_may_allocate_while_the_process_ends():
    for _ in range(5):
        ends('busy-exit')
        ends('busy-_exit')


def that_threads_may_call_exit_together():
    for _ in range(5):
        ends('exits')


def idles(conf, out):
    """Starts a program that prints a line and then allocates a little every 10 ms."""
    p = subprocess.Popen([victim('serve'), 'idle'], env=environment('heap_rate=1,' + conf, out), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    assert p.stdout.readline() == b'ready\n'
    return p


def agent_of(pid):
    """The background thread's directory in /proc; None: there is no such thread."""
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/comm') as f:
            if f.read() == 'deltaprof\n':
                return f'/proc/{pid}/task/{task}'
    return None


def that_the_agent_shares_no_descriptor_with_the_program():
    out = new_directory()
    with idles('interval=20ms', out) as p:
        wait_until(lambda: os.listdir(out))  # the agent has its own descriptors before its first tick
        agent = agent_of(p.pid)
        for fd in '012':
            assert os.readlink(f'{agent}/fd/{fd}') == '/dev/null', os.readlink(f'{agent}/fd/{fd}')
        assert os.readlink(f'/proc/{p.pid}/fd/0').startswith('pipe:')
        p.stdin.close()


def that_without_an_interval_only_a_request_is_answered():
    out = new_directory()
    with idles('interval=0,signal=URG', out) as p:
        time.sleep(0.5)
        assert not os.listdir(out)
        p.send_signal(signal.SIGURG)
        wait_until(lambda: os.listdir(out))
        p.stdin.close()


def that_missed_ticks_are_not_repeated():
    out = new_directory()
    with idles('interval=100ms', out) as p:
        wait_until(lambda: os.listdir(out))
        p.send_signal(signal.SIGSTOP)
        time.sleep(2)
        before, start = len(reader.files(out)), time.monotonic()
        p.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        ticks = len(reader.files(out)) - before
        # One tick was under way, one is late, and the time may touch one interval more than it has whole ones.
        assert ticks <= (time.monotonic() - start) / 0.1 + 3, ticks
        p.stdin.close()


def that_children_of_vfork_deliver_nothing():
    r = ends('vfork')
    assert len({p.pid for p in profiles(r)}) == 1
    r = ends('vfork-killed')
    assert len({p.pid for p in profiles(r)}) == 1 and 'make_again' in names_in(r), names_in(r)


def that_exec_loses_nothing():
    for how in ('execl', 'execle', 'execlp', 'execv', 'execve', 'execvp', 'execvpe', 'fexecve', 'execveat', 'syscall'):
        r = ends('exec', how, status=0)
        assert r.stdout == '1 2 3 4 5 6 7 8\n', (how, r.stdout)


def both_sides_of_a_daemon_report(how, blocks):
    for conf in WITH_AND_WITHOUT_AGENT:
        flag = os.path.join(new_directory(), 'flag')
        r = run([victim('process'), how, flag], conf)
        assert r.status == 0, r.stderr
        wait_until(lambda: os.path.exists(flag) and last(r)[0] >= blocks)


def that_a_daemon_that_closes_everything_works():
    both_sides_of_a_daemon_report('daemon', 2)


def that_children_of_a_process_with_an_endpoint_have_names():
    place = new_directory()
    r = run([victim('process'), 'daemon', os.path.join(place, 'flag')], f'heap_rate=1,listen=unix:{place}/socket')
    assert r.status == 0, r.stderr
    wait_until(lambda: 'make_last' in names_in(r))
    for p in reader.files(r.out):
        with open(p, 'rb') as f:
            packed = f.read()
        assert len(packed) < len(gzip.decompress(packed)), p


def that_the_parent_of_a_daemon_reports_its_events():
    both_sides_of_a_daemon_report('libc-daemon', 1)


def that_closing_every_descriptor_stops_nothing():
    out = new_directory()
    p = subprocess.Popen([victim('process'), 'close'], env=environment('heap_rate=1,interval=50ms', out), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: len(reader.files(out)) > 5)
    assert (p.communicate(timeout=60), p.returncode) == ((b'', b''), 5)  # the program ends when its stdin ends
    assert last(Run('', '', 5, out)) == (1, 1)


def that_files_are_in_the_first_directory_after_chdir():
    cwd = new_directory()
    r = run([victim('process'), 'chdir'], 'heap_rate=1,out=here', cwd=cwd, extra={'DELTAPROF_CONF': 'heap_rate=1,out=here'})
    assert r.status == 5, r.stderr
    assert last(Run('', '', 0, os.path.join(cwd, 'here'))) == (1, 1)


def that_the_reader_of_stderr_may_close_it():
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([victim('process'), 'return'], env=environment('heap_rate=1,log=info', new_directory()), stderr=write,
                              timeout=60)
    finally:
        os.close(write)
    assert done.returncode == 5, done


def that_programs_see_the_same_signals_as_without_the_profiler():
    script = '''
import signal, os, time
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
    print(s, signal.getsignal(s)); print(signal.signal(s, signal.SIG_IGN)); print(signal.signal(s, signal.SIG_DFL))
    print(signal.getsignal(s))
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    os.kill(os.getpid(), signal.SIGINT); time.sleep(1)
except KeyboardInterrupt: print("interrupted")
print(os.system("trap; kill -0 $$; echo $?"))
os.kill(os.getpid(), signal.SIGTERM)
'''
    assert same(['/usr/bin/python3', '-c', script], 'heap_rate=64k').status == -signal.SIGTERM
    same(['sh', '-c', 'trap; (trap "" TERM; kill -TERM $(exec sh -c "echo \\$PPID"); echo ignored); kill -INT $$; echo no'])


def that_varargs_are_passed_on():
    ends('six-words')


def that_a_library_opened_and_closed_for_ever_keeps_its_names():
    r = ends('dlclose', PLUGIN)
    total = reader.sum_profiles(profiles(r))
    assert reader.by_function(total, 'alloc_objects', {'plugin_make'}) == {'plugin_make': 200}
    assert reader.by_function(total, 'inuse_objects', {'plugin_make'}) == {'plugin_make': 100}


def that_dlerror_is_left_alone():
    ends('dlerror')


def that_many_short_threads_run_as_before():
    ends('threads', kept=None)


def that_a_jump_out_of_malloc_leaves_no_guard():
    r = ends('jump', behind=[os.path.join(HOOKS, 'libbehind.so')], kept=(100, 100))


def that_blocks_from_before_malloc_is_known_can_be_freed():
    ends('early', behind=[os.path.join(HOOKS, 'libearly.so')])


def that_an_interposer_behind_the_profiler_is_no_loop():
    ends('return', behind=[os.path.join(HOOKS, 'libbehind.so')])


def that_an_interposer_before_the_profiler_is_no_loop():
    for conf in WITH_AND_WITHOUT_AGENT:
        behind = os.path.join(HOOKS, 'libbehind.so')
        env = environment(conf)
        r = run([victim('process'), 'return'], conf, extra={'LD_PRELOAD': behind + ' ' + env['LD_PRELOAD']})
        assert r.status == 5 and r.stderr == '' and last(r)[0] == 1, (r.status, r.stderr)


main(globals())
