# SPDX-License-Identifier: MIT
"""Makes random profiles, writes them in every way that the format allows, and reads profiles back into their meaning.

A Model is rows {(stack, labels): [values]} over random mappings, functions and frames. write() puts it into bytes: with
another order of fields, messages, strings and labels each time, packed or not, ids of any size, rows in several pieces.
meaning() reads any profile with protoc's reader into {row: values}, by names and places and not by ids or addresses. The
writer here shares no code with deltaprof or protobuf.
"""
import gzip
import random

import profile_pb2

FLOWS = {'alloc_objects', 'alloc_space', 'contentions', 'delay'}
HEAP = [('alloc_objects', 'count'), ('alloc_space', 'bytes'), ('inuse_objects', 'count'), ('inuse_space', 'bytes')]
MUTEX = [('contentions', 'count'), ('delay', 'nanoseconds')]


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n) if n else b''


def chunk(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


class Model:
    def __init__(self, rng, types=None, n_rows=None):
        self.types = types or rng.choice([HEAP, MUTEX])
        self.mappings = []
        for i in range(rng.randrange(5)):
            size = (rng.randrange(1, 16) * 16 + i) << 12  # the index in it: no two without a name are of one size
            self.mappings.append({
                'start': 0x400000 + (i << 36), 'size': size, 'offset': rng.choice([0, 0x1000, 0x25000]),
                'file': rng.choice(['', '/lib/libc.so.6', '/usr/bin/server', '[vdso]', '[anon]', '/tmp/\xe9\u65e5']),
                'build_id': rng.choice(['', 'ab%02x' % i, 'cdef'])})
        self.functions = [('f%d' % rng.randrange(6), rng.choice(['', '_Zf']), rng.choice(['', 'a.c', 'b.c']), rng.randrange(3))
                          for _ in range(rng.randrange(1, 12))]
        self.frames = []
        for _ in range(rng.randrange(1, 30)):
            mapping = rng.choice(self.mappings) if self.mappings and rng.random() < .8 else None
            place = rng.choice([0, 0, rng.randrange(1, 1 << 40)]) if not mapping else rng.randrange(mapping['size'])
            lines = tuple((rng.choice(self.functions), rng.randrange(100)) for _ in range(rng.choice([0, 1, 1, 2, 3])))
            self.frames.append((mapping, place, lines if mapping or place else lines or ((self.functions[0], 1),)))
        self.rows = {}
        for _ in range(rng.randrange(30) if n_rows is None else n_rows):
            stack = tuple(rng.randrange(len(self.frames)) for _ in range(rng.choice([0, 1, 3, 7, 40, 200])))
            labels = tuple((rng.choice(['bytes', 'lock', 'k']), rng.choice(['', 'v', 'w']), rng.choice([0, 1, 16, -5]),
                            rng.choice(['', 'bytes'])) for _ in range(rng.choice([0, 0, 1, 2, 3])))
            labels = tuple((k, s, 0 if s else n or 7, '' if s else u) for k, s, n, u in labels)
            self.rows[stack, labels] = [rng.choice([0, 1, 300, 1 << 20, 1 << 40]) for _ in self.types]

    def later(self, rng):
        """The same process a little later: flows have grown, states have changed, some rows are new."""
        other = Model.__new__(Model)
        other.__dict__ = dict(self.__dict__, rows={})
        for row, values in self.rows.items():
            grew = rng.random() < .5
            other.rows[row] = [v + (rng.randrange(1 << 20) if grew else 0) if t in FLOWS else rng.choice([0, v, 5])
                               for (t, _), v in zip(self.types, values)]
        for _ in range(rng.randrange(5)):
            stack = tuple(rng.randrange(len(self.frames)) for _ in range(rng.randrange(9)))
            other.rows.setdefault((stack, ()), [rng.randrange(1000) for _ in self.types])
        return other

    def write(self, rng, time_ns=0, slide=False, plain=False, unknown=False):
        """plain: only forms that google/pprof reads (dense ids, for example). slide: libraries have other addresses.
        unknown: with fields that this version does not know."""
        strings = ['']
        for i in range(rng.randrange(4)):
            strings.append('never used %d' % i)

        def string(text):
            if text not in strings:
                strings.insert(rng.randrange(1, len(strings) + 1), text)
            return text

        texts = [t for pair in self.types for t in pair] + [t for f in self.functions for t in f[:3]]
        texts += [m[k] for m in self.mappings for k in ('file', 'build_id')]
        texts += [t for _, labels in self.rows for l in labels for t in (l[0], l[1], l[3])] + ['space', 'bytes']
        for t in texts:
            string(t)

        def index(text):
            return strings.index(text)

        def ids(n):
            kind = rng.choice(['dense', 'shuffled', 'gaps'] + ([] if plain else ['huge']))
            if kind == 'dense':
                return list(range(1, n + 1))
            if kind == 'shuffled':
                return rng.sample(range(1, n + 1), n)
            if kind == 'gaps':
                return rng.sample(range(1, 3 * n + 2), n)
            return rng.sample(range(1 << 40, 1 << 63, 1 << 50), n)

        def shuffled(fields):
            fields = [f for f in fields if f]
            if unknown and rng.random() < .5:
                fields.append(number(100, 77))
            rng.shuffle(fields)
            return b''.join(fields)

        def repeated(field, numbers):
            """Writes numbers packed, one by one, or mixed, in their order."""
            out, at = b'', 0
            while at < len(numbers):
                n = rng.randrange(1, len(numbers) - at + 1)
                part = numbers[at:at + n]
                if rng.random() < .5:
                    out += chunk(field, b''.join(map(varint, part)))
                else:
                    out += b''.join(varint(field << 3) + varint(x) for x in part)
                at += n
            return out

        mapping_ids, function_ids = ids(len(self.mappings)), ids(len(self.functions))
        location_ids = ids(len(self.frames))
        out, mappings, starts = [], [], []
        for m, i in zip(self.mappings, mapping_ids):
            anonymous = not m['build_id'] and m['file'] in ('', '[anon]')
            start = m['start'] + (rng.randrange(1 << 20) << 12 if slide and not anonymous else 0)
            starts.append(start)
            mappings.append(chunk(3, shuffled([
                number(1, i), number(2, start), number(3, start + m['size']), number(4, m['offset']),
                number(5, index(m['file'])), number(6, index(m['build_id'])), number(7, rng.randrange(2))])))
        for f, i in zip(self.functions, function_ids):
            out.append(chunk(5, shuffled([number(1, i), number(2, index(f[0])), number(3, index(f[1])),
                                          number(4, index(f[2])), number(5, f[3])])))
        for (mapping, place, lines), i in zip(self.frames, location_ids):
            at = next((j for j, m in enumerate(self.mappings) if m is mapping), None)
            lines = b''.join(chunk(4, shuffled([number(1, function_ids[self.functions.index(f)]), number(2, line)]))
                             for f, line in lines)
            out.append(chunk(4, shuffled([number(1, i), number(2, 0 if at is None else mapping_ids[at]),
                                          number(3, place if at is None else starts[at] + place), lines])))
        for (stack, labels), values in self.rows.items():
            pieces = [values]
            while rng.random() < .2:
                part = [rng.randrange(v + 1) if v < 1 << 30 else 0 for v in pieces[-1]]
                pieces[-1:] = [part, [a - b for a, b in zip(pieces[-1], part)]]
            for piece in pieces:
                some = [chunk(3, shuffled([number(1, index(k)), number(2, index(s)), number(3, n), number(4, index(u))]))
                        for k, s, n, u in labels]
                fields = [repeated(1, [location_ids[j] for j in stack]), repeated(2, piece), *some]
                out.append(chunk(2, shuffled(fields)))
        kinds = [chunk(1, shuffled([number(1, index(t)), number(2, index(u))])) for t, u in self.types]
        table = [chunk(6, s.encode()) for s in strings]
        rest = [number(9, time_ns), number(12, 524288), chunk(11, shuffled([number(1, index('space')), number(2, index('bytes'))]))]
        out += rest + ([number(100, 78)] if unknown else [])
        rng.shuffle(out)
        for group in (kinds, table, mappings):  # each group keeps its order, spread among all other fields
            places = sorted(rng.randrange(len(out) + 1) for _ in group)
            for place, field in reversed(list(zip(places, group))):
                out.insert(place, field)
        data = b''.join(out)
        if rng.random() < .5:
            return data
        cut = rng.randrange(len(data) + 1)  # gzip of one member, or of two
        return gzip.compress(data) if rng.random() < .5 else gzip.compress(data[:cut]) + gzip.compress(data[cut:])


class Series:
    """Profiles as one producer writes them: the same bytes again except for values; sometimes an id gets another meaning."""
    TYPES = [('alloc_objects', 'count'), ('inuse_space', 'bytes')]

    def __init__(self, rng, n_rows=40, n_frames=300):
        self.rng = rng
        self.strings = ['', *(text for pair in self.TYPES for text in pair), 'k', 'v', 'w', 'x']
        self.addresses = rng.sample(range(1, 1000), n_frames)
        self.rows = [self.row() for _ in range(n_rows)]
        self.in_pieces = rng.random() < .3

    def row(self):
        stack = [self.rng.randrange(1, len(self.addresses) + 1) for _ in range(self.rng.choice([0, 1, 5, 30]))]
        return [stack, self.rng.choice([0, 0, 6, 7, 8]), self.rng.randrange(500), self.rng.randrange(3)]

    def step(self):
        rng, addresses, rows = self.rng, self.addresses, self.rows
        for row in rows:
            row[2] += rng.choice([0, 0, 0, rng.randrange(100)])
        what = rng.choice(['nothing', 'nothing', 'address', 'string', 'more', 'fewer', 'order', 'rows', 'in pieces'])
        if what == 'address':
            i, j = rng.sample(range(len(addresses)), 2)
            addresses[i], addresses[j] = addresses[j], addresses[i]
        elif what == 'string':
            self.strings[6:] = rng.sample(self.strings[6:], 3)
        elif what == 'more':
            addresses.append(1000 + len(addresses))
        elif what == 'fewer':
            addresses.pop()
            rows[:] = [row for row in rows if len(addresses) + 1 not in row[0]]
        elif what == 'order':
            rng.shuffle(rows)
        elif what == 'rows':
            del rows[rng.randrange(len(rows))]
            rows.insert(rng.randrange(len(rows)), self.row())
        elif what == 'in pieces':
            self.in_pieces = not self.in_pieces
        return self.write()

    def write(self):
        kinds = [chunk(1, number(1, self.strings.index(t)) + number(2, self.strings.index(u))) for t, u in self.TYPES]
        samples, table = [], [chunk(6, s.encode()) for s in self.strings]
        for stack, value, *values in self.rows:
            label = chunk(3, number(1, 5) + number(2, value)) if value else b''
            values = [varint(v) for v in values]
            values = [chunk(2, v) for v in (values if self.in_pieces else [b''.join(values)])]
            samples.append(chunk(2, chunk(1, b''.join(map(varint, stack))) + values[0] + label + b''.join(values[1:])))
        locations = [chunk(4, number(1, i) + number(3, a)) for i, a in enumerate(self.addresses, 1)]
        return b''.join(kinds + samples + locations + table)


def parse(data):
    message = profile_pb2.Profile()
    message.ParseFromString(gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data)
    return message


def meaning(data, ignore=()):
    """{((frame, ...), (label, ...)): [values]}, rows of zeros left out. ignore: keys of labels."""
    p = parse(data)
    s = p.string_table
    mappings = {m.id: m for m in p.mapping}
    functions = {f.id: (s[f.name], s[f.system_name], s[f.filename], f.start_line) for f in p.function}
    frames = {}
    for l in p.location:
        m = mappings.get(l.mapping_id)
        name = m and (s[m.build_id] and 'id ' + s[m.build_id] or s[m.filename])
        if name and (name[0] == '[' and name != '[vdso]' or name[:2] == '//'):
            name = None
        lines = tuple((functions[line.function_id], line.line) for line in l.line)
        if name and l.address:
            frames[l.id] = (name, l.address - m.memory_start + m.file_offset)
        else:
            frames[l.id] = (name, l.address, lines)
    rows = {}
    for sample in p.sample:
        labels = tuple(sorted((s[l.key], s[l.str], l.num, s[l.num_unit]) for l in sample.label if s[l.key] not in ignore))
        row = rows.setdefault((tuple(frames[i] for i in sample.location_id), labels), [0] * len(sample.value))
        for i, v in enumerate(sample.value):
            row[i] += v
    return {row: values for row, values in rows.items() if any(values)}


def types(data):
    p = parse(data)
    return [(p.string_table[t.type], p.string_table[t.unit]) for t in p.sample_type]
