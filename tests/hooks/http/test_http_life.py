# SPDX-License-Identifier: MIT
"""Which process of several opens the endpoint, when, on which port; and how the endpoint ends."""
import http.client
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

import reader
from harness import BUILD, environment, free_port, main, new_directory, victim, wait_until
from http_client import Server, forbid_pidfd_getfd


def that_a_wrapper_leaves_the_port_to_its_program():
    program = victim('serve')
    for wrapper in (['timeout', '600', program, 'idle'], ['sh', '-c', f'sleep 0; {program} idle; true'],
                    ['timeout', '600', 'sh', '-c', f'{program} idle; true']):
        with Server(wrapper) as s:
            assert s.get('/debug/pprof/cmdline').split(b'\0')[0] == program.encode(), wrapper


STARTER = '''
import socket, subprocess, sys, time
while True:
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", int(sys.argv[1]))) == 0:
            break
    time.sleep(0.01)
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
sys.stdin.read()
p.communicate()
'''


def that_the_log_says_what_to_set_if_the_parent_has_the_port():
    """The parent starts the child when it has the port itself. It waits for input too, so it is no wrapper."""
    with Server([sys.executable, '-c', STARTER, 'PORT', victim('serve'), 'idle']) as s:
        assert s.get('/debug/pprof/cmdline').startswith(sys.executable.encode())
        def line():
            s.stderr.seek(0)
            return next((line for line in s.stderr if 'range of ports' in line), None)
        told = wait_until(line)
        assert f'process {s.process.pid} (python' in told and '), which started this one, has the port; set exe=victim_serve or' in told, told


def that_a_daemon_keeps_its_endpoint():
    file = os.path.join(new_directory(), 'pid')
    port = free_port()
    env = environment(f'listen=127.0.0.1:{port},heap_rate=4k')
    subprocess.run([victim('serve'), 'daemon', file], env=env, timeout=60, check=True)

    def text():
        with open(file) as f:
            return f.read()

    def answer():
        c = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        c.request('GET', '/debug/pprof/heap')
        return c.getresponse()

    pid = int(wait_until(text))
    try:
        r = wait_until(answer)
        assert int(r.getheader('X-Deltaprof-Pid')) == pid
        reader.load(r.read())
    finally:
        os.kill(pid, signal.SIGKILL)


def that_a_wrapper_leaves_the_port_to_the_server():
    with Server(['sh', '-c', f'sleep 0.2; exec {victim("serve")} idle'], ready=None) as s:
        # The shell has an endpoint itself until it becomes the other program.
        wait_until(lambda: s.get('/debug/pprof/cmdline').split(b'\0')[0] == victim('serve').encode())


def that_an_endpoint_opens_after_a_second_also_if_the_process_is_stopped():
    began = time.monotonic()
    with Server([victim('serve'), 'idle'], ready=None) as s:
        s.process.stdout.readline()
        for _ in range(5):
            s.process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            s.process.send_signal(signal.SIGCONT)
        s.wait('/debug/pprof/')
        assert time.monotonic() - began >= 1, time.monotonic() - began


def that_an_endpoint_lives_on_without_main_and_ends_with_the_last_thread():
    for conf in 'out=none', 'interval=50ms':
        with Server([victim('serve'), 'leaves'], 'heap_rate=1,' + conf, ready=None) as s:
            assert s.process.stdout.readline() == 'ready\n'  # main has left
            s.wait('/debug/pprof/delta_heap')
            wait_until(lambda: 'little' in {name for row in s.profile('delta_heap').samples for name in row.names})
            s.process.stdin.close()
            assert s.process.wait(60) == 0


def that_closed_and_reused_descriptors_do_no_harm():
    with Server([victim('serve'), 'closes']) as s:
        for _ in range(20):
            s.get('/debug/pprof/heap')
            time.sleep(0.1)
        s.process.stdin.close()
        out = s.process.stdout.read()
        s.process.wait(60)
        assert out.split('\n')[1] == 'wrong 0', out


def keep_alive(s):
    """A client whose connection stays open."""
    c = http.client.HTTPConnection('127.0.0.1', s.port, timeout=60)
    c.request('GET', '/debug/pprof/')
    c.getresponse().read()
    return c


