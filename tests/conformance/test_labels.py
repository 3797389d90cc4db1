# SPDX-License-Identifier: MIT
"""Labels that a program pushes, in profiles: each allocation carries those of its thread, exactly."""
import ctypes
import threading
import unittest

from deltas import HEAP, Delta, lib

lib.deltaprof_label_push.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
lib.deltaprof_alloc_sampled.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t]
lib.deltaprof_free_sampled.argtypes = [ctypes.c_uint32, ctypes.c_void_p]
lib.deltaprof_heap_register.restype = ctypes.c_uint32
assert lib.deltaprof_start(b'heap_rate=1,mutex_rate=0,block_rate=0,out=none') == 0
ARENA = lib.deltaprof_heap_register(b'arena')
next_block = [1 << 40]


def allocate(n_bytes):
    next_block[0] += 4096
    block = next_block[0]
    lib.deltaprof_alloc_sampled(ARENA, block, n_bytes)
    return block


def sums(profile):
    """{labels but heap: [objects, bytes, objects in use, bytes in use]} of the arena."""
    found = {}
    for s in profile.samples:
        labels = dict(s.labels)
        if labels.pop('heap', None) == 'arena':
            to = found.setdefault(tuple(sorted(labels.items())), [0, 0, 0, 0])
            for i, value in enumerate(s.values.values()):
                to[i] += value
    return found


class Labels(unittest.TestCase):
    def setUp(self):
        self.delta = Delta(HEAP)
        self.addCleanup(self.delta.close)
        self.assertEqual(lib.deltaprof_delta_skip(ctypes.c_void_p(self.delta.at)), 0)

    def test_each_allocation_carries_its_labels(self):
        allocate(10)
        lib.deltaprof_label_push(b'endpoint', b'/x')
        block = allocate(100)
        lib.deltaprof_label_push(b'tenant', 'grün'.encode())
        allocate(1000)
        lib.deltaprof_label_push(b'endpoint', b'/inner')
        allocate(3)
        for _ in range(3):
            lib.deltaprof_label_pop()
        allocate(20)
        lib.deltaprof_free_sampled(ARENA, block)
        self.assertEqual(sums(self.delta.write()), {
            (): [2, 30, 2, 30], (('endpoint', '/x'),): [1, 100, 0, 0], (('endpoint', '/x'), ('tenant', 'grün')): [1, 1000, 1, 1000],
            (('endpoint', '/inner'), ('tenant', 'grün')): [1, 3, 1, 3]})

    def test_threads_have_labels_of_their_own(self):
        def work(name):
            lib.deltaprof_label_push(b'worker', name)
            for _ in range(200):
                lib.deltaprof_free_sampled(ARENA, allocate(7))

        threads = [threading.Thread(target=work, args=(b'%d' % i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = sums(self.delta.write())
        for i in range(4):
            self.assertEqual(found[(('worker', str(i)),)], [200, 1400, 0, 0])

    def test_bytes_that_are_no_utf_8_do_not_break_the_profile(self):
        lib.deltaprof_label_push(b'weird', b'\xff\xfe<script>')
        lib.deltaprof_free_sampled(ARENA, allocate(9))
        lib.deltaprof_label_pop()
        (labels, values), = [(k, v) for k, v in sums(self.delta.write()).items() if k and k[0][0] == 'weird']
        self.assertEqual(values, [1, 9, 0, 0])
        self.assertTrue(labels[0][1].endswith('<script>'))


if __name__ == '__main__':
    unittest.main()
