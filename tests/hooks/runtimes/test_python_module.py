# SPDX-License-Identifier: MIT
"""import deltaprof: labels and trace contexts that belong to their task, start and write without a preload, in each installed
interpreter."""
import collections
import os
import re

import check_profile
import reader
from harness import BUILD, main, new_directory, profiles, run
from interpreters import MORE, interpreters
from python_module import MODULE, grown

ALONE = {**MODULE, 'LD_LIBRARY_PATH': f'{BUILD}/src:{BUILD}/runtime_hooks/python'}

# grow(n) keeps a bytearray of that many times 100,000 bytes.
LABELS = MORE + '''
import asyncio, contextvars, queue, threading
import deltaprof
kept = []
def grow(n): kept.append(bytearray(n * 100000 - MORE))
try: deltaprof.set(heap_rate=1)
except RuntimeError: deltaprof.start(heap_rate=1, interval=0)

async def leaf(name, n):
    with deltaprof.labels(endpoint=name):
        grow(n)
        await asyncio.sleep(0)
        grow(n)
        with deltaprof.labels(step='inner'):
            await asyncio.gather(asyncio.create_task(child(n + 1)), asyncio.sleep(0))
            await asyncio.get_running_loop().run_in_executor(None, grow, n + 2)
            await asyncio.to_thread(grow, n + 3)
        grow(n)
    await asyncio.sleep(0)
    grow(n + 4)

async def child(n):
    await asyncio.sleep(0)
    grow(n)

async def both():
    grow(1)
    await asyncio.gather(leaf('/a', 10), leaf('/b', 20))
    grow(1)

asyncio.run(both())

@deltaprof.labels(endpoint='/decorated', tenant='x')
def decorated(depth):
    grow(30)
    if depth: decorated(depth - 1)
decorated(2)

def generator():
    for _ in range(2):
        grow(31)
        yield
with deltaprof.labels(endpoint='/generator'):
    list(generator())
    thread = threading.Thread(target=grow, args=(32,))
    thread.start(); thread.join()
context = contextvars.copy_context()
def inside():
    with deltaprof.labels(endpoint='/context'):
        grow(33)
        contextvars.Context().run(grow, 34)
context.run(inside)
many = [contextvars.ContextVar(str(i)) for i in range(2000)]
for i, v in enumerate(many): v.set(i)
with deltaprof.labels(endpoint='/many'):
    grow(35)
try:
    with deltaprof.labels(endpoint='/error'): raise KeyError
except KeyError:
    grow(36)
'''


def that_labels_stay_with_their_task():
    want = {(): [2 + 2 + 2 + 3, 1 + 1 + (12 + 22) + (14 + 24) + 32 + 34 + 36],
            (('endpoint', '/decorated'), ('tenant', 'x')): [3, 90],
            (('endpoint', '/generator'),): [2, 62],
            (('endpoint', '/context'),): [1, 33],
            (('endpoint', '/many'),): [1, 35]}
    for name, n in (('/a', 10), ('/b', 20)):
        want[(('endpoint', name),)] = [3, 3 * n]
        want[(('endpoint', name), ('step', 'inner'))] = [2, n + 1 + n + 3]
    for version, path in interpreters():
        for python in ('auto', 'frames') if version == '3.11' else ('auto',):
            r = run([path, '-S', '-c', LABELS], f'heap_rate=1G,interval=0,python={python}', extra=MODULE)
            assert r.status == 0 and not r.stderr, (version, r.stderr)
            got = grown(r)
            assert got == want, (version, python, got)


def that_a_label_may_be_no_text():
    """The name of a file may have bytes that are not UTF-8, which Python turns into surrogates."""
    program = 'import deltaprof, os\nwith deltaprof.labels(path=os.fsdecode(b"a\\xff")): kept = bytearray(3000000)\n'
    for version, path in interpreters():
        r = run([path, '-S', '-c', program], 'heap_rate=1,interval=0,memory=512M', extra=MODULE)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        paths = {dict(s.labels).get('path') for p in profiles(r) for s in p.samples if s.values['alloc_space'] >= 3000000}
        assert len(paths) == 1 and paths.pop().strip('\ufffd') == 'a', (version, paths)


# make(n) keeps a bytearray of that many times 100,000 bytes, of which the trace says which request made it.
TRACES = '''
import asyncio, threading
import deltaprof
kept = []
def make(n): kept.append(bytearray(n * 100000 - 1))
deltaprof.set(heap_rate=1)
make(1)
header = lambda n: '00-%s-%s-01' % (('%02x' % n) * 16, ('%02x' % n) * 8)

async def request(n):
    with deltaprof.trace(header(n)):
        make(n)
        await asyncio.sleep(0)
        make(n)
        with deltaprof.labels(endpoint='/x'), deltaprof.trace(0x11 + n << 8, bytes([n] * 8)):  # a number and bytes
            await asyncio.gather(child(n + 1), asyncio.sleep(0))
            await asyncio.to_thread(make, n + 2)
        make(n)
    await asyncio.sleep(0)
    make(n + 3)

async def child(n):
    await asyncio.sleep(0)
    make(n)

async def both():
    await asyncio.gather(request(10), request(20))
asyncio.run(both())
with deltaprof.trace(header(40)):
    make(40)
    for bad in None, '', '00-xx-11-01', header(41)[:-5], '00-%s-%s-01' % ('0' * 32, '1' * 16):
        with deltaprof.trace(bad):
            make(41)
    with deltaprof.trace('ab' * 16, 'cd' * 8):  # hex
        make(42)
    thread = threading.Thread(target=make, args=(43,))
    thread.start(); thread.join()
for bad in (b'1', 5), ('zz', 5), (1 << 128, 5):
    try: deltaprof.trace(*bad)
    except (ValueError, OverflowError): pass
    else: raise AssertionError(bad)
make(44)
'''


