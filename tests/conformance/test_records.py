# SPDX-License-Identifier: MIT
"""records.h: deltas of a runtime's own records, value for value as Go's are, and what a bad runtime may do."""
import ctypes
import errno
import math
import os
import random
import subprocess
import sys
import unittest

import deltas
from deltas import BLOCK, HEAP, MIXED_SIZES, MUTEX, Delta, Failed, block, heap, rows, stack

RATE, SIZE = 524288, 327680
S0, S1, S2 = stack(0x1001, 0x2001), stack(0x1001, 0x3001), stack(0x1001)
K0, K1, K2 = (0x1000, 0x2000), (0x1000, 0x3000), (0x1000,)


def label(n):
    return (('bytes', n),)


def by_stack(profile):
    return {k[0]: v for k, v in rows(profile).items()}


class Heap(unittest.TestCase):
    def setUp(self):
        self.delta = Delta(HEAP)
        self.addCleanup(self.delta.close)

    def write(self, *records, rate=RATE, **how):
        return by_stack(self.delta.write_heap(records, rate, **how))

    def test_h1_records_that_are_all_zero_give_no_sample(self):
        self.assertEqual(self.write(heap(S0, 0, 0), heap(S1, 0, 0)), {})

    def test_h2_to_h5_deltas_are_subtracted_first_and_scaled_then(self):
        same = heap(S0, 5, SIZE), heap(S1, 3, SIZE, 3)
        self.assertEqual(self.write(*same), {K0: (10, 3525422, 10, 3525422), K1: (6, 2115253, 0, 0)})
        for again in range(2):
            self.assertEqual(self.write(*same), {K0: (0, 0, 10, 3525422)})
        self.assertEqual(self.write(heap(S0, 5, SIZE, 5), same[1]), {})
        self.assertEqual(self.write(heap(S0, 8, SIZE, 5), same[1]), {K0: (6, 2115253, 6, 2115253)})

    def test_h6_records_of_one_stack_and_size_are_merged(self):
        others = [stack(0x9001 + 16 * i, 0x9501) for i in range(3)]
        dump = [heap(S0, 239, 1024, 239), heap(S0, 3, 2048, 3), heap(S1, 42, 1024, 42), heap(S0, 7, 1024, 7)]
        dump += [heap(s, 1, 64, 1) for s in others]
        found = rows(self.delta.write_heap(dump, 1))
        self.assertEqual(len(found), 6)
        self.assertEqual(found[K0, label(1024)], (246, 246 * 1024, 0, 0))
        self.assertEqual(found[K0, label(2048)], (3, 3 * 2048, 0, 0))
        self.assertEqual(found[K1, label(1024)], (42, 42 * 1024, 0, 0))
        self.assertEqual(rows(self.delta.write_heap(dump, 1)), {})

    def test_h7_an_idle_heap_costs_nothing_on_the_wire(self):
        stacks = [stack(*(0x10001 + 16 * (i * 32 + k) for k in range(32))) for i in range(512)]
        dump = [heap(s, 3, 512, 3) for s in stacks]
        self.assertEqual(len(self.delta.write_heap(dump).samples), 512)
        second = self.delta.write_heap(dump)
        self.assertEqual((len(second.samples), len(second.message.location)), (0, 0))
        self.assertLess(self.delta.size, 1000)

    def test_h8_a_counter_that_went_down_begins_anew(self):
        self.write(heap(S0, 10, 64), heap(S1, 10, 64, 10), rate=1)
        self.assertEqual(self.write(heap(S0, 4, 64), heap(S1, 4, 64, 4), rate=1), {K0: (0, 0, 4, 256)})
        self.assertEqual(self.write(heap(S0, 6, 64), heap(S1, 9, 64, 9), rate=1), {K0: (2, 128, 6, 384), K1: (5, 320, 0, 0)})

    def test_h8_down_to_nothing_names_no_size_and_still_counts(self):
        self.write(heap(S0, 10, 64, 10), heap(S0, 2, 32, 2), rate=1)
        self.assertEqual(self.write(heap(S0, 0, 0), heap(S0, 2, 32, 2), rate=1), {})
        found = rows(self.delta.write_heap([heap(S0, 3, 64, 3), heap(S0, 2, 32, 2)], 1))
        self.assertEqual(found, {(K0, label(64)): (3, 192, 0, 0)})

    def test_a_stack_that_vanishes_comes_back_where_it_was(self):
        self.write(heap(S0, 5, 64), heap(S1, 5, 64), rate=1)
        self.assertEqual(self.write(heap(S1, 5, 64), rate=1), {K1: (0, 0, 5, 320)})
        self.assertEqual(self.write(heap(S0, 6, 64), heap(S1, 5, 64), rate=1)[K0], (1, 64, 6, 384))

    def test_any_order_is_right(self):
        rng = random.Random(7)
        stacks = [stack(0x5001 + 16 * i, 0x8001) for i in range(300)]
        counts, told = [0] * len(stacks), [0] * len(stacks)
        for turn in range(30):
            for i in rng.sample(range(len(stacks)), rng.randrange(len(stacks))):
                counts[i] += rng.randrange(5)
            order = rng.sample(range(len(stacks)), rng.randrange(len(stacks)))
            dump = [heap(stacks[i], counts[i], 48, counts[i]) for i in order]
            expected = {(0x5000 + 16 * i, 0x8000): (counts[i] - told[i], 48 * (counts[i] - told[i]), 0, 0)
                        for i in order if counts[i] != told[i]}
            self.assertEqual(self.write(*dump, rate=1), expected)
            for i in order:
                told[i] = counts[i]

    def test_a_duplicate_of_an_unchanged_record_is_no_change(self):
        dump = heap(S0, 5, 64, 5), heap(S1, 1, 64, 1), heap(S0, 2, 64, 2)
        self.assertEqual(self.write(*dump, rate=1)[K0], (7, 448, 0, 0))
        self.assertEqual(self.write(*dump, rate=1), {})
        self.assertEqual(self.write(heap(S0, 7, 64, 7), heap(S1, 1, 64, 1), rate=1), {})

    def test_more_frees_than_allocs_are_no_negative_use(self):
        self.assertEqual(self.write(heap(S0, 5, 64, 9), rate=1), {K0: (5, 320, 0, 0)})

    def test_no_stack_and_no_records(self):
        self.assertEqual(self.write(), {})
        profile = self.delta.write_heap([heap(None, 2, 8)], 1)
        self.assertEqual([s.names for s in profile.samples], [('[no stack]',)])
        self.assertEqual(deltas.lib.deltaprof_delta_write_heap_records(self.delta.at, None, 0, 1, deltas.WRITE(lambda *a: 0), None), 0)

    def test_a_stack_deeper_than_depth_is_cut_there(self):
        deep = [stack(*(0x10001 + 16 * k for k in range(128)), 0x900001 + 16 * i) for i in range(2)]
        profile = self.delta.write_heap([heap(s, 1, 8) for s in deep], 1)
        self.assertEqual([len(s.frames) for s in profile.samples], [129])
        self.assertEqual(profile.samples[0].names[-1], '[truncated]')
        self.assertEqual(profile.samples[0].values['alloc_objects'], 2)

    def test_wrong_calls_are_refused_and_change_nothing(self):
        take = deltas.WRITE(lambda *a: 0)
        bad = deltas.HeapRecord(None, 3, 1, 1, 0, 0)
        for args in ([None, 1, 1, take, None], [ctypes.byref(bad), 1, 1, take, None]):
            with self.assertRaises(Failed) as caught:
                self.delta.call('write_heap_records', *args)
            self.assertEqual(caught.exception.status, -errno.EINVAL)
        for refused in (lambda: self.delta.write_block([block(S0, 1, 1)]), ):
            with self.assertRaises(Failed):
                refused()
        self.assertEqual(self.write(heap(S0, 1, 8), rate=1), {K0: (1, 8, 1, 8)})
        with self.assertRaises(Failed) as caught:
            self.delta.write()  # the hooks' records, from an object of a runtime's
        self.assertEqual(caught.exception.status, -errno.EINVAL)
        hooks = Delta(HEAP)
        self.addCleanup(hooks.close)
        hooks.write()
        with self.assertRaises(Failed):
            hooks.write_heap([heap(S0, 1, 8)])

    def test_a_failed_write_keeps_the_baseline(self):
        self.write(heap(S0, 5, 64, 5), rate=1)
        for after in (0, 1, 100):
            with self.assertRaises(Failed) as caught:
                self.write(heap(S0, 9, 64, 9), heap(S1, 1, 8, 1), rate=1, fail_with=-errno.ENOSPC)
            self.assertEqual(caught.exception.status, -errno.ENOSPC)
        self.assertEqual(self.write(heap(S0, 10, 64, 10), heap(S1, 1, 8, 1), rate=1), {K0: (5, 320, 0, 0), K1: (1, 8, 0, 0)})

    def test_two_phases(self):
        first = heap(S0, 5, 64, 5)
        self.assertEqual(self.write(first, rate=1, uncommitted=True), {K0: (5, 320, 0, 0)})
        with self.assertRaises(Failed) as caught:
            self.write(first, rate=1)
        self.assertEqual(caught.exception.status, -errno.EBUSY)
        self.delta.call('abandon')
        self.assertEqual(self.write(first, rate=1, uncommitted=True), {K0: (5, 320, 0, 0)})
        self.delta.call('commit')
        self.assertEqual(self.write(heap(S0, 6, 64, 6), rate=1), {K0: (1, 64, 0, 0)})
        for verb in ('commit', 'abandon'):
            with self.assertRaises(Failed):
                self.delta.call(verb)

    def test_skip(self):
        self.delta.call('skip')
        self.assertEqual(self.write(heap(S0, 5, 64), heap(S1, 3, 8, 3), rate=1), {K0: (0, 0, 5, 320)})
        self.assertEqual(self.write(heap(S0, 6, 64), heap(S1, 4, 8, 4), rate=1), {K0: (1, 64, 6, 384), K1: (1, 8, 0, 0)})
        now = (deltas.HeapRecord * 1)(heap(S0, 60, 64))
        self.delta.call('write_heap_records', now, 1, 1, deltas.WRITE(), None)  # no fn: these are the baseline
        self.assertEqual(self.write(heap(S0, 61, 64), rate=1), {K0: (1, 64, 61, 61 * 64)})

    def test_consumers_do_not_disturb_each_other(self):
        other = Delta(HEAP)
        self.addCleanup(other.close)
        self.assertEqual(self.write(heap(S0, 5, 64, 5), rate=1), {K0: (5, 320, 0, 0)})
        self.assertEqual(self.write(heap(S0, 6, 64, 6), rate=1), {K0: (1, 64, 0, 0)})
        self.assertEqual(by_stack(other.write_heap([heap(S0, 6, 64, 6)], 1)), {K0: (6, 384, 0, 0)})

    def test_a_runtime_names_its_frames(self):
        @deltas.NAME
        def name(ctx, value, out):
            if value == 0x1001:
                out[0].function, out[0].file, out[0].line, out[0].start_line = b'pkg.leaf', b'leaf.go', 7, 3
            return 0

        self.delta.call('set_frames', name, None)
        for n in (1, 2):
            profile = self.delta.write_heap([heap(S0, n, 8)], 1)
            frame = profile.samples[0].frames[0]
            self.assertEqual((frame.function, frame.file, frame.line, frame.address), ('pkg.leaf', 'leaf.go', 7, 0x1001))
            self.assertEqual(profile.samples[0].frames[1].address, 0x2001)  # taken as it is
        self.delta.call('set_frames', deltas.NAME(), None)
        self.assertEqual(self.write(heap(S0, 3, 8), rate=1), {K0: (1, 8, 3, 24)})

    def test_a_frame_of_a_runtime_is_no_address(self):
        profile = self.delta.write_heap([heap(stack(1 << 63 | 5, 0x2001), 1, 8)], 1)
        self.assertEqual([f.address for f in profile.samples[0].frames], [1 << 63 | 5, 0x2000])

    def test_native_addresses_are_named_and_mapped(self):
        setenv = ctypes.cast(ctypes.CDLL(None).setenv, ctypes.c_void_p).value
        code = ctypes.string_at(setenv, 256)
        call = next(i for i in range(256) if code[i] == 0xE8 and
                    abs(int.from_bytes(code[i + 1:i + 5], 'little', signed=True)) < 1 << 20)
        profile = self.delta.write_heap([heap(stack(0x2001, setenv + call + 5), 1, 8)], 1)
        frame = profile.samples[0].frames[1]
        self.assertIn('setenv', frame.function or '')
        self.assertIn('libc', frame.mapping)

    def test_types_cut_the_row(self):
        for types, expected in (('alloc', {K0: (2, 16), K1: (1, 8)}), ('inuse', {K0: (2, 16)})):
            d = Delta(HEAP, 'types=' + types)
            self.addCleanup(d.close)
            profile = d.write_heap([heap(S0, 2, 8), heap(S1, 1, 8, 1)], 1)
            self.assertEqual(by_stack(profile), expected)
            self.assertEqual(profile.duration_ns == 0, types == 'inuse')

    def test_max_samples_folds_the_smallest(self):
        self.delta.call('set', b'max_samples=10')
        stacks = [stack(0x5001 + 16 * i, 0x8001) for i in range(100)]
        dump = [heap(s, i + 1, 10, i + 1) for i, s in enumerate(stacks)]
        profile = self.delta.write_heap(dump, 1)
        self.assertEqual(len(profile.samples), 10)
        self.assertEqual(profile.samples[-1].names, ('[other]',))
        self.assertEqual(profile.total('alloc_objects'), 5050)
        self.assertEqual(min(s.values['alloc_objects'] for s in profile.samples[:-1]), 92)
        self.assertEqual(self.delta.write_heap(dump, 1).samples, [])  # folded rows are delivered as well

    def test_bad_settings_are_refused(self):
        for bad in (b'heap_rate=1', b'symbolize=loud', b'max_samples=-1', b'nonsense'):
            with self.assertRaises(Failed) as caught:
                self.delta.call('set', bad)
            self.assertEqual(caught.exception.status, -errno.EINVAL)


