# SPDX-License-Identifier: MIT
"""The endpoint that `listen` opens in a preloaded program: its answers, access control, and attacks on it."""
import base64
import hashlib
import os
import re
import select
import socket
import subprocess
import time

import reader
from harness import BUILD, environment, free_port, main, need, new_directory, redis_release, victim, wait_until
from http_client import Server, go_top


def that_go_tool_pprof_reads_redis_over_http():
    need('redis-server', 'redis-benchmark', 'go')
    port = free_port()
    with Server(['redis-server', '--port', str(port), '--save', '', '--io-threads', '2'], 'heap_rate=16k,block_rate=1ns') as s:
        subprocess.run(['redis-benchmark', '-p', str(port), '-q', '-n', '20000', '-t', 'set', '-d', '300', '-r', '5000'], stdout=subprocess.DEVNULL, check=True)
        out = go_top(s.url('/debug/pprof/delta_heap'), '-sample_index=alloc_space')
        assert 'sdsnewlen' in out, out
        for kind in ('delta_mutex', 'delta_block', 'mutex', 'block', 'allocs'):
            go_top(s.url('/debug/pprof/' + kind))
        # Once redis is idle, the text and the profile have the same sums. Under load its threads wait for each other;
        # afterwards they wait for ever.
        def waits(kind, form):
            lines = go_top(s.url(f'/debug/pprof/{kind}{form}'), '-symbolize=remote', '-sample_index=contentions').splitlines()
            return [line.split()[0:6:5] for line in lines if line.endswith(('IOThreadMain', 'UsingThreads'))]
        for kind in ('mutex', 'block') if redis_release() < 8 else ():
            wait_until(lambda: (text := waits(kind, '?debug=1')) and text == waits(kind, ''))
        # No names in the profile: pprof asks /symbol for them.
        out = go_top(s.url('/debug/pprof/heap?symbolize=none'), '-symbolize=remote', '-sample_index=alloc_space')
        assert 'sdsnewlen' in out, out
        out = go_top(s.url('/debug/pprof/heap?debug=1'), '-symbolize=remote', '-sample_index=alloc_space')
        assert 'sdsnewlen' in out, out


def that_headers_are_those_of_go():
    with Server([victim('serve'), 'idle']) as s:
        status, headers, data = s.ask('/debug/pprof/delta_heap')
        assert status == 200 and headers['Content-Type'] == 'application/octet-stream'
        assert headers['X-Content-Type-Options'] == 'nosniff' and 'Content-Encoding' not in headers
        assert headers['Content-Disposition'] == 'attachment; filename="delta_heap.pprof.gz"'
        assert int(headers['X-Deltaprof-Pid']) == s.process.pid and int(headers['X-Deltaprof-Seq']) == 1
        for method in ('HEAD', 'GET'):
            status, headers, data = s.ask('/debug/pprof/delta_heap', method)
            assert status == 200 and bool(data) == (method == 'GET'), (method, len(data))
        for path, want in (('goroutine', 404), ('heap?seconds=x', 400), ('heap?seconds=100000', 400),
                           ('heap?seconds=1&debug=1', 400), ('delta_heap?after=99', 409)):
            status, headers, data = s.ask('/debug/pprof/' + path)
            assert status == want and headers['X-Go-Pprof'] == '1' and headers['Content-Type'].startswith('text/plain'), path
        assert s.ask('/debug/pprof/heap', 'POST')[0] == 405
        assert s.get('/debug/pprof/cmdline').split(b'\0')[0] == victim('serve').encode()
        index = s.get('/debug/pprof/').decode()
        assert re.search(r'<p>[\d.]+ (bytes|.B) in use, in \d+ blocks; [\d.]+ (bytes|.B) allocated since start', index), index
        for link in re.findall(r'href="([^"]+)"', index):
            if 'seconds' not in link and not link.startswith('data:'):
                s.get('/debug/pprof/' + link)
        status, headers, page = s.ask('/debug/pprof/view')
        assert status == 200 and headers['Content-Type'] == 'text/html; charset=utf-8' and len(page) <= 200000
        policy = headers['Content-Security-Policy']
        script = re.search(rb'<script>(.*)</script>', page, re.S).group(1)
        assert base64.b64encode(hashlib.sha256(script).digest()).decode() in policy and "default-src 'none'" in policy, policy
        assert s.ask('/debug/pprof/view', 'HEAD')[2] == b''
        assert s.get('/pprof/heap') and s.get('/pprof/cmdline') and s.get('/pprof/symbol')
        status, headers, _ = s.ask('/debug/pprof')
        assert status == 301 and headers['Location'] == 'pprof/'
    with Server([victim('serve'), 'idle'], 'cmdline=off') as s:
        assert b'cmdline' not in s.get('/debug/pprof/') and s.ask('/debug/pprof/cmdline')[0] == 404


