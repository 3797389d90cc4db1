# SPDX-License-Identifier: MIT
"""Python's functions are in the profiles of a Python program by name, file and line, for each installed interpreter.
"""
import collections
import json
import os

from harness import BUILD, main, names_in, profiles, run, same
from interpreters import interpreters

HERE = os.path.dirname(os.path.abspath(__file__))
APP = os.path.join(HERE, 'victim_python.py')
DEPTH = 512


def python_frames(sample):
    return tuple((f.function, f.file, f.line) for f in sample.frames if f.file)


def expected(r):
    """{stack of the caller of grow: [objects, bytes]}, as the interpreter reports it, cut to `depth` as in profiles."""
    result = collections.defaultdict(lambda: [0, 0])
    for size, stack in json.loads(r.stdout):
        row = result[tuple(map(tuple, stack))]
        row[0] += 1
        row[1] += size + 1
    return dict(result)


def measured(r):
    result = collections.defaultdict(lambda: [0, 0])
    for p in profiles(r):
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            stack = python_frames(s)
            if stack and stack[0][0] == 'grow' and objects and size / objects >= 100000:
                row = result[stack[1:]]
                row[0] += objects
                row[1] += size
    return dict(result)


def compare(path, conf):
    r = run([path, APP], f'heap_rate=1,depth={DEPTH},interval=0,{conf}')
    assert r.status == 0 and not r.stderr, r.stderr
    want, got = expected(r), measured(r)
    deep = [stack for stack in want if len(stack) > DEPTH]
    assert len(deep) == 1
    cut = [stack for stack in got if deep[0][:100] == stack[:100]]
    assert [got[stack] for stack in cut] == [want[deep[0]]], [(len(stack), got[stack]) for stack in cut]
    assert all(deep[0][:len(stack)] == stack for stack in cut)
    for stack in cut + deep:
        want.pop(stack, None)
        got.pop(stack, None)
    missing = [(stack, row, got.get(stack)) for stack, row in want.items() if got.get(stack) != row]
    assert not missing, missing[0]
    assert got == want, [stack for stack in got if stack not in want][0]
    return r


def that_every_line_has_its_allocations():
    for version, path in interpreters():
        print(version, flush=True)
        compare(path, 'python=frames')


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
    assert row('large', 5001) == (100, 100, 100 * 5001), (version, options, extra, dict(by))
    assert row('freed', 7001) == (300, 0, 0), (version, options, extra, dict(by))


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
    list; before 3.11 the frame of a function is."""
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
                assert values['alloc_objects'] >= 10000 and values['inuse_objects'] < 3, (version, wrap, function, values)


def that_other_allocators_of_python_still_work():
    """PYTHONMALLOC and -X dev replace the profiler's allocator, tracemalloc comes before it: the program runs as
    without the profiler."""
    program = "import tracemalloc; tracemalloc.start(); x = [str(i) for i in range(5000)]; del x; tracemalloc.stop(); print(sum(map(int, map(str, range(99)))))"
    for version, path in interpreters():
        for options, extra in (([], {'PYTHONMALLOC': 'malloc'}), (['-X', 'dev'], {}), ([], {})):
            r = run([path, '-S'] + options + ['-c', program], 'heap_rate=4k', extra=extra)
            assert (r.status, r.stdout, r.stderr) == (0, '4851\n', ''), (version, options, extra, r.stderr)
            assert '<module>' in names_in(r, check=False), version


def that_libunwind_finds_the_same_places():
    compare('/usr/bin/python3', 'python=frames,unwind=libunwind')


def that_an_unknown_version_is_logged_once_and_runs_on():
    for version, path in interpreters(('3.6', '3.7', '3.8', '3.15')):
        r = run([path, '-c', 'print(1)'], 'heap_rate=1')
        assert (r.status, r.stdout) == (0, '1\n') and len(r.stderr.splitlines()) == 1 and 'Python 3.' in r.stderr, r.stderr
        assert not [s for p in profiles(r) for s in p.samples if python_frames(s)], version
        spawn = 'import subprocess, sys; print(subprocess.call([sys.executable, "-S", "-c", "print(1)"]))'
        r = run([path, '-S', '-c', spawn], 'heap_rate=1,interval=0')
        assert (r.status, r.stdout) == (0, '1\n0\n') and len(r.stderr.splitlines()) == 1 and len(profiles(r)) == 2, r.stderr
        r = run(['/bin/sh', '-c', f'{path} -S -c "print(1)"; {path} -S -c "print(2)"'], 'heap_rate=4k')
        assert (r.status, r.stdout) == (0, '1\n2\n') and len(r.stderr.splitlines()) == 2, r.stderr


def that_threads_forks_and_finalization_work():
    """Daemon threads that still run at finalization, forked workers, objects that are deleted after their module. Before
    3.11 such threads read the interpreter's memory after it was freed, and some runs without the profiler crash too:
    there the threads end first."""
    program = """
import multiprocessing, os, threading, time, sys
sys.setswitchinterval(1e-4)  # the workers' threads need not wait long for the interpreter's lock
class Late:
    def __del__(self): [bytearray(700) for _ in range(10)]
