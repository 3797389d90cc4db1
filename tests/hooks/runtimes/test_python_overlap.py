# SPDX-License-Identifier: MIT
"""import deltaprof: blocks with labels that overlap, and writes that are interrupted, in each installed interpreter."""
import check_profile
import reader
from harness import main, new_directory, profiles, run
from interpreters import interpreters
from python_module import MODULE, grown

# One object labels() in blocks that overlap; blocks of generators that end in the order in which they began.
OVERLAPS = '''
import asyncio, contextvars, sys, threading
import deltaprof
deltaprof.set(heap_rate=1)
sys.setrecursionlimit(5000)
kept = []
def grow(n): kept.append(bytearray(n * 100000 - 1))
shared = deltaprof.labels(endpoint='/shared')
begun, ended = threading.Barrier(2), threading.Event()

@shared
def first(): grow(10); begun.wait()
@shared
def second(): begun.wait(); ended.wait(); grow(11)
def one(): first(); grow(1); ended.set()
def two(): second(); grow(2)
threads = [threading.Thread(target=f) for f in (one, two)]
for t in threads: t.start()
for t in threads: t.join()

async def task(n):
    with shared:
        await asyncio.sleep(n / 100)
        grow(12)
    grow(3)
async def tasks(): await asyncio.gather(task(1), task(2), task(3))
asyncio.run(tasks())

@deltaprof.labels(endpoint='/coroutine')
async def coroutine(): grow(20); await asyncio.sleep(0); grow(21)
asyncio.run(coroutine())

def generator(name):
    with deltaprof.labels(endpoint=name): yield
a, b = generator('/a'), generator('/b')
next(a), next(b)
list(a)
grow(30)
list(b)
grow(4)
def suspended():
    a = generator('/a')
    next(a)
    return a
a = contextvars.Context().run(suspended)
a.close()
grow(5)
with shared, shared: grow(13)
@shared
def recursion(n): recursion(n - 1) if n else grow(14)
recursion(1500)
with deltaprof.labels(endpoint='/last'): grow(40)
grow(6)
try: shared.__exit__()
except KeyError: pass
else: raise AssertionError
'''


def that_blocks_with_labels_may_overlap():
    want = {(): [2 + 3 + 3, 1 + 2 + 3 * 3 + 4 + 5 + 6],
            (('endpoint', '/shared'),): [1 + 1 + 3 + 1 + 1, 10 + 11 + 3 * 12 + 13 + 14],
            (('endpoint', '/coroutine'),): [2, 41],
            (('endpoint', '/b'),): [1, 30],
            (('endpoint', '/last'),): [1, 40]}
    for version, path in interpreters():
        r = run([path, '-S', '-c', OVERLAPS], 'heap_rate=1G,interval=0', extra=MODULE)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        got = grown(r)
        assert got == want, (version, got)


def that_blocks_with_a_trace_context_may_overlap():
    program = '''
import deltaprof
deltaprof.set(heap_rate=1)
kept = []
def make(n): kept.append(bytearray(n * 100000 - 1))
shared = deltaprof.trace('ab' * 16, 'cd' * 8)
def generator():
    with shared: yield
def both():
    with shared:
        with shared: make(1)
        make(2)
    make(3)
both()
a, b = generator(), generator()
next(a), next(b)
list(a)
make(4)
list(b)
make(5)
'''
    traced = 'ab' * 16, 'cd' * 8
    want = {(1, traced), (2, traced), (3, None), (4, traced), (5, None)}
    for version, path in interpreters():
        r = run([path, '-S', '-c', program], 'heap_rate=1G,events=on,interval=0', extra=MODULE)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        rows = [(s.values['alloc_space'] // 100000, dict(s.labels)) for p in profiles(r, kind='events') for s in p.samples if 'make' in s.names]
        got = {(n, (labels['trace_id'], labels['span_id']) if 'trace_id' in labels else None) for n, labels in rows if n}
        assert got == want, (version, got)


def that_a_write_may_be_interrupted():
    """By the exception of a signal handler, which the caller gets and after which the next write covers this time as well;
    by a fork of another thread; by a handler that writes."""
    program = '''
import deltaprof, io, os, signal, sys, threading, time
deltaprof.set(heap_rate=1)
class Interrupted(Exception): pass
def interrupt(*_): raise Interrupted
def again(*_):
    try: deltaprof.write('heap', io.BytesIO())
    except RuntimeError as e: said.append(str(e))
kept, said, late = [], [], []
for i in range(500):
    exec(compile('\\n' * i + 'kept.append(bytearray(9999))', f'file{i}.py', 'exec'))

class Slow(io.BytesIO):
    def write(self, data):
        os.kill(os.getpid(), signal.SIGUSR1)
        return super().write(data)
signal.signal(signal.SIGUSR1, again)
f = Slow()
deltaprof.write('block', f)
deltaprof.write('mutex', f)
assert not said, said
signal.signal(signal.SIGALRM, interrupt)
for _ in range(10):
    f = io.BytesIO()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        deltaprof.write('heap', f)
        time.sleep(10)
    except Interrupted: pass
    else: late.append('slept')
f = Slow()
deltaprof.write('heap', f)
assert said == ['deltaprof.write: called by a function that interrupted write'], said
open(sys.argv[1], 'wb').write(f.getvalue())

ends = False
def writes():
    while not ends: deltaprof.write('block', io.BytesIO())
thread = threading.Thread(target=writes)
thread.start()
for _ in range(5):
    time.sleep(0.002)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        deltaprof.write('block', io.BytesIO())
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert not status, status
ends = True
thread.join()
print(len(late))
'''
    for version, path in interpreters():
        file = new_directory() + '/heap.pb.gz'
        r = run([path, '-W', 'ignore', '-S', '-c', program, file], 'heap_rate=1G,interval=0', extra=MODULE)
        assert r.status == 0 and r.stdout == '0\n' and not r.stderr, (version, r.status, r.stdout, r.stderr[-2000:])
        check_profile.check(file)
        kept = sum(s.values['inuse_objects'] for s in reader.load(file).samples if s.values['inuse_space'] == 10000 * s.values['inuse_objects'])
        assert kept == 500, (version, kept)


main(globals())