def that_allocs_is_heap_with_alloc_space_shown_first():
    with Server([victim('serve'), 'idle'], 'heap_rate=1') as s:
        for path, want in (('allocs', 'alloc_space'), ('allocs?types=alloc', 'alloc_space'), ('allocs?types=inuse', ''), ('heap', '')):
            message = s.profile(path).message
            assert message.string_table[message.default_sample_type] == want, path


def that_a_token_is_asked_for():
    path = os.path.join(new_directory(), 'token')
    with open(path, 'w') as f:
        f.write('secret\n')
    with Server([victim('serve'), 'idle'], f'token={path}', ready=None) as s:
        basic = 'Basic ' + base64.b64encode(b'x:secret').decode()
        status, headers, _ = wait_until(lambda: s.ask('/debug/pprof/heap'))
        assert status == 401 and 'Basic' in headers['WWW-Authenticate']
        for value, want in (('Bearer secret', 200), (basic, 200), ('Bearer secre', 401), ('Bearer', 401)):
            assert s.ask('/debug/pprof/heap', headers={'Authorization': value})[0] == want, value
        go_top(f'http://x:secret@127.0.0.1:{s.port}/debug/pprof/heap')
        with open(path, 'w') as f:  # another token, while the program runs
            f.write('changed\n')
        for value, want in (('Bearer secret', 401), ('Bearer changed', 200)):
            assert s.ask('/debug/pprof/heap', headers={'Authorization': value})[0] == want, value
        os.unlink(path)
        status, headers, _ = s.ask('/debug/pprof/heap', headers={'Authorization': 'Bearer changed'})
        assert status == 503 and headers['Retry-After'] == '1', (status, headers)
    with Server([victim('serve'), 'idle']) as s:
        assert s.ask('/debug/pprof/heap', headers={'Host': 'evil.example'})[0] == 403
        assert s.ask('/debug/pprof/heap', headers={'Host': 'localhost:1'})[0] == 200
    refused = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'run', '-o', 'listen=0.0.0.0:1', 'true'], text=True, capture_output=True)
    assert refused.returncode == 2 and 'token' in refused.stderr and refused.stderr.count('\n') == 1, refused


def that_a_page_of_another_site_moves_no_cursor():
    with Server([victim('serve'), 'idle']) as s:
        seq = int(s.ask('/debug/pprof/delta_heap')[1]['X-Deltaprof-Seq'])
        for headers in ({'Sec-Fetch-Site': 'cross-site'}, {'Sec-Fetch-Site': 'same-site'}, {'Origin': 'http://evil.example'}, {'Origin': 'null'}):
            status, _, data = s.ask('/debug/pprof/delta_heap', headers=headers)
            assert status == 403 and data.count(b'\n') == 1, (headers, status, data)
        for headers in ({'Sec-Fetch-Site': 'none'}, {'Sec-Fetch-Site': 'same-origin'}, {'Origin': f'http://127.0.0.1:{s.port}'}):
            seq += 1
            status, got, _ = s.ask('/debug/pprof/delta_heap', headers=headers)
            assert status == 200 and int(got['X-Deltaprof-Seq']) == seq, (headers, status, got)


