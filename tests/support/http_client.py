# SPDX-License-Identifier: MIT
"""Runs a program with an HTTP endpoint, and queries it with clients that share no code with deltaprof."""
import ctypes
import http.client
import os
import signal
import socket
import struct
import subprocess
import tempfile

import reader
from harness import environment, free_port, scratch, wait_until


class Server:
    """A program with an endpoint. It is ended at the end of the `with` block."""

    def __init__(self, argv, conf='', port=None, preload=True, extra=None, out=None, ready='/debug/pprof/', behind=(), prepare=None):
        self.port = port or free_port()
        self.stderr = tempfile.TemporaryFile(mode='w+')
        if preload:
            env = environment(f'listen=127.0.0.1:{self.port},log=info,{conf}', out, behind=behind, extra=extra)
        else:
            env = environment(preload=False, extra={'DELTAPROF_CONF': conf, **(extra or {})})
        self.process = subprocess.Popen([str(self.port) if a == 'PORT' else a for a in argv], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.stderr, text=True, preexec_fn=prepare)
        if ready:
            self.wait(ready)

    def wait(self, path):
        return wait_until(lambda: self.get(path))

    def url(self, path):
        return f'http://127.0.0.1:{self.port}{path}'

    def ask(self, path, method='GET', body=None, headers=None, timeout=60):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, dict(r.getheaders()), data

    def get(self, path, **kwargs):
        status, headers, data = self.ask(path, **kwargs)
        assert status == 200, (path, status, data)
        return data

    def profile(self, path, **kwargs):
        return reader.load(self.get('/debug/pprof/' + path, **kwargs))

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure:
            print(self.log(), 'ended:', self.process.poll())
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise


def forbid_pidfd_getfd():
    """For `prepare`: sets a seccomp filter in the child that refuses pidfd_getfd (system call 438), as containers have."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 438), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]  # EPERM, or allowed
    text = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *c) for c in code))
    program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):  # no new privileges; seccomp
        os._exit(126)


def rows(profile):
    """{(stack, labels): values}; samples with the same key are added up."""
    total = {}
    for s in profile.samples:
        key = (tuple(s.frames), s.labels)
        old = total.setdefault(key, dict.fromkeys(s.values, 0))
        for t, v in s.values.items():
            old[t] += v
    return total


def named(profile, type):
    total = {}
    for s in profile.samples:
        for name in s.names:
            if name.startswith('grow_'):
                total[name] = total.get(name, 0) + s.values[type]
                break
    return {k: v for k, v in total.items() if v}


def go_top(url, *options):
    env = dict(os.environ, PPROF_TMPDIR=scratch.name)
    done = subprocess.run(['go', 'tool', 'pprof', '-top', *options, url], env=env, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def part(s, path, most):
    """Reads at most `most` bytes of the reply, resets the connection, and returns these bytes."""
    c = socket.create_connection(('127.0.0.1', s.port))
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    got = b''
    while len(got) < most:
        data = c.recv(min(4096, most - len(got)))
        if not data:
            break
        got += data
        if got.endswith(b'\r\n0\r\n\r\n'):
            break
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')  # close() sends a reset (RST)
    c.close()
    return got


def dechunk(raw):
    """(headers, body) of a chunked reply; body is None if it is incomplete."""
    head, _, rest = raw.partition(b'\r\n\r\n')
    body = b''
    while True:
        size, _, rest = rest.partition(b'\r\n')
        if not size or len(rest) < int(size, 16) + 2:
            return head, None
        if int(size, 16) == 0:
            return head, body
        body += rest[:int(size, 16)]
        rest = rest[int(size, 16) + 2:]


def ask_until_free(s, path):
    """Asks until the reply is not 503: if a client closes early, another thread of the server frees its cursor later."""
    def answer():
        status, headers, data = s.ask(path)
        return status != 503 and (status, headers, data)
    return wait_until(answer)
