# SPDX-License-Identifier: MIT
"""The checker finds every breach that it is there for, and the reader sums by the rule."""
import gzip
import os
import shutil
import sys
import tempfile
import unittest

import check_profile
import reader
from profile_pb2 import Profile


def elf_with_calls():
    """(path, executable segment, address of a call's last byte as an offset into it) of the running interpreter."""
    path = os.path.realpath(sys.executable)
    elf = check_profile.Elf.of(path)
    offset, _, size, _ = max(elf.segments, key=lambda s: s[2])
    at = next(i for i in range(offset + 5, offset + size) if elf.data[i - 4] == 0xe8)
    return path, elf, offset, size, at - offset


def heap(rows=((('f', 'main'), (1, 10, 1, 10)),), seq=1, duration=5):
    """A profile that keeps every rule: rows of (names leaf first, values)."""
    m, strings = Profile(), {'': 0}

    def s(text):
        return strings.setdefault(text, len(strings))
    for t, unit in check_profile.HEAP:
        m.sample_type.add(type=s(t), unit=s(unit))
    m.period_type.type, m.period_type.unit = s('space'), s('bytes')
    m.period, m.time_nanos, m.duration_nanos = 512, 1000 + seq, duration
    m.mapping.add(id=1, memory_start=0x1000, memory_limit=0x9000, filename=s('/no/where/prog'), build_id=s('00ff'),
                  has_functions=True)
    ids = {}
    for names, values in rows:
        for name in names:
            if name not in ids:
                ids[name] = len(ids) + 1
                m.function.add(id=ids[name], name=s(name), system_name=s(name))
                m.location.add(id=ids[name], mapping_id=1, address=0x1000 + ids[name]).line.add(function_id=ids[name])
        sample = m.sample.add(location_id=[ids[n] for n in names], value=values)
        sample.label.add(key=s('bytes'), num=10, num_unit=s('bytes'))
    m.string_table.extend(strings)
    return m


