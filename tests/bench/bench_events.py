# SPDX-License-Identifier: MIT
"""Measures the cost of events: bytes on disk in three forms, and time at the default rates.

The events of a real program, the first 10^4, 10^5 and 10^6 of them, as
  aggregated   a pprof sample for each stack with its labels: no times
  labels       a pprof sample for each event, with end_timestamp_ns and thread id: the file of kind `events` as it is
  otlp         OTLP's Sample: one for each stack and thread, with the values and the timestamps of its events as lists
raw and gzipped. Values are the allocated bytes; objects are the number of timestamps.
"""
import glob
import gzip
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import profile_pb2
from alternate import BUILD, compare

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
PROGRAM = ['sqlite3', ':memory:', 'create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c limit 400000) '
           'insert into t select x, hex(randomblob(x % 40)) from c; select count(distinct b) from t;']


def events():
    """The largest file of events of the program, as a message."""
    with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as out:
        conf = f'events=on,heap_rate=1,memory=2G,interval=0,out={out},exe=sqlite3'
        subprocess.run([DELTAPROF, 'run', '-o', conf, '--', *PROGRAM], check=True, stdout=subprocess.DEVNULL)
        path = max(glob.glob(out + '/*.events.pb.gz'), key=os.path.getsize)
        with gzip.open(path) as f:
            message = profile_pb2.Profile()
            message.ParseFromString(f.read())
    return message


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def with_samples(message, samples):
    out = profile_pb2.Profile()
    out.CopyFrom(message)
    del out.sample[:]
    out.sample.extend(samples)
    return out.SerializeToString()


def grouped(message, samples, keep):
    """{(stack, labels with these keys): [sample]}"""
    s, groups = message.string_table, {}
    for sample in samples:
        labels = tuple((l.key, l.str, l.num) for l in sample.label if keep(s[l.key]))
        groups.setdefault((tuple(sample.location_id), labels), []).append(sample)
    return groups


def aggregated(message, samples):
    rows = []
    for group in grouped(message, samples, lambda key: key not in ('end_timestamp_ns', 'thread id', 'duration')).values():
        row = profile_pb2.Sample(location_id=group[0].location_id, value=[sum(v) for v in zip(*(s.value for s in group))])
        row.label.extend(l for l in group[0].label if message.string_table[l.key] not in ('end_timestamp_ns', 'thread id', 'duration'))
        rows.append(row)
    return with_samples(message, rows)


def otlp(message, samples):
    """ProfilesData with one Profile and its dictionary; the fields that carry weight here, by opentelemetry-proto's numbers."""
    types = [message.string_table[t.type] for t in message.sample_type]
    space, time = types.index('alloc_space'), list(message.string_table).index('end_timestamp_ns')
    stacks, attributes, body = {}, {}, []
    for (stack, labels), group in grouped(message, samples, lambda key: key not in ('end_timestamp_ns', 'duration')).items():
        attribute = b''.join(varint(attributes.setdefault(label, len(attributes) + 1)) for label in labels)
        number = stacks.setdefault(stack, len(stacks) + 1)
        times = [next(l.num for l in s.label if l.key == time) for s in group]
        body.append(field(2, varint(1 << 3) + varint(number) + field(2, attribute) +
                          field(4, b''.join(varint(s.value[space]) for s in group)) + field(5, struct.pack(f'<{len(times)}Q', *times))))
    rest = profile_pb2.Profile()  # mappings, locations, functions and strings take as much room in the dictionary as here
    rest.CopyFrom(message)
    del rest.sample[:]
    dictionary = b''.join(field(7, field(1, b''.join(varint(i) for i in stack))) for stack in stacks)
    dictionary += b''.join(field(6, varint(8) + varint(key) + field(2, varint(24) + varint(num or text))) for key, text, num in attributes)
    return field(1, field(2, field(2, b''.join(body)))) + field(2, dictionary + rest.SerializeToString())


def sizes():
    message = events()
    for n in (10**4, 10**5, 10**6):
        samples = message.sample[:n]
        if len(samples) < n:
            print(f'events only {len(message.sample)} of {n}', flush=True)
            break
        for form, make in (('aggregated', aggregated), ('labels', with_samples), ('otlp', otlp)):
            data = make(message, samples)
            zipped = len(gzip.compress(data, 6))
            print(f'events {n} {form}: raw {len(data)} bytes, gzipped {zipped} bytes ({zipped / n:.2f} an event)', flush=True)


if not shutil.which('sqlite3'):
    print('skipped: no sqlite3')
    sys.exit(77)
sizes()
compare('pair at 512k', 'ns', [os.path.join(BUILD, 'tests/bench/pair'), '9000000', '1', '1', '0', '64'], {'events=off': 'heap_rate=512k', 'events=on': 'heap_rate=512k,events=on'})