late = Late()
running = True
def forever():
    while running:
        [bytearray(3000) for _ in range(20)]
        time.sleep(1e-4)  # without the lock, which the main thread wants often
def work(n):
    return len([bytearray(1000) for _ in range(n)])
threads = [threading.Thread(target=forever, daemon=True) for _ in range(4)]
for thread in threads: thread.start()
with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(work, [100] * 8), flush=True)
if os.fork() == 0:
    work(50)
    sys.exit(0)
os.wait()
if sys.version_info < (3, 11):
    running = False
    for thread in threads: thread.join()
"""
    for version, path in interpreters():
        r = run([path, '-W', 'ignore', '-c', program], 'heap_rate=4k', timeout=120)
        assert r.status == 0 and r.stdout == str([100] * 8) + '\n' and not r.stderr, (version, r.status, r.stderr)
        assert 'forever' in names_in(r), version


def that_a_fork_of_one_thread_gives_no_warning():
    """From 3.12 on the interpreter counts the threads of the kernel when it forks, some versions after they called the
    functions that are registered for after a fork. The profiler's thread is there before and after."""
    program = """
import os, threading, time, warnings
warnings.simplefilter('always')
def threads(): return len(os.listdir('/proc/self/task'))
while threads() == 1:
    time.sleep(0.01)
    bytes(1 << 20)
def after():
    for _ in range(300): threading.Lock().acquire()
os.register_at_fork(after_in_parent=after)
for _ in range(3):
    pid = os.fork()
    if not pid: os._exit(threads())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), threads(), flush=True)
if os.fork() == 0:
    kept = [bytes(4000) for _ in range(1000)]
    os._exit(0)
os.wait()
"""
    for version, path in interpreters(('3.12', '3.13', '3.14')):
        r = run([path, '-S', '-c', program], 'heap_rate=4k,interval=50ms')
        assert (r.status, r.stdout, r.stderr) == (0, '1 2\n' * 3, ''), (version, r.stdout, r.stderr)


def that_a_fork_without_a_clock_or_a_system_call_runs_as_without():
    """A thread of the program traps the time stamp counter, or installs a filter that kills a process which calls stat
    with a path. The first is fatal for some interpreters themselves, and for the forked children of others."""
    program = """
import ctypes, os, struct, threading, warnings
warnings.simplefilter('ignore')
libc = ctypes.CDLL(None)
threading.Thread(target=threading.Semaphore(0).acquire, daemon=True).start()
def bpf(code, yes, no, k): return struct.pack('HBBI', code, yes, no, k)
def filter_stat():
    code = ctypes.create_string_buffer(b''.join([bpf(32, 0, 0, 0), bpf(21, 0, 2, 262), bpf(32, 0, 0, 40), bpf(21, 1, 0, 0),
                                                 bpf(6, 0, 0, 0x7fff0000), bpf(6, 0, 0, 0x80000000)]))
    libc.prctl(38, 1, 0, 0, 0)
    return libc.prctl(22, 2, struct.pack('HxxxxxxP', 6, ctypes.addressof(code)))
if %s: os._exit(7)
for _ in range(3):
    pid = os.fork()
    if not pid: os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
os._exit(6)
"""
    for version, path in interpreters(('3.12', '3.13', '3.14')) if os.uname().machine == 'x86_64' else ():
        for confine in 'libc.prctl(26, 2, 0, 0, 0)', 'filter_stat()':
            same([path, '-S', '-c', program % confine], 'heap_rate=4k,interval=20ms,log=none')


def that_a_free_threaded_build_shows_its_functions():
    """Eight threads that run at the same time; their objects are not recorded. DP_TEST_PYTHONS has more interpreters."""
    program = """
import sys, threading, zlib
text = b'abcdefgh' * 4000
def packs(n):
    return [len(zlib.compress(text)) for _ in range(n)]
def waits(n, lock):
    for _ in range(n):
        with lock: packs(1)
lock = threading.Lock()
threads = [threading.Thread(target=packs, args=(300,)) for _ in range(4)] + [threading.Thread(target=waits, args=(300, lock)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled())
"""
    for version, path in interpreters(('3.13t',)):
        print(version, flush=True)
        for conf in ('python=auto', 'python=frames,unwind=libunwind'):
            r = compare(path, conf)
            assert not [s for p in profiles(r) for s in p.samples if dict(s.labels).get('heap') == 'python'], version
        r = run([path, '-S', '-c', program], 'heap_rate=64k,block_rate=1ns,interval=100ms')
        assert (r.status, r.stdout, r.stderr) == (0, 'False\n', ''), (version, r.stdout, r.stderr)
        assert {'packs', 'waits', 'Thread.run'} <= names_in(r), (version, names_in(r))


def that_off_means_native_frames_only():
    r = run(['/usr/bin/python3', APP], 'heap_rate=1,python=off')
    assert r.status == 0 and not r.stderr, r.stderr
    assert not [s for p in profiles(r) for s in p.samples if python_frames(s)]
    assert 'grow' not in names_in(r)


main(globals())