class MixedSizes(unittest.TestCase):
    def test_the_stack_alone_is_the_key(self):
        d = Delta(HEAP | MIXED_SIZES)
        self.addCleanup(d.close)
        found = rows(d.write_heap([heap(S0, 5, SIZE), heap(S0, 5, SIZE), heap(S1, 1, 8, 1)], RATE))
        scale = 1 / (1 - math.exp(-SIZE / RATE))
        self.assertEqual(found[K0, ()], (int(10 * scale), int(10 * SIZE * scale)) * 2)
        found = rows(d.write_heap([heap(S0, 15, SIZE), heap(S1, 1, 8, 1)], RATE))
        self.assertEqual(found[K0, ()][:2], (10, 3525422))

    def test_only_heaps_have_sizes(self):
        self.assertIsNone(Delta(MUTEX | MIXED_SIZES).at)
        self.assertIsNone(Delta(7).at)


class WithIds:
    """The same cases with records that have ids."""

    def setUp(self):
        deltas.give_ids = True
        self.addCleanup(setattr, deltas, 'give_ids', False)
        super().setUp()


class HeapWithIds(WithIds, Heap):
    pass


class MixedSizesWithIds(WithIds, MixedSizes):
    pass


class Ids(unittest.TestCase):
    def setUp(self):
        self.delta = Delta(HEAP)
        self.addCleanup(self.delta.close)

    def write(self, *records):
        return by_stack(self.delta.write_heap(records, 1))

    def test_a_stack_whose_id_was_seen_is_not_read_again(self):
        where = stack(0x1001, 0x2001)
        self.write(heap(where, 5, 64, 5, id=7), heap(S2, 1, 8, 1, id=8))
        where[0] = where[1] = 0x7777
        self.assertEqual(self.write(heap(where, 5, 64, 5, id=7), heap(S2, 1, 8, 1, id=8)), {})
        self.assertEqual(self.write(heap(S2, 2, 8, 2, id=8), heap(where, 6, 64, 6, id=7)), {K2: (1, 8, 0, 0), K0: (1, 64, 0, 0)})

    def test_ids_that_begin_anew_keep_the_baseline(self):
        self.write(heap(S0, 5, 64, 5, id=1), heap(S1, 7, 64, 7, id=2))
        self.assertEqual(deltas.lib.deltaprof_delta_reset_ids(self.delta.at), 0)
        self.assertEqual(self.write(heap(S0, 6, 64, 6, id=2), heap(S1, 9, 64, 9, id=1)), {K0: (1, 64, 0, 0), K1: (2, 128, 0, 0)})
        self.assertEqual(self.write(heap(S1, 9, 64, 9, id=1), heap(S0, 7, 64, 7, id=2)), {K0: (1, 64, 0, 0)})

    def test_two_ids_of_one_stack_are_summed(self):
        self.assertEqual(self.write(heap(S0, 5, 64, 5, id=1), heap(S0, 2, 64, 2, id=2)), {K0: (7, 448, 0, 0)})
        self.assertEqual(self.write(heap(S0, 5, 64, 5, id=1), heap(S0, 3, 64, 3, id=2)), {K0: (1, 64, 0, 0)})

    def test_records_with_and_without_ids_may_be_mixed(self):
        self.write(heap(S0, 5, 64, 5, id=1), heap(S1, 2, 64, 2))
        self.assertEqual(self.write(heap(S0, 6, 64, 6), heap(S1, 3, 64, 3, id=9)), {K0: (1, 64, 0, 0), K1: (1, 64, 0, 0)})
        self.assertEqual(self.write(heap(S0, 7, 64, 7, id=1), heap(S1, 3, 64, 3, id=9)), {K0: (1, 64, 0, 0)})

    def test_a_counter_that_went_to_nothing_begins_anew(self):
        self.write(heap(S0, 10, 64, 10, id=1))
        self.assertEqual(self.write(heap(S0, 0, 0, id=1)), {})
        found = rows(self.delta.write_heap([heap(S0, 3, 64, 3, id=1)], 1))
        self.assertEqual(found, {(K0, label(64)): (3, 192, 0, 0)})

    def test_an_id_that_first_comes_without_an_alloc_gets_its_size_later(self):
        self.assertEqual(self.write(heap(S0, 0, 0, id=1), heap(S1, 1, 8, id=2)), {K1: (1, 8, 1, 8)})
        found = rows(self.delta.write_heap([heap(S0, 2, 64, id=1), heap(S1, 1, 8, id=2)], 1))
        self.assertEqual(found[K0, label(64)], (2, 128, 2, 128))

    def test_an_id_that_breaks_its_promise_misleads_only_itself(self):
        long = stack(*(0x10001 + 16 * k for k in range(100)))
        self.write(heap(S2, 1, 8, id=5), heap(S0, 1, 8, id=6))
        self.assertEqual(self.write(heap(long, 2, 8, id=5), heap(S0, 2, 8, id=6))[K0], (1, 8, 2, 16))
        with self.assertRaises(Failed) as caught:
            self.delta.call('write_heap_records', ctypes.byref(deltas.HeapRecord(None, 3, 1, 1, 0, 0, 5)), 1, 1, deltas.WRITE(lambda *a: 0), None)
        self.assertEqual(caught.exception.status, -errno.EINVAL)

    def test_any_order_of_many_ids_is_right(self):
        rng = random.Random(11)
        stacks = [stack(0x5001 + 16 * i, 0x8001) for i in range(3000)]
        counts, told = [0] * len(stacks), [0] * len(stacks)
        for turn in range(12):
            for i in rng.sample(range(len(stacks)), rng.randrange(len(stacks))):
                counts[i] += rng.randrange(5)
            order = rng.sample(range(len(stacks)), rng.randrange(len(stacks)))
            if turn == 6:
                deltas.lib.deltaprof_delta_reset_ids(self.delta.at)
            dump = [heap(stacks[i], counts[i], 48, counts[i], id=(i * 7 + 1 if turn < 6 else 90000 - i)) for i in order]
            expected = {(0x5000 + 16 * i, 0x8000): (counts[i] - told[i], 48 * (counts[i] - told[i]), 0, 0)
                        for i in order if counts[i] != told[i]}
            self.assertEqual(self.write(*dump), expected)
            for i in order:
                told[i] = counts[i]


