# SPDX-License-Identifier: MIT
"""The static probes otel_memory:alloc and otel_memory:free: their notes, and their hits as other profilers see them."""
import collections
import os
import platform
import struct
import subprocess

from harness import BUILD, HOOKS, environment, main, new_directory, profiles, Run, skip, victim

LIBRARY = os.path.join(BUILD, 'src/libdeltaprof.so.0')


def read_sections(data):
    """{name: (address, offset, size)}"""
    at, size, n, names = *struct.unpack_from('<Q', data, 0x28), *struct.unpack_from('<3H', data, 0x3A)
    headers = [struct.unpack_from('<IIQQQQ', data, at + i * size) for i in range(n)]
    texts = headers[names][4]
    return {data[texts + h[0]:data.index(b'\0', texts + h[0])].decode(): h[3:6] for h in headers}


def file_offset(data, address):
    at, size, n = struct.unpack_from('<Q', data, 0x20)[0], *struct.unpack_from('<HH', data, 0x36)
    for i in range(n):
        kind, _, offset, start, _, n_bytes = struct.unpack_from('<IIQQQQ', data, at + i * size)
        if kind == 1 and start <= address < start + n_bytes:
            return offset + address - start
    raise AssertionError(hex(address))


def read_notes(path=LIBRARY):
    """{probe: (offset, offset of its count, arguments)}: an independent reader of .note.stapsdt."""
    data = open(path, 'rb').read()
    sections = read_sections(data)
    _, at, size = sections['.note.stapsdt']
    end, found = at + size, {}
    while at < end:
        n_name, n_bytes, kind = struct.unpack_from('<III', data, at)
        text = at + 12 + (n_name + 3) // 4 * 4
        assert (data[at + 12:at + 12 + n_name], kind) == (b'stapsdt\0', 3)
        probe, base, count = struct.unpack_from('<QQQ', data, text)
        provider, name, arguments = (x.decode() for x in data[text + 24:text + n_bytes].split(b'\0')[:3])
        moved = sections['.stapsdt.base'][0] - base
        assert provider == 'otel_memory' and moved == 0, (provider, moved)
        found[name] = file_offset(data, probe), file_offset(data, count), arguments
        at = text + (n_bytes + 3) // 4 * 4
    return found


def trace(how, conf, *arguments):
    notes = read_notes()
    places = [str(x) for probe in ('alloc', 'free') for x in notes[probe][:2]]
    out = new_directory()
    env = environment(conf, out)
    env['TRACED_PRELOAD'] = env.pop('LD_PRELOAD')
    command = [os.path.join(HOOKS, 'tracer'), how, LIBRARY, *places, victim('probes'), *map(str, arguments)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=180)
    if done.returncode == 77:
        skip('no uprobes:', done.stderr)
    assert done.returncode == 0, done.stderr
    lines = collections.defaultdict(list)
    for line in done.stdout.splitlines():
        name, *numbers = line.split()
        lines[name].append(tuple(map(int, numbers)))
    hits, truth = {name: lines[name] for name in ('alloc', 'free')}, {name: lines[name][0] for name in ('allocated', 'kept')}
    return hits, truth, Run(done.stdout, done.stderr, 0, out)


def check_exact(hits, truth):
    objects, n_bytes = truth['allocated']
    assert all(weighted == size for _, size, weighted in hits['alloc'])
    assert n_bytes <= sum(x[2] for x in hits['alloc']) <= 1.01 * n_bytes
    # A block is in use as often as it was allocated and not freed: the rest of a balance by address.
    balance = collections.Counter(x[0] for x in hits['alloc'])
    balance.subtract(x[0] for x in hits['free'])
    assert set(balance.values()) <= {0, 1}, balance.most_common(5)
    kept = sum(balance.values())
    assert truth['kept'][0] <= kept <= truth['kept'][0] + 20, (kept, truth)


def that_the_notes_name_both_probes_and_their_registers():
    registers = ['%rdi', '%rsi', '%rdx'] if platform.machine() == 'x86_64' else ['x0', 'x1', 'x2']
    notes = read_notes()
    assert {k: v[2] for k, v in notes.items()} == {'alloc': ' '.join('8@' + r for r in registers), 'free': '8@' + registers[0]}, notes
    data = open(LIBRARY, 'rb').read()
    assert all(data[count:count + 2] == b'\0\0' for _, count, _ in notes.values()), 'no tracer at start'


def that_the_kernel_sees_each_sample_with_its_weight():
    hits, truth, r = trace('uprobe', 'heap_rate=1,interval=1h', 3000, 1, 4000)
    check_exact(hits, truth)
    assert sum(x[2] for x in hits['alloc']) == sum(p.total('alloc_space') for p in profiles(r))
    assert sum(x[2] for x in hits['alloc']) - truth['allocated'][1] < 100000


def that_the_weights_of_samples_sum_to_what_was_allocated():
    """The variance of the sum is that of heap samples: about rate times bytes, where blocks are small."""
    hits, truth, r = trace('uprobe', 'heap_rate=4k,interval=1h', 60000, 1, 1000)
    n_bytes, found = truth['allocated'][1], sum(x[2] for x in hits['alloc'])
    assert abs(found - n_bytes) <= 6 * (n_bytes * 4096)**0.5 + 100000, (found, n_bytes)
    assert len(hits['alloc']) < truth['allocated'][0] / 3
    assert all(size <= weighted and weighted % max(size, 1) == 0 for _, size, weighted in hits['alloc'])


def that_a_debugger_sees_each_sample_with_its_weight():
    hits, truth, r = trace('breakpoint', 'heap_rate=1,interval=1h', 1000, 1, 4000)
    check_exact(hits, truth)
    assert len(hits['alloc']) == truth['allocated'][0], 'nothing else between the two stops'


if __name__ == '__main__':
    main(globals())
