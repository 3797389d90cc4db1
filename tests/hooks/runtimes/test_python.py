# SPDX-License-Identifier: MIT
"""Python's functions are in the profiles of a Python program by name, file and line, for each installed interpreter.
"""
import collections
import json
import os

from harness import main, names_in, profiles, run, same
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
        row[1] += size
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


def that_a_stack_of_a_hundred_functions_is_whole():
    """Two of three are called through native code, as methods and decorators do."""
    program = """
import functools
def f0(keep):
    keep.append(bytes(10 << 20))
for i in range(1, 100):
    call = (f'functools.partial(f{i - 1})(keep)', f'list(map(f{i - 1}, [keep]))', f'f{i - 1}(keep)')[i % 3]
    exec(f'def f{i}(keep): {call}')
f99([])
"""
    for version, path in interpreters():
        r = run([path, '-c', program], 'interval=0,cpu_rate=0')
        assert r.status == 0 and not r.stderr, r.stderr
        stacks = [[f.function for f in s.frames] for p in profiles(r) for s in p.samples if s.values['alloc_space'] >= 10 << 20]
        assert len(stacks) == 1, (version, len(stacks))
        functions = [name for name in stacks[0] if name[:1] == 'f' and name[1:].isdigit()]
        assert functions == [f'f{i}' for i in range(100)] and '[truncated]' not in stacks[0], (version, functions[-1:], len(stacks[0]))


def that_a_code_object_at_the_address_of_another_has_its_own_name():
    """Each function is gone before the next one is made, often at the same place; its call has the same position."""
    program = """
for i in range(500):
    scope = {}
    exec(compile('def f%d():\\n    return bytearray(100000)\\nf%d()' % (i, i), 'file%d' % (i % 7), 'exec'), scope)
    del scope
"""
    for version, path in interpreters():
        r = run([path, '-S', '-c', program], 'heap_rate=1,interval=0')
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        got = collections.Counter()
        for p in profiles(r):
            for s in p.samples:
                f = python_frames(s)[:1]
                if f and f[0][1].startswith('file') and s.values['alloc_space'] > 100000:
                    got[f[0]] += s.values['alloc_objects']
        assert got == {('f%d' % i, 'file%d' % (i % 7), 2): 1 for i in range(500)}, (version, len(got))


def that_libunwind_finds_the_same_places():
    compare('/usr/bin/python3', 'python=frames,unwind=libunwind')


def that_an_unknown_version_is_logged_once_and_runs_on():
    for version, path in interpreters(('3.6', '3.7', '3.8', '3.16')):
        r = run([path, '-c', 'print(1)'], 'heap_rate=1')
        assert (r.status, r.stdout) == (0, '1\n') and len(r.stderr.splitlines()) == 1 and 'Python 3.' in r.stderr, r.stderr
        assert not [s for p in profiles(r) for s in p.samples if python_frames(s)], version
        spawn = 'import subprocess, sys; print(subprocess.call([sys.executable, "-S", "-c", "print(1)"]))'
        r = run([path, '-S', '-c', spawn], 'heap_rate=1,interval=0')
        assert (r.status, r.stdout) == (0, '1\n0\n') and len(r.stderr.splitlines()) == 1 and len(profiles(r)) >= 2, r.stderr
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
    for version, path in interpreters(('3.12', '3.13', '3.14', '3.15')):
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
    for version, path in interpreters(('3.12', '3.13', '3.14', '3.15')) if os.uname().machine == 'x86_64' else ():
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