class Locks(unittest.TestCase):
    def check(self, kind):
        d = Delta(kind)
        self.addCleanup(d.close)
        self.assertEqual(rows(d.write_block([block(S0, 0, 0), block(S1, 0, 0)])), {})
        self.assertEqual(by_stack(d.write_block([block(S0, 239, 239 * 42)])), {K0: (239, 10038)})
        self.assertEqual(by_stack(d.write_block([block(S0, 239, 239 * 42)])), {})
        self.assertEqual(by_stack(d.write_block([block(S0, 240, 240 * 42)])), {K0: (1, 42)})
        e = Delta(kind)
        self.addCleanup(e.close)
        dump = [block(S0, 239, 239 * 42), block(S1, 42, 42 * 42), block(S0, 7, 7 * 42)]
        self.assertEqual(by_stack(e.write_block(dump)), {K0: (246, 246 * 42), K1: (42, 42 * 42)})
        self.assertEqual(by_stack(e.write_block([block(S0, 1, 42)])), {})
        self.assertEqual(by_stack(e.write_block([block(S0, 3, 126)])), {K0: (2, 84)})

    def test_m1_to_m5_mutex(self):
        self.check(MUTEX)

    def test_m1_to_m5_block(self):
        self.check(BLOCK)


class LocksWithIds(WithIds, Locks):
    pass


class Memory(unittest.TestCase):
    def test_stacks_that_never_return_do_not_fill_the_memory(self):
        code = '''
import deltas
d = deltas.Delta(deltas.BLOCK)
for dump in range(8):
    stacks = [deltas.stack(0x10001 + 16 * (dump * 15000 + i), 7) for i in range(15000)]
    found = d.write_block([deltas.block(s, 1, 1) for s in stacks])
    assert found.total('contentions') == 15000, found.total('contentions')
'''
        env = dict(os.environ, DELTAPROF_CONF='memory=17M,symbolize=none')
        subprocess.run([sys.executable, '-c', code], env=env, check=True, timeout=100)


if __name__ == '__main__':
    unittest.main()