def that_a_socket_file_is_private_and_answers():
    path = os.path.join(new_directory(), 'sock')
    env = environment(f'listen=unix:{path}')
    p = subprocess.Popen([victim('serve'), 'idle'], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        wait_until(lambda: os.path.exists(path))
        assert os.stat(path).st_mode & 0o777 == 0o600  # from the first moment
        c = socket.socket(socket.AF_UNIX)
        wait_until(lambda: c.connect(path) is None)
        c.sendall(b'GET /debug/pprof/heap HTTP/1.0\r\nHost: any\r\n\r\n')  # as `curl --unix-socket PATH http://any/`
        data = b''
        while piece := c.recv(65536):
            data += piece
        reader.load(data.partition(b'\r\n\r\n')[2])
    finally:
        p.stdin.close()
        p.wait(60)
    assert not os.path.exists(path)


def that_attacks_on_the_socket_do_no_harm():
    with Server([victim('serve'), 'idle']) as s:
        def raw(data, slowly=False, wait=True, bad=False):
            c = socket.create_connection(('127.0.0.1', s.port), timeout=60)
            try:
                if slowly:
                    for i in range(len(data)):
                        c.sendall(data[i:i + 1])
                else:
                    c.sendall(data)
                if bad:
                    c.shutdown(socket.SHUT_WR)
                return c.recv(1 << 16) if wait else c
            except OSError:
                return b''
        ok = b'GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n'
        assert raw(ok, slowly=True).startswith(b'HTTP/1.1 200')
        c = raw(ok * 20, wait=False)
        got = b''
        while got.count(b'HTTP/1.1 200') < 20:
            data = c.recv(1 << 16)
            assert data, got.count(b'HTTP/1.1 200')
            got += data
        c.close()
        for bad in (b'\0' * 1000, b'GET \0 HTTP/1.1\r\n\r\n', b'GET /debug/pprof/he\0ap HTTP/1.1\r\nHost: localhost\r\n\r\n',
                    b'GET /' + b'a' * 100000 + b' HTTP/1.1\r\n\r\n', b'X' * 300000,
                    b'GET / HTTP/1.1\r\n' + b''.join(b'H%d: x\r\n' % i for i in range(20000)) + b'\r\n',
                    b'POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n',
                    b'POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n' + b'0x1+' * 600000,
                    b'POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n',
                    b'GET /debug/pprof/heap?' + b'&'.join(b'a=%d' % i for i in range(3000)) + b' HTTP/1.1\r\nHost: localhost\r\n\r\n'):
            raw(bad, bad=True)
        # Twice, more connections than the endpoint accepts and the kernel queues.
        for _ in range(2):
            crowd = []
            for _ in range(400):
                c = socket.socket()
                c.setblocking(False)
                c.connect_ex(('127.0.0.1', s.port))
                crowd.append(c)
            time.sleep(0.5)
            assert s.process.poll() is None
            for c in crowd:
                c.close()
            s.wait('/debug/pprof/heap')
        before = memory_of(s.process.pid)
        for _ in range(300):
            s.get('/debug/pprof/heap')
        assert memory_of(s.process.pid) < before + 8000, (before, memory_of(s.process.pid))


def memory_of(pid):
    with open(f'/proc/{pid}/smaps_rollup') as f:
        for line in f:
            if line.startswith('Rss:'):
                return int(line.split()[1])


def ask_and_wait(s, path):
    c = socket.create_connection(('127.0.0.1', s.port), timeout=60)
    c.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return c


def that_a_client_that_disconnects_makes_room():
    with Server([victim('serve'), 'idle']) as s:
        for _ in range(2):  # as many requests as the endpoint takes at once, each for an hour
            crowd = [ask_and_wait(s, '/debug/pprof/heap?seconds=3600') for _ in range(64)]
            for c in crowd:
                c.close()
            s.get('/debug/pprof/heap')


def that_slow_uploads_take_no_memory():
    with Server([victim('serve'), 'idle']) as s:
        before, crowd, refused = memory_of(s.process.pid), [], 0
        head = b'POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n'
        for _ in range(30):
            c = socket.create_connection(('127.0.0.1', s.port), timeout=60)
            c.sendall(head)
            crowd.append(c)
        while refused < 26:  # all but four are refused before they send their body
            for c in select.select(crowd, [], [], 60)[0]:
                assert c.recv(65536).startswith(b'HTTP/1.1 503'), refused
                crowd.remove(c)
                refused += 1
        for c in crowd:
            c.sendall(b'0x1+' * 200000)
        s.get('/debug/pprof/heap')
        assert memory_of(s.process.pid) < before + 16000, (before, memory_of(s.process.pid))
        for c in crowd:
            c.close()
        wait_until(lambda: s.ask('/debug/pprof/symbol', 'POST', '0x1+0x2')[0] == 200)  # there is room again
        with socket.create_connection(('127.0.0.1', s.port), timeout=60) as c:
            c.sendall(head.replace(b'1048576', b'1048577'))
            assert c.recv(65536).startswith(b'HTTP/1.1 413')


def that_a_debuginfod_is_never_asked_but_its_cache_is():
    need('objcopy')
    directory, out = new_directory(), new_directory()
    program, debug = os.path.join(directory, 'stripped'), os.path.join(directory, 'debug')
    subprocess.run(['objcopy', '--only-keep-debug', victim('serve'), debug], check=True)
    subprocess.run(['objcopy', '--strip-all', victim('serve'), program], check=True)
    notes = subprocess.run(['readelf', '-n', program], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r'Build ID: (\w+)', notes)[1]
    with socket.create_server(('127.0.0.1', 0)) as stalled:  # takes connections and says nothing
        extra = {'DEBUGINFOD_URLS': f'http://127.0.0.1:{stalled.getsockname()[1]}', 'DEBUGINFOD_CACHE_PATH': os.path.join(directory, 'cache'),
                 'DEBUGINFOD_TIMEOUT': '600'}
        conf = 'heap_rate=1,symbolize=lines,interval=100ms'
        with Server([program, 'idle'], conf, extra=extra, out=out) as s:
            wait_until(lambda: len(reader.files(out, 'heap')) >= 2)
            assert 'little' not in s.profile('heap').message.string_table
            assert not select.select([stalled], [], [], 0)[0]
        os.makedirs(os.path.join(directory, 'cache', build_id))
        os.rename(debug, os.path.join(directory, 'cache', build_id, 'debuginfo'))
        with Server([program, 'idle'], conf, extra=extra, out=out) as s:
            assert 'little' in s.profile('heap').message.string_table


def that_text_has_the_place_of_a_frame_without_a_name():
    need('objcopy')
    program = os.path.join(new_directory(), 'stripped')
    subprocess.run(['objcopy', '--strip-all', victim('serve'), program], check=True)
    with Server([program, 'idle'], 'heap_rate=1') as s:
        profile = s.profile('heap').message
        names = {f.id: profile.string_table[f.name] for f in profile.function}
        places = {'0x%x\t%s' % (l.address + 1, names[l.line[0].function_id]) for l in profile.location if l.line}
        assert any('\tstripped+0x' in place for place in places), places
        text = s.get('/debug/pprof/heap?debug=1').decode()
        assert places <= {line[2:] for line in text.splitlines() if line.startswith('#\t0x')}, (places, text)


def that_deltaprof_set_applies_to_every_reply():
    with Server([victim('serve'), 'sets'], 'heap_rate=1,symbolize=functions') as s:
        def named(path):
            return 'little' in s.profile(path).message.string_table

        def set_to(value):
            s.process.stdin.write(f'symbolize={value}\n')
            s.process.stdin.flush()
            assert s.process.stdout.readline() == '0\n'
        assert named('heap') and named('delta_heap')
        set_to('none')
        assert not named('heap') and not named('delta_heap') and not named('delta_heap?cursor=new')
        assert named('heap?symbolize=functions') and not named('heap')
        set_to('functions')
        assert named('heap') and named('delta_heap?cursor=newer') and not named('heap?symbolize=none')

if __name__ == '__main__':
    main(globals())
