# SPDX-License-Identifier: MIT
"""Writes the corpora that the fuzz targets replay and start from: small profiles made at random, and broken ones.

    PYTHONPATH=tests/cli:BUILD/tests/reader make_corpus.py tests/fuzz/corpus
"""
import gzip
import os
import random
import sys

from random_profile import Model, Series, chunk, number, varint

TOP = sys.argv[1]


def put(target, name, data):
    os.makedirs(os.path.join(TOP, target), exist_ok=True)
    with open(os.path.join(TOP, target, name), 'wb') as f:
        f.write(data)


def raw(data):
    return gzip.decompress(data) if data[:2] == b'\x1f\x8b' else data


def small(seed):
    rng = random.Random(seed)
    model = Model(rng, n_rows=4)
    return rng, model


for seed in range(12):
    rng, model = small(seed)
    data = raw(model.write(rng, time_ns=7, unknown=seed % 3 == 0))
    put('decode', 'raw-%02d' % seed, data)
    old, new = data, raw(model.later(rng).write(rng, time_ns=9, slide=True))
    put('diff', 'pair-%02d' % seed, bytes([seed % 3, len(old) & 255, len(old) >> 8]) + old + new)
    put('top', 'pair-%02d' % seed, bytes([seed * 5 & 31, len(old) & 255, len(old) >> 8]) + old + new)

for seed in range(6):
    series = Series(random.Random(seed), n_rows=6, n_frames=20)
    old = series.write()
    series.addresses.reverse()  # what looks the same means something else
    new = series.write() if seed % 2 else series.step()
    put('diff', 'series-%02d' % seed, bytes([seed % 3, len(old) & 255, len(old) >> 8]) + old + new)

rng, model = small(99)
good = raw(model.write(rng, time_ns=7))
strings = b''.join(chunk(6, s) for s in (b'', b'a', b'b'))
kind = chunk(1, number(1, 1) + number(2, 2))
zipped = gzip.compress(good, mtime=0)
broken = {
    'gzip': zipped,
    'gzip-two-members': gzip.compress(good[:50], mtime=0) + gzip.compress(good[50:], mtime=0),
    'gzip-truncated': zipped[:-9],
    'gzip-checksum': zipped[:-8] + b'\0\0\0\0' + zipped[-4:],
    'gzip-garbage-behind': zipped + b'garbage',
    'gzip-flipped': zipped[:40] + bytes([zipped[40] ^ 255]) + zipped[41:],
    'gzip-bomb': gzip.compress(bytes(8 << 20), mtime=0),
    'gzip-header-only': zipped[:10],
    'empty': b'',
    'no-strings': number(12, 524288),
    'truncated': good[:len(good) // 2],
    'two-profiles': good + good,
    'varint-endless': b'\x08' + b'\xff' * 20,
    'varint-too-large': b'\x48' + b'\xff' * 9 + b'\x7f',
    'length-beyond': b'\x12\xff\xff\xff\xff\x0f' + b'x',
    'length-huge': b'\x12' + varint((1 << 64) - 1),
    'tag-zero': b'\x00\x00',
    'groups': strings + kind + b'\x13\x14',
    'string-first-not-empty': chunk(6, b'x') + strings,
    'string-index-beyond': strings + chunk(1, number(1, 900)),
    'string-index-negative': strings + chunk(1, number(1, -1)),
    'label-string-beyond': strings + kind + chunk(2, chunk(2, b'\1') + chunk(3, number(1, 50))),
    'location-unknown': strings + kind + chunk(2, chunk(1, b'\5') + chunk(2, b'\1')),
    'location-twice': strings + kind + 2 * chunk(4, number(1, 1)),
    'location-id-zero': strings + kind + chunk(4, number(3, 1)),
    'location-mapping-unknown': strings + kind + chunk(4, number(1, 1) + number(2, 9)),
    'line-function-unknown': strings + kind + chunk(4, number(1, 1) + chunk(4, number(1, 9))),
    'values-too-few': strings + kind + kind + chunk(2, chunk(2, b'\1')),
    'values-without-types': strings + chunk(2, chunk(2, b'\1')),
    'wire-type-sample': strings + kind + number(2, 5),
    'wire-type-location': strings + kind + b'\x0d\0\0\0\0',
    'wire-type-line': strings + kind + chunk(4, number(1, 1) + number(4, 1)),
    'deep': strings + kind + chunk(4, number(1, 1)) + chunk(2, chunk(1, b'\1' * 5000) + chunk(2, b'\1')),
    'ids-huge': strings + kind + chunk(4, number(1, 1 << 63)) + chunk(2, chunk(1, varint(1 << 63)) + chunk(2, b'\1')),
    'values-extreme': strings + kind + 2 * chunk(2, chunk(2, varint((1 << 63) - 1))) + chunk(2, chunk(2, varint(1 << 63))),
    'strings-not-utf8': chunk(6, b'') + chunk(6, b'\xff\xfe') + chunk(6, b'\xed\xa0\x80') + kind + chunk(2, chunk(2, b'\1')),
    'packed-comment': strings + kind + chunk(13, b'\1\2') + number(13, 1) + number(15, 2) + number(7, 1) + number(8, 2),
}
put('diff', 'nothing-at-all', bytes([0, 4, 0]) + 2 * number(12, 524288))
for name, data in broken.items():
    put('decode', name, data)
    put('top', name, bytes([len(name) & 31, len(data) & 255, len(data) >> 8 & 255]) + data + good)
    if not name.startswith('gzip'):
        put('diff', name, bytes([len(name) % 3, len(good) & 255, len(good) >> 8]) + good + data)
