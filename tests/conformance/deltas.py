# SPDX-License-Identifier: MIT
"""libdeltaprof.so's deltas from Python, for tests: what is written comes back through the independent reader."""
import ctypes
import os
import tempfile

import check_profile
import reader

HEAP, MUTEX, BLOCK, MIXED_SIZES = 0, 1, 2, 0x100

lib = ctypes.CDLL(os.environ['LIBDELTAPROF'])
WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class HeapRecord(ctypes.Structure):
    _fields_ = [('stack', ctypes.c_void_p), ('depth', ctypes.c_size_t), ('alloc_objects', ctypes.c_int64),
                ('alloc_bytes', ctypes.c_int64), ('free_objects', ctypes.c_int64), ('free_bytes', ctypes.c_int64),
                ('id', ctypes.c_uint64)]


class BlockRecord(ctypes.Structure):
    _fields_ = [('stack', ctypes.c_void_p), ('depth', ctypes.c_size_t), ('contentions', ctypes.c_int64),
                ('delay_ns', ctypes.c_int64), ('id', ctypes.c_uint64)]


class FrameName(ctypes.Structure):
    _fields_ = [('function', ctypes.c_char_p), ('file', ctypes.c_char_p), ('line', ctypes.c_int64),
                ('start_line', ctypes.c_int64)]


NAME = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(FrameName))

lib.deltaprof_delta_new.restype = ctypes.c_void_p
for name in ('free', 'skip', 'commit', 'abandon', 'reset_ids'):
    getattr(lib, 'deltaprof_delta_' + name).argtypes = [ctypes.c_void_p]
lib.deltaprof_delta_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
lib.deltaprof_delta_set_frames.argtypes = [ctypes.c_void_p, NAME, ctypes.c_void_p]
for suffix in ('', '_uncommitted'):
    getattr(lib, 'deltaprof_delta_write' + suffix).argtypes = [ctypes.c_void_p, WRITE, ctypes.c_void_p]
    getattr(lib, f'deltaprof_delta_write_heap_records{suffix}').argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, WRITE, ctypes.c_void_p]
    getattr(lib, f'deltaprof_delta_write_block_records{suffix}').argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, WRITE, ctypes.c_void_p]


class Failed(Exception):
    def __init__(self, status):
        super().__init__(status)
        self.status = status


def stack(*values):
    """An array of return addresses, leaf first."""
    return (ctypes.c_size_t * len(values))(*values)


give_ids = False  # records get the id of their stack and size, as a runtime that keeps buckets would give it


def id_of(where, size=0):
    return hash((tuple(where or ()), size)) % (1 << 64) or 1 if give_ids else 0


def heap(where, objects, size, freed=0, id=None):
    at, depth = (ctypes.addressof(where), len(where)) if where else (None, 0)
    record = HeapRecord(at, depth, objects, objects * size, freed, freed * size, id_of(where, size) if id is None else id)
    record.where = where  # stays as long as the record
    return record


def block(where, contentions, delay_ns):
    record = BlockRecord(ctypes.addressof(where), len(where), contentions, delay_ns, id_of(where))
    record.where = where
    return record


class Delta:
    """A consumer. Each write gives the reader's Profile; `size` is what it weighed, gzipped."""

    def __init__(self, kind, conf=None):
        self.kind = kind
        self.at = lib.deltaprof_delta_new(kind)
        self.size = None
        self.is_delta = 'types=inuse' not in (conf or '')
        if conf:
            self.call('set', conf.encode())

    def close(self):
        lib.deltaprof_delta_free(self.at)

    def call(self, verb, *args):
        status = getattr(lib, 'deltaprof_delta_' + verb)(self.at, *args)
        if status < 0:
            raise Failed(status)
        return status

    def written(self, verb, *args, fail_with=0, fail_after=0):
        pieces = []

        @WRITE
        def take(ctx, bytes, n_bytes):
            if fail_with and sum(map(len, pieces)) >= fail_after:
                return fail_with
            pieces.append(ctypes.string_at(bytes, n_bytes))
            return 0

        self.call(verb, *args, take, None)
        data = b''.join(pieces)
        self.size = len(data)
        with tempfile.NamedTemporaryFile(suffix='.pb.gz') as f:
            f.write(data)
            f.flush()
            check_profile.check(f.name, delta=self.is_delta)
        return reader.load(data)

    def write(self, uncommitted=False, **how):
        return self.written('write' + ('_uncommitted' if uncommitted else ''), **how)

    def write_heap(self, records, rate=524288, uncommitted=False, **how):
        array = (HeapRecord * len(records))(*records)
        return self.written('write_heap_records' + ('_uncommitted' if uncommitted else ''), array, len(records), rate, **how)

    def write_block(self, records, uncommitted=False, **how):
        array = (BlockRecord * len(records))(*records)
        return self.written('write_block_records' + ('_uncommitted' if uncommitted else ''), array, len(records), **how)


def rows(profile):
    """{(addresses, labels): values in the order of the types}; no two samples may be of one stack and label set."""
    found = {}
    for s in profile.samples:
        key = tuple(f.address for f in s.frames), s.labels
        assert key not in found, key
        found[key] = tuple(s.values.values())
    return found