def that_a_trace_context_stays_with_its_task():
    want = collections.Counter({(1, None): 1, (43, None): 1, (44, None): 1, (40, '28' * 16, '28' * 8): 1, (41, None): 5, (42, 'ab' * 16, 'cd' * 8): 1})
    for n in 10, 20:
        ids = '%02x' % n * 16, '%02x' % n * 8
        inner = '%032x' % (0x11 + n << 8), ids[1]
        want.update({(n, *ids): 3, (n + 1, *inner): 1, (n + 2, *inner): 1, (n + 3, None): 1})
    for version, path in interpreters():
        r = run([path, '-S', '-c', TRACES], 'heap_rate=1G,events=on,interval=0', extra=MODULE)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        got = collections.Counter()
        for p in profiles(r, kind='events'):
            for s in p.samples:
                size, labels = s.values['alloc_space'], dict(s.labels)
                if 'make' in s.names and size >= 100000:
                    ids = (labels['trace_id'], labels['span_id']) if 'trace_id' in labels else (None,)
                    got[size // 100000, *ids] += s.values['alloc_objects']
        assert got == want, (version, got - want, want - got)
        assert not any('trace_id' in dict(s.labels) for p in profiles(r) for s in p.samples)


def that_waits_carry_labels_too():
    program = '''
import deltaprof, threading, time
lock = threading.Lock()
def wait():
    with deltaprof.labels(endpoint='/waits'), lock: pass
for _ in range(20):  # a thread that comes late does not wait
    lock.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.01)
    lock.release()
    thread.join()
'''
    for version, path in interpreters():
        r = run([path, '-S', '-c', program], 'block_rate=1ns,interval=0', extra=MODULE)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        assert [s for p in profiles(r, kind='block') for s in p.samples if ('endpoint', '/waits') in s.labels and 'wait' in s.names], version


def that_the_module_starts_and_writes_without_a_preload():
    program = MORE + '''
import deltaprof, io
from deltaprof import *
assert set is __builtins__.set
def small(n): return [object() for _ in range(n)]
def grow(n): return bytearray(n)
before = small(100)
deltaprof.start(heap_rate=1, interval=0, out='none', memory='512M')
with deltaprof.labels(endpoint='/x'):
    kept = small(1000), grow(100000 - MORE)
del before
deltaprof.write('heap', sys.argv[1])
small(50)
f = io.BytesIO()
deltaprof.write('heap', f)
open(sys.argv[2], 'wb').write(f.getvalue())
try: deltaprof.write('heap', '/nowhere/at/all')
except FileNotFoundError: pass
else: raise AssertionError
try: deltaprof.set(nonsense=1)
except ValueError as e: print(e)
try: deltaprof.start()
except RuntimeError as e: print(e)
try: deltaprof.write('memory', f)
except ValueError as e: print(e)
deltaprof.stop()
print(sys.getsizeof(object()), deltaprof.version)
'''
    for version, path in interpreters():
        first, second = new_directory() + '/1.pb.gz', new_directory() + '/2.pb.gz'
        r = run([path, '-S', '-c', program, first, second], preload=False, extra=ALONE)
        said = r.stdout.splitlines()
        assert r.status == 0 and said[:3] == ['deltaprof.set: a bad key or value: nonsense=1', 'deltaprof.start: the profiler runs already',
                                              "deltaprof.write: 'memory' is none of heap, mutex, block, cpu, chain, wall"], (version, r.stdout, r.stderr)
        size = int(said[3].split()[0])
        assert re.match(r'\d+\.\d+\.\d+$', said[3].split()[1])
        assert len(r.stderr.splitlines()) == 1 and 'nonsense' in r.stderr, r.stderr
        for path, want in ((first, (1000, 1000, 1)), (second, (50, 1000, 0))):
            check_profile.check(path)
            got = collections.Counter()
            for s in reader.load(path).samples:
                labels = dict(s.labels)
                mean = (s.values['alloc_space'] or s.values['inuse_space']) / (s.values['alloc_objects'] or s.values['inuse_objects'])
                if 'small' in s.names and mean == size:
                    assert labels['heap'] == 'python', labels
                    got['alloc'] += s.values['alloc_objects']
                    got['inuse'] += s.values['inuse_objects']
                if 'grow' in s.names and mean == 100000:
                    assert labels == {'heap': 'python', 'endpoint': '/x'}, labels
                    got['large'] += s.values['alloc_objects']
            assert (got['alloc'], got['inuse'], got['large']) == want, (version, got, want)


def that_the_key_thread_makes_thread_names_labels():
    program = '''
import ctypes, threading
kept = []
def grow(): kept.append(bytearray(1 << 20))
def work(name):
    grow()
    ctypes.CDLL(None).prctl(15, name)
    grow()
for name in (b'first', b'second'):
    thread = threading.Thread(target=work, args=(name,))
    thread.start()
    thread.join()
'''
    for conf, want in (('thread=on', {'python3': 2, 'first': 1, 'second': 1}), ('thread=off', {None: 4})):
        r = run(['/usr/bin/python3', '-S', '-c', program], f'heap_rate=1,interval=0,memory=512M,{conf}')
        assert r.status == 0 and not r.stderr, r.stderr
        got = collections.Counter()
        for p in profiles(r):
            for s in p.samples:
                if 'grow' in s.names and s.values['alloc_space'] >= 1 << 20:
                    got[dict(s.labels).get('thread')] += s.values['alloc_objects']
        assert got == want, got


def that_off_leaves_the_program_alone():
    r = run(['/usr/bin/python3', '-S', '-c', LABELS], 'heap_rate=64k,python=off', extra=MODULE)
    assert r.status == 0 and not r.stderr, r.stderr


main(globals())
