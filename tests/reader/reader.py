# SPDX-License-Identifier: MIT
"""An independent reader of pprof files, made from google/pprof's profile.proto by protoc; shares no code with deltaprof.

    from reader import files, load, sum_profiles, by_function
    total = sum_profiles([load(p) for p in files('profiles', kind='heap')])
    by_function(total, 'alloc_objects', {'grow', 'shrink'})        # {'grow': 17, 'shrink': 3}
    by_function(total, 'alloc_space')                              # flat, by leaf

A frame's name is its function's, or `0xADDRESS` where the file has none. Stacks are leaf first; inlined functions are
frames of their own. Delta types (alloc_*, contentions, delay) are summed over files; in-use types come from each
process's newest file and are then summed over processes.
"""
import collections
import functools
import glob
import gzip
import os
import re
import sys

try:
    import profile_pb2
except ImportError as error:  # protoc or python3-protobuf is not installed: the test that wanted it is skipped
    print('skipped:', error)
    sys.exit(77)

Frame = collections.namedtuple('Frame', 'function address mapping file line')
Sample = collections.namedtuple('Sample', 'frames names labels values')
Pair = collections.namedtuple('Pair', 'n ns waiter holder')
HELD_BY, HAND_OVER = '[held by]', '[hand-over]'  # between the waiter's and the holder's frames of a chain; the latter is a holder without a stack
NAME = re.compile(r'(?P<program>.+)\.(?P<pid>\d+)\.(?P<seq>\d{4,})\.(?P<kind>heap|mutex|block|chain|cpu|wall|events)\.pb\.gz$')


def split(tower, held_by=HELD_BY, hand_over=HAND_OVER):
    """(the waiter's stack, the holder's), each leaf first, of a chain's stack; None where it has no mark between them."""
    for at, name in enumerate(tower):
        if name == held_by:
            return tower[at + 1:], tower[:at][::-1]
        if name == hand_over:
            return tower[at + 1:], tower[:at + 1]
    return None


class Profile:
    """One file: types [(type, unit)], samples [Sample], time_ns, duration_ns, period, comments, and the message itself.

    program, pid, seq and kind are those of the file's name, None where it has none. labels is a sorted tuple of
    (key, text or number); values a dict by type.
    """

    def __init__(self, message, path=None):
        self.message, self.path = message, path
        name = NAME.search(os.path.basename(path or ''))
        self.program = name and name['program']
        self.pid = name and int(name['pid'])
        self.seq = name and int(name['seq'])
        self.kind = name and name['kind']
        s = message.string_table
        self.types = [(s[t.type], s[t.unit]) for t in message.sample_type]
        self.time_ns, self.duration_ns, self.period = message.time_nanos, message.duration_nanos, message.period
        self.period_type = (s[message.period_type.type], s[message.period_type.unit])
        self.comments = [s[c] for c in message.comment]

    @functools.cached_property
    def samples(self):
        s = self.message.string_table
        mappings = {m.id: s[m.filename] for m in self.message.mapping}
        functions = {f.id: f for f in self.message.function}
        frames = {}
        for l in self.message.location:
            where = mappings.get(l.mapping_id, '')
            if l.line:
                frames[l.id] = [Frame(s[f.name], l.address, where, s[f.filename], line.line)
                                for line in l.line for f in [functions[line.function_id]]]
            else:
                frames[l.id] = [Frame(None, l.address, where, '', 0)]
        names = {i: [f.function or '0x%x' % f.address for f in fs] for i, fs in frames.items()}
        types = [t for t, _ in self.types]
        return [Sample(tuple(f for i in sample.location_id for f in frames[i]),
                       tuple(n for i in sample.location_id for n in names[i]),
                       tuple(sorted((s[l.key], s[l.str] if l.str else l.num) for l in sample.label)),
                       dict(zip(types, sample.value)))
                for sample in self.message.sample]

    @functools.cached_property
    def pairs(self):
        """[Pair] of a chain profile: n unlocks, ns, and the names of the waiter's and the holder's stack, leaf first. [overflow] is none."""
        return [Pair(sample.values['contentions'], sample.values['delay'], *ends) for sample in self.samples for ends in [split(sample.names)] if ends]

    def total(self, type):
        """The sum of one type over all samples."""
        return sum(sample.values[type] for sample in self.samples)


def read(path):
    """(message, its bytes uncompressed, path or None, whether it was gzipped) of a path, or of a profile's bytes."""
    data, name = path, None
    if not isinstance(path, bytes):
        name = os.fspath(path)
        with open(path, 'rb') as f:
            data = f.read()
    zipped = data[:2] == b'\x1f\x8b'
    raw = gzip.decompress(data) if zipped else data
    message = profile_pb2.Profile()
    message.ParseFromString(raw)
    return message, raw, name, zipped


def load(path):
    """Reads one profile from a path, or from bytes."""
    message, _, name, _ = read(path)
    return Profile(message, name)


def files(directory, kind='heap', program='*', pid='*'):
    """The profile files of a directory in the order of (program, pid, seq). Temporary files are none."""
    found = [(m['program'], int(m['pid']), int(m['seq']), path)
             for path in glob.glob(os.path.join(glob.escape(os.fspath(directory)), f'{program}.{pid}.*.{kind}.pb.gz'))
             for m in [NAME.search(os.path.basename(path))] if m]
    return [path for *_, path in sorted(found)]


def sum_profiles(profiles):
    """{(names, labels): {type: value}}: delta types summed, in-use types of each process's newest."""
    total = collections.defaultdict(collections.Counter)
    newest = {}
    for p in profiles:
        process = (p.program, p.pid)
        if process not in newest or (newest[process].time_ns, newest[process].seq or 0) <= (p.time_ns, p.seq or 0):
            newest[process] = p
    for p in profiles:
        last = newest[(p.program, p.pid)] is p
        for sample in p.samples:
            row = total[sample.names, sample.labels]
            for type, value in sample.values.items():
                row[type] += value if last or not type.startswith('inuse_') else 0
    return {key: dict(row) for key, row in total.items()}


def by_function(total, type, among=None):
    """{function: value} of a sum_profiles. A row counts for its leaf, or for the leafmost frame that is in among (rows
    without such a frame are left out)."""
    result = collections.Counter()
    for (names, _), row in total.items():
        name = names[0] if among is None else next((n for n in names if n in among), None)
        if name is not None:
            result[name] += row.get(type, 0)
    return dict(result)