def that_an_endpoint_opens_without_pidfd_getfd():
    # Containers refuse it, and the agent cannot get fd 2 from the program's table.
    with Server([victim('serve'), 'idle'], prepare=forbid_pidfd_getfd) as s:
        client = keep_alive(s)
        assert sorted(os.listdir(f'/proc/{s.process.pid}/fd')) == ['0', '1', '2']
        wait_until(lambda: 'profiles at' in s.log())  # the log line arrives nevertheless
        client.close()
    with Server([victim('serve'), 'closes'], prepare=forbid_pidfd_getfd) as s:
        for _ in range(20):
            client = keep_alive(s)
            s.get('/debug/pprof/heap')
            time.sleep(0.1)
            client.close()
        s.process.stdin.close()
        out = s.process.stdout.read()
        assert s.process.wait(60) == 0 and out.split('\n')[1] == 'wrong 0', (s.process.returncode, out)


def that_a_library_that_gives_up_ends_the_endpoint_only():
    with Server([victim('serve'), 'idle'], behind=[os.path.join(BUILD, 'tests/hooks/libbroken_net.so')],
                extra={'DELTAPROF_TEST_BREAK': 'epoll'}, ready=None) as s:
        wait_until(lambda: 'profiles at' in s.log())
        with socket.create_connection(('127.0.0.1', s.port)) as c:
            c.sendall(b'GET /debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n')  # is suspended: taken out of the set
            while c.recv(4096):
                pass
        wait_until(lambda: 'profiles are not served any more' in s.log())
        s.process.stdin.close()
        assert s.process.wait(60) == 0 and s.log().count('ENOTRECOVERABLE') == 1, (s.process.returncode, s.log())


def that_another_process_may_take_the_port_first():
    port = free_port()
    with Server([victim('serve'), 'idle'], f'listen=127.0.0.1:{port}-{port + 40}', behind=[os.path.join(BUILD, 'tests/hooks/libbroken_net.so')],
                extra={'DELTAPROF_TEST_BREAK': 'listen'}, ready=None) as s:
        s.port = int(wait_until(lambda: re.search(r'profiles at .*, port (\d+),', s.log()))[1])
        assert port < s.port and s.get('/debug/pprof/heap')


def that_a_socket_file_with_a_full_queue_counts_as_in_use():
    path = os.path.join(new_directory(), 'sock')
    clients = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(path)
        taken.listen(0)
        for c in clients:
            c.setblocking(False)
            c.connect_ex(path)
        done = subprocess.Popen([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'run', '-o', f'listen=unix:{path}', '--', victim('serve'), 'idle'],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert select.select([done.stderr], [], [], 60)[0], 'still asking'
            assert 'EADDRINUSE' in done.stderr.readline()
        finally:
            done.stdin.close()
            done.wait(60)
    for c in clients:
        c.close()


def that_a_taken_port_is_one_line_and_the_program_runs():
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = taken.getsockname()[1]
        env = environment(f'listen=127.0.0.1:{port},heap_rate=1k')
        done = subprocess.Popen([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'run', '--', victim('serve'), 'idle'],
                                env={**os.environ, 'DELTAPROF_CONF': env['DELTAPROF_CONF']}, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = done.stderr.readline()
        time.sleep(1.2)  # time for a second line, which must not come
        out, err = done.communicate(timeout=60)
        assert done.returncode == 0 and 'EADDRINUSE' in line and err == '', (done.returncode, line, err)
        # With a range the endpoint takes the first free port.
        with Server([victim('serve'), 'idle'], f'listen=127.0.0.1:{port}-{port + 40}', ready=None) as s:
            s.port = int(wait_until(lambda: re.search(r'profiles at .*, port (\d+),', s.log()))[1])
            assert port < s.port <= port + 40 and int(s.ask('/debug/pprof/heap')[1]['X-Deltaprof-Pid']) == s.process.pid


FORKS = """
import os, sys, time
sys.stdin.readline()
if all([os.fork() for _ in range(3)]):
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
else:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        bytearray(100000)
"""


def that_a_failure_to_listen_is_one_line_under_a_preload_alone():
    """The process that fails logs it. Its children fail for the same reason and log nothing."""
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        for where, why in ((f'127.0.0.1:{taken.getsockname()[1]}', 'EADDRINUSE'), ('unix:/nonexistent/socket', 'ENOENT')):
            server = subprocess.Popen([sys.executable, '-c', FORKS], env=environment(f'listen={where},heap_rate=1k', new_directory()),
                                      stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = select.select([server.stderr], [], [], 60)[0] and server.stderr.readline()
            err = server.communicate('go\n', timeout=60)[1]
            assert said and f'[{server.pid}]' in said and why in said and 'profiles are not served' in said, said
            assert err == '', err


if __name__ == '__main__':
    main(globals())
