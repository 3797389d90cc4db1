# SPDX-License-Identifier: MIT
"""Makes profiles by hand, and has a test case that gives them to the command, which is the test's first argument."""
import gzip
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

from random_profile import HEAP, chunk, number, varint

DELTAPROF = sys.argv.pop(1)
os.environ['NO_COLOR'] = '1'  # tests compare texts


def open_terminal():
    """A terminal: (the side that reads, the side for a program). Skips the test where the system has none."""
    try:
        return pty.openpty()
    except OSError as why:
        raise unittest.SkipTest(f'no terminal: {why}')


def all_of(master):
    """What was written to a terminal whose other side is closed, in all its pieces."""
    text = b''
    try:
        while piece := os.read(master, 65536):
            text += piece
    except OSError:  # the end
        pass
    return text


def profile(rows, kinds=HEAP, time_ns=10**18, duration_ns=0, default=None, program='/usr/bin/server', comment=None):
    """rows: [(frames leaf first, values, {label: text or number})]; a frame is names (innermost first), or an address.

    NAME@FILE is a frame that was named by a language's runtime; NAME!FILE#LINE is one of native code. comment: a text or a list of texts."""
    strings, functions, frames, native, out = {'': 0}, {}, {}, set(), b''

    def with_line(name):
        found = re.fullmatch(r'([^!]+![^#]+)#(\d+)', name)
        native.update([found[1]] if found else [])
        return (found[1], int(found[2])) if found else (name, 0)

    def string(text):
        return strings.setdefault(text, len(strings))

    def position(things, thing):
        return things.setdefault(thing, len(things) + 1)

    for kind in kinds:
        out += chunk(1, number(1, string(kind[0])) + number(2, string(kind[1])))
    for stack, values, *labels in rows:
        ids = b''.join(varint(position(frames, frame if isinstance(frame, (int, tuple)) else (frame,))) for frame in stack)
        some = b''.join(chunk(3, number(1, string(k)) + (number(2, string(v)) if isinstance(v, str) else number(3, v)))
                        for k, v in (labels[0] if labels else {}).items())
        out += chunk(2, chunk(1, ids) + chunk(2, b''.join(map(varint, values))) + some)
    for i, frame in enumerate(frames, 1):
        lines = b'' if isinstance(frame, int) else b''.join(chunk(4, number(1, position(functions, f)) + number(2, line)) for f, line in map(with_line, frame))
        of_runtime = not isinstance(frame, int) and '@' in frame[0]
        out += chunk(4, number(1, i) + number(2, 2 if of_runtime else 1) + number(3, frame if isinstance(frame, int) else 0x400000 + i) + lines)
    for i, function in enumerate(functions, 1):
        name, _, file = function.partition('!' if function in native else '@')
        out += chunk(5, number(1, i) + number(2, string(name)) + (number(4, string(file)) if file else b''))
    out += chunk(3, number(1, 1) + number(2, 0x400000) + number(3, 0x500000) + number(4, 0x1000) + number(5, string(program)))
    if any('@' in f for f in functions):
        out += chunk(3, number(1, 2) + number(2, 0) + number(3, 0x1000) + number(5, string('[anon]')))
    out += number(9, time_ns) + number(10, duration_ns) + (number(14, string(default)) if default else b'')
    out += b''.join(number(13, string(c)) for c in ([comment] if isinstance(comment, str) else comment or []))
    return gzip.compress(out + b''.join(chunk(6, s.encode()) for s in strings))


def chain(n, ns, waiter, holder, **labels):
    """A row of a chain profile: n unlocks, ns, and two stacks, each leaf first; the holder may be ['[hand-over]']. The
    holder's stack is written root first, and so are the lines of its locations."""
    turned = [frame[::-1] if isinstance(frame, tuple) else frame for frame in holder[::-1]]
    return [*(holder if holder == ['[hand-over]'] else [*turned, '[held by]']), *waiter], [n, ns], labels


class Case(unittest.TestCase):
    maxDiff = 3000

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def file(self, name, *arguments, **more):
        path = os.path.join(self.dir.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.write(arguments[0] if isinstance(arguments[0], bytes) else profile(*arguments, **more))
        return path

    def run_it(self, *arguments, status=0, data=b''):
        done = subprocess.run([DELTAPROF, *arguments], input=data, capture_output=True, timeout=60, env=dict(os.environ, TZ='UTC'))
        self.assertEqual(done.returncode, status, done.stderr)
        self.error = done.stderr.decode()
        return done.stdout

    def files_of_two_processes(self):
        def one(values, time_ns):
            return [(['f'], values)], HEAP, time_ns, 10
        self.file('server.7.0001.heap.pb.gz', *one([1, 10, 1, 1000], 300))
        self.file('server.7.0003.heap.pb.gz', *one([3, 30, 3, 3000], 100))  # the clock went back: SEQ counts
        self.file('server.7.0002.heap.pb.gz', *one([2, 20, 2, 2000], 200))
        self.file('server.8.0001.heap.pb.gz', *one([4, 40, 4, 4], 100))
        return [os.path.join(self.dir.name, f) for f in sorted(os.listdir(self.dir.name))]


class ConvertCase(Case):
    def convert(self, path, name, *more, **keys):
        out = os.path.join(self.dir.name, name)
        self.run_it('convert', path, '-o', out, *more, **keys)
        return out

    def bytes_of(self, path):
        with open(path, 'rb') as f:
            return f.read()


class TopCase(Case):
    def top(self, *arguments, data=b''):
        """Rows of the table: [(flat, flat%, sum%, cum, cum%, name)]; the lines before it are in self.head."""
        lines = self.run_it('top', *arguments, data=data).decode().splitlines()
        heading = next(i for i, line in enumerate(lines) if line.split()[:1] == ['flat'])
        self.head = lines[:heading]
        n = next((i for i, line in enumerate(lines[heading + 1:]) if not re.match(r' *\S+ +-?[\d.]+% ', line)), None)  # what stands below
        self.below = [] if n is None else lines[heading + 1 + n:]
        return [tuple(line.split(None, 5)) for line in lines[heading + 1:][:n]]

    def names(self, *arguments):
        return {name: (flat, cum) for flat, _, _, cum, _, name in self.top(*arguments)}
