# SPDX-License-Identifier: MIT
"""Waits for Python's global lock: the block profile has the waiting threads, the mutex profile the Python line that
held the lock."""
from harness import main, profiles, run, three_tries, unless_busy
from interpreters import interpreters

PROGRAM = '''
import threading, time
stop = False
def compute(n):
    x = 0
    for i in range(n):
        x += i * i
    return x
def hog():
    while not stop:
        compute(100000)
def light():
    for _ in range(30):
        time.sleep(0.001)
hogs = [threading.Thread(target=hog)]
lights = [threading.Thread(target=light) for _ in range(2)]
for t in hogs + lights: t.start()
for t in lights: t.join()
stop = True
for t in hogs: t.join()
'''
# Locks the mutex of the interpreter's lock, lets a thread want that lock, and unlocks once the thread waits. The switch
# interval marks the lock in memory, and keeps threads from switching.
MUTEX = '''
import ctypes, os, sys, threading, time
MARK, MUTEX = 123456789, 32 + 48
sys.setswitchinterval(MARK / 1e6)
keeps, lets_go = ctypes.PyDLL(None), ctypes.CDLL(None)
at = ctypes.addressof(ctypes.c_char.in_dll(keeps, '_PyRuntime'))
while ctypes.c_uint64.from_address(at).value != MARK: at += 8
word = ctypes.c_int.from_address(at + MUTEX)
get, put = os.pipe()
ready = False
def wants():
    global ready
    ready = True
    lets_go.read(get, ctypes.create_string_buffer(1), 1)
def hold():
    keeps.pthread_mutex_lock(ctypes.byref(word))
    keeps.write(put, b'x', 1)
    while word.value != 2: pass
    keeps.usleep(1000)
    keeps.pthread_mutex_unlock(ctypes.byref(word))
thread = threading.Thread(target=wants)
thread.start()
while not ready: time.sleep(0.001)
hold()
thread.join()
'''
CONF = 'heap_rate=0,block_rate=1ns,mutex_rate=1,interval=0'


def of_gil(r, kind):
    return [s for p in profiles(r, kind=kind) for s in p.samples if dict(s.labels).get('lock') == 'gil']


def delay(samples):
    return sum(s.values['delay'] for s in samples)


def that_the_line_that_holds_the_lock_is_named():
    for version, path in interpreters():
        names_the_line(version, path)


@three_tries
def names_the_line(version, path):
    r = run([path, '-S', '-c', PROGRAM], CONF)
    assert r.status == 0 and not r.stderr, (version, r.stderr)
    block, mutex = of_gil(r, 'block'), of_gil(r, 'mutex')
    assert delay(block) == delay(mutex) > 0, (version, delay(block), delay(mutex))
    held, by_threads = [s for s in mutex if 'hog' in s.names], [s for s in mutex if s.names != ('[hand-over]',)]
    unless_busy(delay(held) > delay(by_threads) / 2, version, [(s.names, s.values) for s in mutex])
    lines = {(f.function, f.line) for s in held for f in s.frames if f.file == '<string>'}
    assert lines & {('compute', n) for n in (6, 7)} and ('hog', 11) in lines, (version, lines)
    others = [s for p in profiles(r, kind='block') for s in p.samples if 'compute' in s.names and dict(s.labels).get('lock') != 'gil']
    assert not others, (version, [(s.names, s.labels) for s in others])
    waited = [s for s in block if 'light' in s.names]
    unless_busy(delay(waited) > delay(block) / 2, version, [(s.names, s.values) for s in block])


def that_waits_for_its_mutex_are_of_the_lock_too():
    for version, path in interpreters():
        r = run([path, '-S', '-c', MUTEX], CONF)
        assert r.status == 0 and not r.stderr, (version, r.stderr)
        block, mutex = of_gil(r, 'block'), of_gil(r, 'mutex')
        assert delay(block) == delay(mutex) > 0, (version, delay(block), delay(mutex))
        assert [s for s in mutex if 'hold' in s.names], (version, [(s.names, s.values) for s in mutex])
        assert [s for s in block if 'wants' in s.names], (version, [(s.names, s.values) for s in block])
        for kind in ('block', 'mutex'):
            others = [s for p in profiles(r, kind=kind) for s in p.samples if dict(s.labels).get('lock') == 'mutex']
            assert not others, (version, kind, [(s.names, s.values) for s in others])


def that_with_python_off_they_are_waits_for_conditions():
    r = run(['/usr/bin/python3', '-S', '-c', PROGRAM], CONF + ',python=off')
    assert r.status == 0 and not r.stderr, r.stderr
    assert not of_gil(r, 'block') and not of_gil(r, 'mutex')
    assert [s for p in profiles(r, kind='block') for s in p.samples if dict(s.labels).get('lock') == 'cond']


main(globals())
