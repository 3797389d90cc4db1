# SPDX-License-Identifier: MIT
"""Python's objects are the heap `python`, each counted once, whatever allocators the interpreter uses.
"""
import collections

from harness import BUILD, main, names_in, profiles, run
from interpreters import interpreters, more


def count_once(path, version, options=(), extra=None, first='', others=()):
    """Known objects: in the interpreter's own blocks, and in blocks of malloc. Freed objects are not in use. The first
    allocations are for the case in which the interpreter removed the profiler's allocator when it started."""
    program = """
import sys
def first(): return [bytes(100000) for _ in range(50)]
f = first()
FIRST
def small(n): return [object() for _ in range(n)]
def large(n): return [bytearray(5000) for _ in range(n)]
def freed(n):
    for _ in range(n): (object(), bytearray(7000))
f += first(); s = small(1000); l = large(100); freed(300)
print(sys.getsizeof(object()), sys.getsizeof(bytearray()), flush=True)
import os; os._exit(0)
""".replace('FIRST', first)
    r = run([path, '-S', *options, '-c', program], 'heap_rate=1,memory=512M,interval=0', extra=extra)
    assert r.status == 0 and not r.stderr, (version, r.stderr)
    size, header = map(int, r.stdout.split())
    by = collections.defaultdict(collections.Counter)
    for p in profiles(r, check=False):
        for s in p.samples:
            names = [f.function for f in s.frames if f.file]
            function = next((n.split('.')[0] for n in names if n.split('.')[0] in ('small', 'large', 'freed')), None)
            heap = dict(s.labels).get('heap')
            if function and heap not in others:
                assert heap == 'python', (version, options, extra, s)
                mean = s.values['alloc_space'] / s.values['alloc_objects'] if s.values['alloc_objects'] else 0
                by[function, mean].update(s.values)
    def row(function, mean):
        return tuple(by[function, mean][k] for k in ('alloc_objects', 'inuse_objects', 'inuse_space'))
    assert row('small', size) == (1000, 1000, 1000 * size), (version, options, extra, dict(by))
    assert row('large', 5000 + more(version)) == (100, 100, 100 * (5000 + more(version))), (version, options, extra, dict(by))
    assert row('freed', 7000 + more(version)) == (300, 0, 0), (version, options, extra, dict(by))


def that_objects_count_once_in_the_heap_python():
    for version, path in interpreters():
        count_once(path, version)


def that_sampled_sums_are_near_what_the_program_asked_for():
    """Requests that the interpreter serves itself, and those that it passes on to malloc: none is lost, none counts twice.
    Each function asks for 40 MB and more, which are some 2,500 samples."""
    program = """
from itertools import repeat
def small(n):
    for _ in repeat(None, n): bytes(400 - 33)
def large(n):
    for _ in repeat(None, n): bytes(2000 - 33)
def grown(n):
    for _ in repeat(None, n):
        block = bytearray(700)
        block += bytes(1000)
def zeroed(n):
    for _ in repeat(None, n): bytearray(1500)
small(100000); large(20000); grown(16000); zeroed(27000)
import os; os._exit(0)
"""
    want = {'small': 100000 * 400, 'large': 20000 * 2000, 'grown': 16000 * (701 + 1033), 'zeroed': 27000 * 1501}
    for version, path in interpreters():
        for extra in {}, {'PYTHONMALLOC': 'malloc'}:
            r = run([path, '-S', '-c', program], 'heap_rate=16k,interval=0', extra=extra)
            assert r.status == 0 and not r.stderr, (version, r.stderr)
            got = collections.Counter()
            for p in profiles(r):
                for s in p.samples:
                    function = next((f.function for f in s.frames if f.function in want), None)
                    if function:
                        got[function, dict(s.labels).get('heap')] += s.values['alloc_space']
            assert {heap for _, heap in got} == {'python'}, (version, extra, got)
            for function, size in want.items():
                more = {'grown': 16000 * 2000}.get(function, 0)  # at most what growing asks for
                assert 0.88 * size < got[function, 'python'] < 1.12 * (size + more), (version, extra, function, got)


def that_they_do_so_too_if_the_interpreter_sets_its_own_allocators():
    """tracemalloc's own tables are blocks of malloc. What it puts back when it stops is not the profiler's."""
    by_malloc = {'PYTHONMALLOC': 'malloc'}
    start = 'import _tracemalloc as trace; trace.start()'
    for version, path in interpreters():
        count_once(path, version, extra=by_malloc)
        count_once(path, version, ['-X', 'dev'])
        count_once(path, version, first=start, others=(None,))
        count_once(path, version, first=start + '; f += first(); trace.stop()')
    count_once(path, version, ['-X', 'tracemalloc'], by_malloc, 'import _tracemalloc; _tracemalloc.stop()')


