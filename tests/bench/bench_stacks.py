# SPDX-License-Identifier: MIT
"""What two ways to complete a stack buy: the share of the stacks of real programs that would lack a part without them.

leaf   the function that ended in a jump to malloc, so it has no frame of its own (src/host/symbols/called.c). Its address
       is where the function begins; any other frame's address lies behind a call. Functions begin where the table of the
       file's unwind data says so.
root   all that called code that LuaJIT compiled, which has no unwind data (src/host/unwind/walk.c).
"""
import bisect
import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from alternate import BUILD
from reader import files, load

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
LUAJIT = os.path.join(BUILD, 'tests/hooks/victim_luajit')
PROGRAMS = {
    'python3': ['/usr/bin/python3', '-c', 'import json, email.parser; [json.dumps(list(range(50))) for _ in range(2000)]'],
    'clang': ['clang', '-O1', '-c', '-x', 'c', os.path.join(os.path.dirname(__file__), 'pair.c'), '-o', '/dev/null'],
    'gcc': ['gcc', '-O1', '-c', '-x', 'c', os.path.join(os.path.dirname(__file__), 'pair.c'), '-o', '/dev/null'],
    'perl': ['perl', '-e', 'my %h; $h{$_} = [1..5] for 1..20000;'],
    'jq': ['jq', '-n', '[range(20000) | {a: .}] | length'],
    'luajit': [LUAJIT, '1', '8000'],
}


@functools.lru_cache(None)
def starts(path):
    """Addresses in the file where functions begin, sorted: the search table of .eh_frame_hdr."""
    if not os.path.isfile(path):
        return []
    with open(path, 'rb') as f:
        data = f.read()
    at, size, n = struct.unpack_from('<Q', data, 32)[0], *struct.unpack_from('<HH', data, 54)
    for i in range(n):
        kind, _, offset, address = struct.unpack_from('<IIQQ', data, at + i * size)
        if kind == 0x6474e550 and data[offset:offset + 4] == b'\x01\x1b\x03\x3b':  # PT_GNU_EH_FRAME, the usual encodings
            rows = struct.unpack_from('<I', data, offset + 8)[0]
            return [address + struct.unpack_from('<i', data, offset + 12 + 8 * k)[0] for k in range(rows)]
    return []


def is_start(frame):
    table = starts(frame.mapping)
    i = bisect.bisect_left(table, frame.address)
    return i < len(table) and table[i] == frame.address


def measure(name, command):
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as out:
        conf = f'heap_rate={1 if name == "luajit" else "1k"},interval=0,address=elf,memory=256M,out={out}'
        subprocess.run([DELTAPROF, 'run', '-o', conf, '--', *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        samples = [s for path in files(out, kind='heap') for s in load(path).samples]
    if name == 'luajit':
        below = sum(any(f.mapping == '[anon]' for f in s.frames) and s.names[-1] != '[truncated]' for s in samples)
        print(f'{name}: {100 * below / len(samples):.1f} % of {len(samples)} stacks go on to the root above compiled Lua', flush=True)
        return
    samples = [s for s in samples if not dict(s.labels).get('heap')]  # blocks of malloc itself
    leaf = sum(is_start(s.frames[0]) for s in samples)
    print(f'{name}: {100 * leaf / len(samples):.1f} % of {len(samples)} stacks have a leaf without a frame', flush=True)


for name, command in PROGRAMS.items():
    if shutil.which(command[0]):
        measure(name, command)
sys.exit(0)