class Checker(unittest.TestCase):
    def broken(self, words, change, **options):
        m = heap()
        change(m)
        with self.assertRaisesRegex(check_profile.Broken, words):
            check_profile.check(gzip.compress(m.SerializeToString()), **options)

    def test_a_good_profile_passes(self):
        profile = check_profile.check(gzip.compress(heap().SerializeToString()))
        self.assertEqual(profile.samples[0].names, ('f', 'main'))
        self.assertEqual(profile.samples[0].labels, (('bytes', 10),))
        self.assertEqual(profile.total('alloc_space'), 10)
        check_profile.check(gzip.compress(heap(rows=()).SerializeToString()))

    def test_every_breach_is_found(self):
        def string(m, i, text):
            m.string_table[i] = text
        for words, change in [
                (r'string_table\[0\]', lambda m: string(m, 0, 'x')),
                ('strings written twice', lambda m: string(m, 1, 'bytes')),
                ('time_nanos', lambda m: m.ClearField('time_nanos')),
                ('duration_nanos', lambda m: m.ClearField('duration_nanos')),
                ('sample types', lambda m: m.sample_type.sort(key=lambda t: -t.type)),
                ('period_type', lambda m: m.ClearField('period_type')),
                ('period 0', lambda m: m.ClearField('period')),
                ('mapping ids', lambda m: setattr(m.mapping[0], 'id', 2)),
                ('location ids', lambda m: setattr(m.location[1], 'id', 3)),
                ('function ids', lambda m: setattr(m.function[1], 'id', 1)),
                ('without a mapping', lambda m: m.location[0].ClearField('mapping_id')),
                ('without its function', lambda m: setattr(m.location[0].line[0], 'function_id', 9)),
                ('without its location', lambda m: m.sample[0].location_id.append(9)),
                ('without a stack', lambda m: m.sample[0].ClearField('location_id')),
                ('has 5 values', lambda m: m.sample[0].value.append(1)),
                ('negative', lambda m: m.sample[0].value.__setitem__(0, -1)),
                ('all zero', lambda m: m.sample[0].value.__setitem__(slice(0, 4), [0] * 4)),
                ('bytes without objects', lambda m: m.sample[0].value.__setitem__(0, 0)),
                ('limit', lambda m: m.mapping[0].ClearField('memory_limit')),
                ('build-id', lambda m: string(m, m.mapping[0].build_id, 'ABCD')),
                ('some have names', lambda m: m.mapping[0].ClearField('has_functions')),
                ('not all have lines', lambda m: m.location[0].ClearField('line')),
                ('has_filenames', lambda m: setattr(m.mapping[0], 'has_filenames', True)),
                ('has_line_numbers', lambda m: setattr(m.mapping[0], 'has_line_numbers', True)),
                ('page-aligned', lambda m: setattr(m.mapping[0], 'memory_start', 0x1001)),
                ('lies outside', lambda m: setattr(m.location[0], 'address', 0x9000)),
                ('written twice', lambda m: m.location.add(id=3, mapping_id=1, address=0x1001).line.add(function_id=1)),
                ('a function written twice', lambda m: m.function.add(id=3, name=m.function[0].name,
                                                                      system_name=m.function[0].system_name)),
                ('locations that nothing uses', lambda m: m.sample[0].location_id.pop()),
                ('functions that nothing uses', lambda m: m.function.add(id=3, name=1)),
                ('mappings that nothing uses', lambda m: m.mapping.add(id=2, memory_start=0x10000, memory_limit=0x20000,
                                                                       filename=m.mapping[0].filename)),
                ('strings that nothing uses', lambda m: m.string_table.append('spare')),
                ('no program|mapping\\[0\\] is', lambda m: string(m, m.mapping[0].filename, '/lib/libc.so.6')),
                ('without a unit', lambda m: m.sample[0].label[0].ClearField('num_unit')),
                ('pprof::', lambda m: string(m, m.sample[0].label[0].key, 'pprof::base')),
                ('has a label twice', lambda m: m.sample[0].label.append(m.sample[0].label[0])),
                ('stands there twice', lambda m: m.sample.append(m.sample[0])),
                ('default_sample_type', lambda m: setattr(m, 'default_sample_type', m.mapping[0].filename)),
        ]:
            with self.subTest(words):
                self.broken(words, change)
        self.broken('of other', lambda m: None, program='other')
        self.broken('of a cumulative', lambda m: None, delta=False)

    def test_bytes_that_are_no_profile_of_ours_are_refused(self):
        raw = heap().SerializeToString()
        with self.assertRaisesRegex(check_profile.Broken, 'not gzip'):
            check_profile.check(raw)
        with self.assertRaisesRegex(check_profile.Broken, 'time_nanos is written 2 times'):
            check_profile.check(gzip.compress(raw + b'\x48\x01'))
        with self.assertRaisesRegex(check_profile.Broken, 'field 15'):
            check_profile.check(gzip.compress(raw + b'\x78\x01'))

    def test_segments_and_calls_are_read_from_the_file(self):
        path, elf, offset, size, call = elf_with_calls()

        def place(m):
            m.string_table[m.mapping[0].filename] = path
            m.string_table[m.mapping[0].build_id] = elf.build_id
            m.mapping[0].memory_start, m.mapping[0].file_offset = 0x400000, offset // 4096 * 4096
            m.mapping[0].memory_limit = 0x400000 + -(-(offset % 4096 + size) // 4096) * 4096
            m.location[0].address = 0x400000 + offset % 4096 + call
            m.location[1].address = m.location[0].address
        good = heap()
        place(good)
        check_profile.check(gzip.compress(good.SerializeToString()))
        if elf.machine == 62:
            self.broken('last byte of a call', lambda m: (place(m), setattr(m.location[0], 'address', 0x400001 + offset % 4096)))
        self.broken('no executable segment', lambda m: (place(m), setattr(m.mapping[0], 'file_offset', 1 << 40)))
        self.broken('in the file', lambda m: (place(m), m.string_table.__setitem__(m.mapping[0].build_id, 'abcd')))


class Sums(unittest.TestCase):
    def test_deltas_add_up_and_in_use_is_the_newest_of_each_process(self):
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)

        def put(name, **how):
            with open(os.path.join(directory, name), 'wb') as f:
                f.write(gzip.compress(heap(**how).SerializeToString()))
        put('prog.7.0001.heap.pb.gz', rows=[(('f', 'main'), (2, 20, 2, 20)), (('g', 'main'), (1, 1, 1, 1))])
        put('prog.7.0002.heap.pb.gz', rows=[(('f', 'main'), (3, 30, 1, 10))], seq=2)
        put('prog.8.0001.heap.pb.gz', rows=[(('f', 'main'), (5, 50, 5, 50))], seq=3)
        put('.prog.8.0002.heap.pb.gz.tmp')
        paths = reader.files(directory)
        self.assertEqual([os.path.basename(p) for p in paths],
                         ['prog.7.0001.heap.pb.gz', 'prog.7.0002.heap.pb.gz', 'prog.8.0001.heap.pb.gz'])
        total = reader.sum_profiles(check_profile.check_files(paths, program='prog'))
        self.assertEqual(reader.by_function(total, 'alloc_objects'), {'f': 10, 'g': 1})
        self.assertEqual(reader.by_function(total, 'inuse_space'), {'f': 60, 'g': 0})
        self.assertEqual(reader.by_function(total, 'alloc_space', {'main'}), {'main': 101})
        self.assertEqual(len(reader.files(directory, pid=7)), 2)


if __name__ == '__main__':
    unittest.main()