def that_blocks_of_samples_lie_at_page_boundaries_and_are_freed():
    """The interpreter's own allocator has no float at the first byte of a page. It counts the blocks that it gets from
    malloc, and that count is as without the profiler. The interpreter keeps up to 100 freed floats for the next ones,
    and before 3.11 the last frame of each function: those blocks are in use until they are collected."""
    program = """
import gc, sys
def make(n): return [i * 1.5 for i in range(n)]
def grow(n):
    rows, text = [], ''
    for i in range(n):
        rows.append(str(i))
        text += 'abcdefgh'
    return len(rows + [text]) and (bytes(700), bytearray(3000))
blocks = sys.getallocatedblocks()
at_page = sum(id(x) & 4095 == 0 for _ in range(6) for x in make(40000))
for _ in range(20): grow(2000)
print(at_page > 0, blocks - sys.getallocatedblocks() < 100, flush=True)
del make, grow
gc.collect()
import os; os._exit(0)
"""
    for version, path in interpreters():
        others = ([], {'PYTHONMALLOC': 'malloc'}), (['-X', 'dev'], {}), (['-X', 'tracemalloc'], {})
        for options, extra in (([], {}), *others) if path == '/usr/bin/python3' else (([], {}),):
            own = not options and not extra
            r = run([path, '-S', *options, '-c', program], 'heap_rate=256k,interval=0', extra=extra)
            assert r.status == 0 and not r.stderr and (r.stdout == 'True True\n' or not own), (version, options, extra, r.stdout, r.stderr)
            total = collections.defaultdict(collections.Counter)
            for p in profiles(r):
                for s in p.samples:
                    for function in {f.function for f in s.frames if f.file} & {'make', 'grow'}:
                        total[function].update(s.values)
            for function, values in total.items():
                assert values['alloc_objects'] > 0 and values['inuse_objects'] == 0, (version, options, extra, function, values)
            assert len(total) == 2, (version, options, extra, total)


def that_the_interpreters_own_free_stays_until_a_sample_needs_a_hook():
    """A sample whose block comes from malloc is freed there. When each event becomes a sample, the frees are hooked, also
    while tracemalloc has wrapped the profiler's allocator, and after it has put that back. No complex number is kept in a free
    list, but 100 from 3.15 on; before 3.11 the frame of a function is."""
    program = """
import ctypes, sys
import deltaprof
class Allocator(ctypes.Structure): _fields_ = [(name, ctypes.c_void_p) for name in ('ctx', 'malloc', 'calloc', 'realloc', 'free')]
def hooked():
    a = Allocator()
    ctypes.pythonapi.PyMem_GetAllocator(2, ctypes.byref(a))
    ranges = [l.split()[0].split('-') for l in open('/proc/self/maps') if 'libdeltaprof_preload' in l]
    return [any(int(x, 16) <= f < int(y, 16) for x, y in ranges) for f in (a.malloc, a.free)]
def early(n): return [i * 1.5j for i in range(n)]
def late(n): return [i * 1.5j for i in range(n)]
def last(n): return [i * 1.5j for i in range(n)]
kept = early(200000)
before = hooked()
WRAP
deltaprof.set(heap_rate=1)
some = late(10000)
between = hooked()
del some, kept
UNWRAP
last(10000)
print(before, between, hooked(), flush=True)
import os; os._exit(0)
"""
    trace = ('import _tracemalloc; _tracemalloc.start()', '_tracemalloc.stop()')
    module = {'PYTHONPATH': BUILD + '/runtime_hooks/python', 'PYTHONDONTWRITEBYTECODE': '1'}
    for version, path in interpreters():
        for wrap, unwrap in (('', ''), trace):
            text = program.replace('UNWRAP', unwrap).replace('WRAP', wrap)
            r = run([path, '-S', '-c', text], 'heap_rate=256k,interval=0,memory=512M', extra=module)
            assert (r.status, r.stdout, r.stderr) == (0, '[True, False] [True, True] [True, True]\n', ''), (version, wrap, r.stdout, r.stderr)
            total = collections.defaultdict(collections.Counter)
            for p in profiles(r):
                for s in p.samples:
                    for function in {f.function for f in s.frames if f.file} & {'early', 'late', 'last'}:
                        total[function].update(s.values)
            assert len(total) == 3, (version, wrap, total)
            for function, values in total.items():
                kept = 100 if version.startswith('3.15') else 2
                assert values['alloc_objects'] >= 10000 - kept and values['inuse_objects'] <= kept, (version, wrap, function, values)


def that_other_allocators_of_python_still_work():
    """PYTHONMALLOC and -X dev replace the profiler's allocator, tracemalloc comes before it: the program runs as
    without the profiler."""
    program = "import tracemalloc; tracemalloc.start(); x = [str(i) for i in range(5000)]; del x; tracemalloc.stop(); print(sum(map(int, map(str, range(99)))))"
    for version, path in interpreters():
        for options, extra in (([], {'PYTHONMALLOC': 'malloc'}), (['-X', 'dev'], {}), ([], {})):
            r = run([path, '-S'] + options + ['-c', program], 'heap_rate=4k', extra=extra)
            assert (r.status, r.stdout, r.stderr) == (0, '4851\n', ''), (version, options, extra, r.stderr)
            assert '<module>' in names_in(r, check=False), version


main(globals())
