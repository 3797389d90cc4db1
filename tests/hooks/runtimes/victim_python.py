# SPDX-License-Identifier: MIT
"""Allocates blocks of known sizes in known Python stacks, and prints them: [[bytes, [[function, file, line], ...]], ...].

grow() makes a bytearray of a size that is used once, for which Python allocates MORE bytes. It notes the stack of
its caller as the interpreter reports it. In a free-threaded Python it calls malloc for as many bytes, because objects
lie in heaps of their own there.
"""
import asyncio
import contextlib
import ctypes
import functools
import json
import sys
import threading

kept, notes = [], []
malloc = ctypes.CDLL(None).malloc if 't' in sys.abiflags else None
if malloc:
    malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
next_size = 100000
MORE = 33 if sys.version_info >= (3, 15) and not malloc else 1  # the head of an object of bytes, and the last byte


def stack_from(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.append([getattr(code, 'co_qualname', code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return stack


def grow(times=1):
    global next_size
    next_size += 1
    size = next_size
    notes.append([size + MORE, stack_from(sys._getframe(1))])
    kept.append(malloc(size + MORE) if malloc else bytearray(size))
    return size


def recursion(n):
    if n:
        return recursion(n - 1)
    grow()


def generator():
    for _ in range(2):
        yield grow()


def delegating():
    yield from generator()


class Thing:
    def method(self):
        grow()

    @classmethod
    def of_class(cls):
        return cls().method()

    @property
    def size(self):
        return grow()

    def __del__(self):
        grow()

    def __lt__(self, other):
        grow()
        return False


def closure():
    def inner():
        return grow()
    return inner


def decorator(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)
    return wrapper


@decorator
def decorated(a, *, b):
    return grow()


async def leaf():
    await asyncio.sleep(0)
    grow()


async def coroutine():
    await leaf()
    await asyncio.gather(leaf(), leaf())
    async for _ in numbers():
        grow()


async def numbers():
    yield grow()
    await asyncio.sleep(0)
    yield grow()


@contextlib.contextmanager
def manager():
    grow()
    try:
        yield
    finally:
        grow()


def exceptions():
    try:
        recursion(3)
        raise KeyError('x')
    except KeyError:
        grow()
        try:
            raise ValueError from None
        except ValueError:
            Thing().size
    finally:
        grow()


def größe_日本():
    grow()


def many_lines():
    grow(); grow()
    grow(
        times=2)
    x = [grow() for _ in range(3)]
    return (x,
            grow(),
            {grow(): grow()
             for _ in range(2)})


def main():
    recursion(0)
    recursion(20)
    list(generator())
    list(delegating())
    Thing.of_class()
    sorted([Thing(), Thing(), Thing()])
    list(map(lambda x: grow(), range(2)))
    closure()()
    decorated(1, b=2)
    asyncio.run(coroutine())
    with manager():
        grow()
    exceptions()
    größe_日本()
    many_lines()
    threads = [threading.Thread(target=recursion, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
        t.join()
    for i in range(5):  # same name, file and first line; one code object may get the address of a freed one
        exec(compile('\n' * i + 'grow()\n' + 'grow()', '<made>', 'exec'), {'grow': grow})
    for i in range(5):
        scope = {'grow': grow}
        exec(compile('def again():\n' + '    pass\n' * i + '    grow()\n', '<made>', 'exec'), scope)
        scope['again']()
    many_lines.__code__ = exceptions.__code__.replace(co_name='replaced', co_firstlineno=7000)
    many_lines()
    eval('grow()')


main()

sys.setrecursionlimit(20000)
threading.stack_size(512 << 20)
deep = threading.Thread(target=recursion, args=(10000,))
deep.start()
deep.join()
print(json.dumps(notes))
