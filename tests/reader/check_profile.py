# SPDX-License-Identifier: MIT
"""Checks that profiles keep every rule of deltaprof. Shares no code with deltaprof.

    check(path, delta=True)      -> the loaded Profile; raises Broken, which lists the broken rules (at most 20)
    check_files(paths)           -> a list of Profiles, each checked; `go tool pprof -raw` must find the same sums
    check_profile.py [--cumulative] FILE...
"""
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
from collections import Counter

import reader

HEAP = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]
LIVES = [('freed_objects', 'count'), ('temporary_objects', 'count'), ('lifetime', 'microseconds'), ('temporary_space', 'bytes'), ('moved_objects', 'count'),
         ('moved_space', 'bytes'), ('outgrown_objects', 'count'), ('outgrown_space', 'bytes')]
WASTE = [(of + '_space', 'bytes') for of in ('resident', 'swapped', 'zero', 'pinned')]
LOCK, CPU = [('contentions', 'count'), ('delay', 'nanoseconds')], [('samples', 'count'), ('cpu', 'nanoseconds')]
WALL = [('samples', 'count'), ('wall', 'nanoseconds')]
EVENTS = HEAP[:2] + LOCK + [('mutex_' + type, unit) for type, unit in LOCK] + CPU + [('wall_samples', 'count'), ('wall', 'nanoseconds')]
SINGULAR = {7: 'drop_frames', 8: 'keep_frames', 9: 'time_nanos', 10: 'duration_nanos', 11: 'period_type', 12: 'period',
            14: 'default_sample_type'}
PAGE = os.sysconf('SC_PAGESIZE')


class Broken(AssertionError):
    """A profile breaks rules: one line of the message for each case."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Yields (number, wire type) of each top-level field."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            _, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            at += size
        elif key & 7 in (1, 5):
            at += 8 if key & 7 == 1 else 4
        else:
            raise Broken(f'wire type {key & 7} of field {key >> 3}')
        yield key >> 3, key & 7
    if at != len(data):
        raise Broken('the last field runs over the end')


class Elf:
    """An ELF file, to compare mappings with: its executable segments, its build-id, whether it is a program."""
    known = {}

    def __init__(self, path):
        with open(path, 'rb') as f:
            self.data = f.read()
        d = self.data
        if d[:4] != b'\x7fELF' or d[4] != 2:
            raise ValueError
        phoff, = struct.unpack_from('<Q', d, 32)
        phentsize, phnum = struct.unpack_from('<HH', d, 54)
        self.machine, = struct.unpack_from('<H', d, 18)
        self.segments, self.build_id = [], ''
        self.program = struct.unpack_from('<H', d, 16) == (2,)  # ET_EXEC; other programs are recognized below
        for i in range(phnum):
            kind, flags, offset, vaddr, _, filesz, memsz, _ = struct.unpack_from('<IIQQQQQQ', d, phoff + i * phentsize)
            if kind == 1 and flags & 1:
                self.segments.append((offset, vaddr, filesz, memsz))
            elif kind == 3:
                self.program = True
            elif kind == 2:  # DT_FLAGS_1 with DF_1_PIE: linked with -static-pie
                self.program |= any(tag == 0x6ffffffb and value & 0x08000000 for tag, value in
                                    struct.iter_unpack('<QQ', d[offset:offset + filesz]))
            elif kind == 4:
                self.notes(offset, offset + filesz)

    def notes(self, at, end):
        while at + 12 <= end:
            namesz, descsz, kind = struct.unpack_from('<III', self.data, at)
            name = self.data[at + 12:at + 12 + namesz]
            at += 12 + (namesz + 3 & ~3)
            if kind == 3 and name == b'GNU\0':
                self.build_id = self.data[at:at + descsz].hex()
            at += descsz + 3 & ~3

    @classmethod
    def of(cls, path):
        if path not in cls.known:
            try:
                cls.known[path] = cls(path)
            except (OSError, ValueError, struct.error):
                cls.known[path] = None
        return cls.known[path]

    def is_call(self, offset):
        """Whether a call or syscall instruction has its last byte at offset. Always True if the file is not for x86_64."""
        if self.machine != 62 or offset + 1 > len(self.data):
            return self.machine != 62
        end, d = offset + 1, self.data
        if d[end - 5:end - 4] == b'\xe8' or d[end - 2:end] == b'\x0f\x05':
            return True
        for size in range(2, 9):  # an indirect call: ff /2, as long as its ModRM byte says; a prefix is ignored
            at = end - size
            if at < 0 or d[at] != 0xff or d[at + 1] >> 3 & 7 != 2:
                continue
            mod, rm = d[at + 1] >> 6, d[at + 1] & 7
            length = 2 + (mod != 3 and rm == 4)
            base5 = mod == 0 and (rm == 5 or rm == 4 and d[at + 2] & 7 == 5)
            length += {0: 4 if base5 else 0, 1: 1, 2: 4, 3: 0}[mod]
            if length == size:
                return True
        return False

    def called(self, offset):
        """The target, as an offset in the file, of the direct call whose last byte is at offset; None: no direct call."""
        d = self.data[offset - 4:offset + 1]
        return offset + 1 + int.from_bytes(d[1:], 'little', signed=True) if d[:1] == b'\xe8' else None

    def is_trampoline(self, offset):
        """Whether the next instructions call rt_sigreturn: libc's __restore_rt, which has no name in a stripped libc."""
        return self.data[offset + 1:offset + 10] == b'\x48\xc7\xc0\x0f\0\0\0\x0f\x05'


