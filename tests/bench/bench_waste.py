# SPDX-License-Identifier: MIT
"""How much of malloc's memory, as the kernel counts it, `deltaprof waste` explains, for twelve programs under load, with every
allocation recorded. Programs that are not installed are left out. DP_BENCH_SERVERS chooses some of them.

malloc's memory, found without deltaprof: Rss and Swap in smaps of [heap] and of glibc's arenas (anonymous mappings that begin at a
multiple of 64 MB), and the resident pages of blocks with mappings of their own, which are known by their header. jemalloc's: Rss and
Swap of anonymous mappings without a name, less what `deltaprof rss` counts for stacks of threads and for itself."""
import contextlib
import glob
import json
import os
import re
import struct
import subprocess
import urllib.request

from servers import DELTAPROF, started, wait_for

PAGE, ARENA = os.sysconf('SC_PAGESIZE'), 64 << 20
PORTS = range(21000, 21100)
SERVERS = 'redis memcached nginx postgres mariadb sqlite gunicorn node rust lua cc1 fragmented'


def smaps(pid):
    """(start, end, permissions, name, resident and swapped bytes) of each mapping."""
    found = []
    with open(f'/proc/{pid}/smaps') as f:
        for line in f:
            if m := re.match(r'([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+) *(.*)$', line):
                found.append([int(m[1], 16), int(m[2], 16), m[3], m[5], 0])
            elif line.startswith(('Rss:', 'Swap:')):
                found[-1][4] += int(line.split()[1]) * 1024
    return found


def own_blocks(pid, start, end):
    """Resident and swapped bytes of blocks that have a mapping of their own, among joined mappings."""
    n_bytes = 0
    with open(f'/proc/{pid}/mem', 'rb', 0) as mem, open(f'/proc/{pid}/pagemap', 'rb', 0) as pagemap:
        at = start
        while at < end:
            try:
                before, size = struct.unpack('<QQ', os.pread(mem.fileno(), 16, at))
            except (OSError, struct.error):
                return n_bytes
            size, flags = size & ~7, size & 7
            if before == 0 and flags == 2 and size % PAGE == 0 and PAGE < size <= end - at:
                words = os.pread(pagemap.fileno(), size // PAGE * 8, at // PAGE * 8)
                n_bytes += PAGE * sum(word >> 62 != 0 for (word,) in struct.iter_unpack('<Q', words))
                at += size
            else:
                at += PAGE
    return n_bytes


def memory_of_malloc(pid):
    """Of heaps, and of blocks with mappings of their own."""
    heaps = blocks = 0
    for start, end, permissions, name, n_bytes in smaps(pid):
        if name == '[heap]' or (not name and start % ARENA == 0 and permissions == 'rw-p' and is_arena(pid, start)):
            heaps += n_bytes
        elif not name and permissions == 'rw-p':
            blocks += own_blocks(pid, start, end)
    return heaps, blocks


def is_arena(pid, start):
    """A heap of an arena begins with the arena's address, the heap before, its size and how much of it is writable."""
    with open(f'/proc/{pid}/mem', 'rb', 0) as mem:
        arena, before, size, writable = struct.unpack('<QQQQ', os.pread(mem.fileno(), 32, start))
    return 32 <= arena % ARENA < 128 and before % ARENA == 0 and size % PAGE == 0 and PAGE <= size <= writable <= ARENA


def memory_of_jemalloc(pid):
    done = subprocess.run([DELTAPROF, 'rss', '--json', str(pid)], stdout=subprocess.PIPE, text=True, check=True)
    parts = {part['name']: part['bytes'] for part in json.loads(done.stdout)['parts']}
    main_stack = sum(n_bytes for _, _, _, name, n_bytes in smaps(pid) if name == '[stack]')
    unnamed = sum(n_bytes for _, _, permissions, name, n_bytes in smaps(pid) if not name and permissions == 'rw-p')
    return unnamed - parts.get('the profiler', 0) - max(0, parts.get('stacks of threads', 0) - main_stack)


def port_of(pid):
    """Programs that write their title over their environment hide what `deltaprof waste PID` needs to find the endpoint."""
    sockets = set()
    for fd in glob.glob(f'/proc/{pid}/task/*/fd/*'):  # threads of the profiler have descriptors of their own
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(fd))
    with open('/proc/net/tcp') as f:
        for words in map(str.split, list(f)[1:]):
            port = int(words[1].split(':')[1], 16)
            if words[3] == '0A' and f'socket:[{words[9]}]' in sockets and port in PORTS:
                return port
    return None


def show(name, pid, out):
    wait_for(lambda: port_of(pid), 'the endpoint of ' + name)
    profile = os.path.join(out, 'asked.pb.gz')
    with urllib.request.urlopen(f'http://127.0.0.1:{port_of(pid)}/debug/pprof/heap?types=waste', timeout=60) as answer, open(profile, 'wb') as f:
        f.write(answer.read())
    heaps, blocks = memory_of_malloc(pid)
    done = subprocess.run([DELTAPROF, 'waste', '--json', '-n', '0', profile], stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    malloc = answer['malloc']
    used = answer['resident_bytes'] + answer['swapped_bytes']
    free = malloc['trim_bytes'] + malloc['pinned_bytes'] + malloc['top_bytes'] + malloc['cached_bytes']
    told, truth = used + malloc['overhead_bytes'] + free + malloc['decay_bytes'], heaps + blocks
    if malloc['jemalloc']:
        truth = memory_of_jemalloc(pid)
        print(f"{name} jemalloc's memory: {truth / 2**20:.2f} MB; told {100 * told / truth:.1f} %: in use {used / 2**20:.2f}, rounding "
              f"{malloc['overhead_bytes'] / 2**20:.2f}, in slabs and caches {free / 2**20:.2f}, for decay {malloc['decay_bytes'] / 2**20:.2f} MB", flush=True)
    elif not malloc['heap_bytes'] or malloc['unknown_bytes'] * 2 > malloc['heap_bytes']:
        print(f'{name} has another malloc: {used / 2**20:.1f} MB in use are resident')
    else:
        print(f"{name} malloc's memory: {truth / 2**20:.2f} MB; told {100 * told / truth:.1f} %: in use {used / 2**20:.2f}, "
              f"headers and rounding {malloc['overhead_bytes'] / 2**20:.2f}, free {free / 2**20:.2f} MB; "
              f"heaps {heaps / 2**20:.2f}, other blocks {blocks / 2**20:.2f}, not followed {malloc['unknown_bytes'] / 2**20:.2f} MB", flush=True)


for name in os.environ.get('DP_BENCH_SERVERS', SERVERS).split():
    with started(name, 'heap_rate=1,memory=1G,interval=1h,symbolize=none,log=none,python=off,listen=127.0.0.1:21000-21099') as (pid, out):
        try:
            if pid:
                show(name, pid, out)
        except (AssertionError, OSError, subprocess.CalledProcessError) as failure:
            print(name, 'failed:', failure, flush=True)