class Check:
    def __init__(self, profile, raw, delta, program, elf_addresses):
        self.p, self.m, self.s = profile, profile.message, profile.message.string_table
        self.delta, self.program, self.elf_addresses = delta, program, elf_addresses
        self.found = []
        self.wire(raw)
        self.strings()
        self.header()
        self.dense()
        if not self.found:  # the other checks look entries up by id
            self.mappings()
            self.locations()
            self.samples()
            self.unused()

    def want(self, true, *words):
        if not true:
            self.found.append(' '.join(str(w) for w in words))

    def wire(self, raw):
        seen = Counter(number for number, _ in fields(raw))
        for number, times in seen.items():
            self.want(1 <= number <= 14, 'field', number, 'is none that deltaprof writes')
            self.want(number not in SINGULAR or times == 1, SINGULAR.get(number), 'is written', times, 'times')

    def strings(self):
        self.want(len(self.s) and self.s[0] == '', 'string_table[0] is not ""')
        twice = [text for text, n in Counter(self.s).items() if n > 1]
        self.want(not twice, 'strings written twice:', twice[:3])

    def header(self):
        p = self.p
        self.want(p.time_ns > 0, 'time_nanos is missing')
        self.want(self.delta is None or (p.duration_ns > 0) == self.delta,
                  'duration_nanos', p.duration_ns, 'of a', 'delta' if self.delta else 'cumulative profile')
        heap, events, cpu, wall = (p.period_type == t for t in (('space', 'bytes'), ('events', 'count'), ('cpu', 'nanoseconds'), ('wall', 'nanoseconds')))
        allowed = [HEAP, HEAP[:2], HEAP[2:], HEAP + LIVES, HEAP + WASTE, HEAP + LIVES + WASTE] if heap else [EVENTS] if events else [CPU] if cpu else [WALL] if wall else [LOCK]
        self.want(p.types in allowed, 'sample types', p.types)
        self.want(heap or events or cpu or wall or p.period_type == ('contentions', 'count'), 'period_type', p.period_type)
        self.want(p.period >= 1 if heap or cpu or wall else p.period == 1, 'period', p.period)
        self.want(p.kind is None or (heap, events, cpu, wall) == tuple(p.kind == kind for kind in ('heap', 'events', 'cpu', 'wall')), 'a', p.kind, 'file with', p.period_type)
        default = self.s[self.m.default_sample_type]
        self.want(p.types not in (HEAP + LIVES, HEAP + WASTE, HEAP + LIVES + WASTE) or default, 'no default_sample_type, and the last type is no useful default')
        self.want(default == '' or default in [t for t, _ in p.types], 'default_sample_type', default)
        self.want(all(p.comments), 'an empty comment')
        self.want(not self.m.drop_frames and not self.m.keep_frames, 'drop_frames or keep_frames')

    def dense(self):
        for what in ('mapping', 'location', 'function'):
            ids = [x.id for x in getattr(self.m, what)]
            self.want(ids == list(range(1, len(ids) + 1)), what, 'ids are not 1..n in order')
        n_strings, n_functions = len(self.s), len(self.m.function)
        n_locations, n_mappings = len(self.m.location), len(self.m.mapping)
        for f in self.m.function:
            self.want(0 < f.name < n_strings and 0 <= f.system_name < n_strings and 0 <= f.filename < n_strings,
                      'function', f.id, 'without a name, or with a string that is not there')
        for l in self.m.location:
            self.want(1 <= l.mapping_id <= n_mappings, 'location', l.id, 'without a mapping')
            self.want(all(1 <= line.function_id <= n_functions for line in l.line), 'location', l.id, 'without its function')
        for i, sample in enumerate(self.m.sample):
            self.want(sample.location_id, 'sample', i, 'without a stack')
            self.want(all(1 <= l <= n_locations for l in sample.location_id), 'sample', i, 'without its location')
            self.want(len(sample.value) == len(self.m.sample_type), 'sample', i, 'has', len(sample.value), 'values')
            self.want(all(0 < l.key < n_strings and 0 <= l.str < n_strings and 0 <= l.num_unit < n_strings
                          for l in sample.label), 'sample', i, 'label strings')

    def mappings(self):
        s, lines = self.s, {m.id: [] for m in self.m.mapping}
        for l in self.m.location:
            lines[l.mapping_id].append(l.line)
        functions = {f.id: f for f in self.m.function}
        for m in self.m.mapping:
            name, all_lines = s[m.filename], lines[m.id]
            what = f'mapping {m.id} ({name}):'
            some = [x for x in all_lines if x]
            self.want(name, what, 'no file name')
            self.want(m.memory_limit > m.memory_start, what, 'limit', hex(m.memory_limit), 'start', hex(m.memory_start))
            self.want(re.fullmatch('([0-9a-f]{2})*', s[m.build_id]), what, 'build-id', s[m.build_id])
            self.want(not m.has_functions or len(some) == len(all_lines), what, 'has_functions, but not all have lines')
            self.want(m.has_functions or all(re.search(r'\+0x[0-9a-f]+$', s[functions[l.function_id].name]) for x in some for l in x),
                      what, 'some have names, but not has_functions')
            used = [line for x in some for line in x]
            self.want(not m.has_filenames or all(functions[l.function_id].filename for l in used), what, 'has_filenames')
            self.want(not m.has_line_numbers or all(l.line > 0 for l in used), what, 'has_line_numbers')
            self.want(not (m.has_filenames or m.has_line_numbers or m.has_inline_frames) or m.has_functions,
                      what, 'has more than has_functions')
            if not self.elf_addresses and name[:1] == '/':
                self.segment(what, m, Elf.of(name))
        variants = Counter((m.memory_start, m.memory_limit, m.file_offset, m.filename) for m in self.m.mapping)
        self.want(all(n <= 2 for n in variants.values()), 'a mapping more than twice')
        anon = [m for m in self.m.mapping if s[m.filename] == '[anon]']
        self.want(len(anon) <= 2, 'more than one [anon]')
        if self.m.mapping:
            main = s[self.m.mapping[0].filename]
            elf = Elf.of(main) if main[:1] == '/' else None
            self.want(elf is None or elf.program, 'mapping[0] is', main, ', which is no program')
            self.want(main != '[anon]' and not re.search(r'\.so(\.[0-9]+)*$', main), 'mapping[0] is', main)
            self.want(self.program in (None, os.path.basename(main)), 'mapping[0] is', main, 'of', self.program)
        else:
            self.want(not self.m.sample, 'no mapping[0]')

    def segment(self, what, m, elf):
        self.want(m.memory_start % PAGE == 0 and m.memory_limit % PAGE == 0 and m.file_offset % PAGE == 0,
                  what, 'not page-aligned')
        if elf is None:
            return
        pages = [(o // PAGE * PAGE, -(-(o + size) // PAGE) * PAGE) for o, _, size, _ in elf.segments]
        end = m.file_offset + m.memory_limit - m.memory_start
        self.want(any(a <= m.file_offset and end <= b for a, b in pages), what, 'is no executable segment of the file')
        self.want(self.s[m.build_id] == elf.build_id, what, 'build-id', self.s[m.build_id], 'is', elf.build_id, 'in the file')

    def locations(self):
        seen, mappings = set(), {m.id: m for m in self.m.mapping}
        for l in self.m.location:
            m = mappings[l.mapping_id]
            inside = m.memory_start <= l.address < m.memory_limit
            self.want(inside or l.address == 0 and l.line or self.s[m.filename] == '[anon]',
                      'location', l.id, hex(l.address), 'lies outside of', self.s[m.filename])
            key = l.mapping_id, l.address, tuple((x.function_id, x.line) for x in l.line)
            self.want(key not in seen, 'location', l.id, hex(l.address), 'written twice')
            seen.add(key)
        keys = Counter((f.name, f.system_name, f.filename, f.start_line) for f in self.m.function)
        self.want(all(n == 1 for n in keys.values()), 'a function written twice')
        if not self.elf_addresses:
            self.calls(mappings)

    def calls(self, mappings):
        """Every address must be the last byte of a call. Four exceptions: a signal trampoline; the frame that the signal
        interrupted; a leaf that left by a tail call, or of a CPU sample, recorded at the start of its function."""
        locations = {l.id: l for l in self.m.location}
        names = {f.id: self.s[f.name] for f in self.m.function}
        def trampoline(l):
            m = mappings[l.mapping_id]
            elf = Elf.of(self.s[m.filename]) if self.s[m.filename][:1] == '/' else None
            return (any('restore_rt' in names[x.function_id] for x in l.line) or
                    elf is not None and elf.is_trampoline(l.address - m.memory_start + m.file_offset))

        trampolines = {i for i, l in locations.items() if trampoline(l)}
        stacks = self.stacks()
        exempt = trampolines | {l for stack in stacks for leafward, l in zip(stack, stack[1:]) if leafward in trampolines}
        def offset(l):
            m = mappings[l.mapping_id]
            return l.address - m.memory_start + m.file_offset

        def calls(l, leaf):
            """Whether the leaf is the start of a function that l called. The target of a direct call is compared; for
            other calls (through a table) an address aligned to 16 bytes is taken for the start of a function."""
            elf = Elf.of(self.s[mappings[l.mapping_id].filename]) if self.s[mappings[l.mapping_id].filename][:1] == '/' else None
            same = mappings[leaf.mapping_id].filename == mappings[l.mapping_id].filename
            return elf is not None and (same and elf.called(offset(l)) == offset(leaf) or
                                        elf.is_call(offset(l)) and leaf.address % 16 == 0)

        exempt |= {stack[0] for stack in stacks if len(stack) > 1 and calls(locations[stack[1]], locations[stack[0]])}
        exempt |= {stack[0] for stack in stacks if self.p.period_type in (CPU[1], WALL[1])}
        for l in self.m.location:
            m = mappings[l.mapping_id]
            name = self.s[m.filename]
            elf = Elf.of(name) if name[:1] == '/' and l.address and l.id not in exempt else None
            if elf and elf.build_id == self.s[m.build_id] and m.memory_start <= l.address < m.memory_limit:
                self.want(elf.is_call(l.address - m.memory_start + m.file_offset),
                          'location', l.id, hex(l.address), [names[x.function_id] for x in l.line], name,
                          'is not the last byte of a call')

    def samples(self):
        types = [t for t, _ in self.p.types]
        texts, numbers, seen = set(), set(), set()
        for i, sample in enumerate(self.m.sample):
            values = dict(zip(types, sample.value))
            self.want(all(v >= 0 for v in sample.value), 'sample', i, 'has a negative value:', values)
            self.want(any(sample.value), 'sample', i, 'is all zero')
            for a in ('alloc', 'inuse'):
                self.want(values.get(a + '_objects', 1) > 0 or values.get(a + '_space', 0) == 0,
                          'sample', i, a, 'bytes without objects', values)
            for l in sample.label:
                (texts if l.str else numbers).add(self.s[l.key])
                self.want(not l.str or not l.num and not l.num_unit, 'sample', i, 'a label that is text and number')
                self.want(l.str or l.num_unit or self.s[l.key] in ('end_timestamp_ns', 'thread id'), 'sample', i, 'number', self.s[l.key], 'without a unit')
                self.want(not self.s[l.key].startswith('pprof::'), 'label', self.s[l.key])
            keys = [l.key for l in sample.label]
            self.want(len(keys) == len(set(keys)), 'sample', i, 'has a label twice')
            key = tuple(sample.location_id), tuple(sorted((l.key, l.str, l.num, l.num_unit) for l in sample.label))
            self.want(key not in seen, 'sample', i, 'stands there twice')
            seen.add(key)
        self.want(not texts & numbers, 'labels that are text and number:', texts & numbers)

    def stacks(self):
        """The stacks of the samples, leaf first, as lists of location ids; of a chain, the waiter's and the holder's."""
        names = {f.id: self.s[f.name] for f in self.m.function}
        marks = {names[l.line[0].function_id]: l.id for l in self.m.location if len(l.line) == 1 and names[l.line[0].function_id] in (reader.HELD_BY, reader.HAND_OVER)}
        towers = [list(s.location_id) for s in self.m.sample]
        if self.p.kind != 'chain' and 'Type: chain' not in ' '.join(self.p.comments):
            return towers
        return [end for tower in towers for end in reader.split(tower, marks.get(reader.HELD_BY), marks.get(reader.HAND_OVER)) or [tower]]

    def unused(self):
        m = self.m
        locations = {l for s in m.sample for l in s.location_id}
        functions = {line.function_id for l in m.location for line in l.line}
        mappings = {l.mapping_id for l in m.location} | {1}
        strings = {0, m.default_sample_type, m.period_type.type, m.period_type.unit, *m.comment}
        strings |= {x for t in m.sample_type for x in (t.type, t.unit)}
        strings |= {x for f in m.function for x in (f.name, f.system_name, f.filename)}
        strings |= {x for a in m.mapping for x in (a.filename, a.build_id)}
        strings |= {x for sample in m.sample for l in sample.label for x in (l.key, l.str, l.num_unit)}
        for what, used, n in (('locations', locations, len(m.location)), ('functions', functions, len(m.function)),
                              ('mappings', mappings, max(1, len(m.mapping))), ('strings', strings, len(self.s))):
            self.want(len(used) == n, n - len(used), what, 'that nothing uses')


def check(path, delta=True, program=None, elf_addresses=False):
    """delta: True, False for a cumulative profile, None for either. program: the base name that mapping[0] must have.
    elf_addresses: the profile was written with address=elf."""
    message, raw, name, zipped = reader.read(path)  # UTF-8 is checked here
    profile = reader.Profile(message, name)
    found = Check(profile, raw, delta, program, elf_addresses).found
    if not zipped:
        found.append('not gzip')
    if found:
        raise Broken(f'{name or "(bytes)"}: ' + '\n  '.join(found[:20]))
    return profile


def go_sums(paths):
    """{type: sum} over all samples of all files, as `go tool pprof -raw` reads them. None if go is not installed."""
    if not shutil.which('go'):
        return None
    run = subprocess.run(['go', 'tool', 'pprof', '-symbolize=none', '-raw', *map(os.fspath, paths)], text=True,
                         stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    if run.returncode:
        raise Broken(f'go tool pprof: {run.stderr.strip()}')
    lines = iter(run.stdout.splitlines())
    for line in lines:
        if line == 'Samples:':
            break
    types = [t.split('[')[0] for t in next(lines).split()]  # type/unit, the default one with [dflt]
    sums = dict.fromkeys((t.split('/')[0] for t in types), 0)
    for line in lines:
        if line == 'Locations':
            break
        row = re.match(r'((?:\s*-?\d+)+):(?: \d+)+\s*$', line)
        if row:
            for t, value in zip(sums, row[1].split()):
                sums[t] += int(value)
    return sums


def check_files(paths, **options):
    """Checks profiles of one kind and returns them. `go tool pprof` must read the same sums."""
    profiles = [check(p, **options) for p in paths]
    if profiles:
        ours = Counter()
        for p in profiles:
            for t, _ in p.types:
                ours[t] += p.total(t)
        theirs = go_sums(paths)
        if theirs is not None and theirs != dict(ours):
            raise Broken(f'go tool pprof reads {theirs}, this reader {dict(ours)}')
    return profiles


if __name__ == '__main__':
    delta = '--cumulative' not in sys.argv[1:]
    try:
        paths = sorted((a for a in sys.argv[1:] if a != '--cumulative'), key=lambda a: a.split('.')[-3:])
        for _, group in itertools.groupby(paths, lambda a: a.split('.')[-3:]):
            check_files(list(group), delta=delta)
    except Broken as broken:
        sys.exit(str(broken))
