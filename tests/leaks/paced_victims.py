# SPDX-License-Identifier: MIT
"""Programs in Python for the three sets. They take the same arguments as leaks_paced and print the same last line.

    paced_victims.py NAME LOAD_STEPS IDLE_STEPS HEAP_RATE SEED END
"""
import collections
import functools
import math
import os
import random
import signal
import sys
import time

STEP_S = 0.02
lost = [0, 0.0]


def lose(n_bytes):
    lost[0] += n_bytes
    lost[1] += -math.expm1(-n_bytes / rate)


# Listeners are registered for each request and never removed.
listeners = []


def add_listener(n):
    data = bytes(3000)
    listeners.append(lambda: data[n])
    lose(3033)


def request_listeners(step):
    for i in range(40):
        add_listener(i)


# Results are kept by the id of their request.
results = {}


def remember_result(request):
    results[request] = 'r' * 4000
    results[request] += str(request)
    lose(4060)


def results_by_request(step):
    for i in range(40):
        remember_result(step * 40 + i)


# A consumer takes half of what comes.
waiting = collections.deque()


def enqueue_event(n):
    waiting.append(bytes(1500))


def consumer_at_half_speed(step):
    for i in range(20):
        enqueue_event(i)
    for i in range(10):
        waiting.popleft()
        lose(1533)


# The cache has room for 1,500 pages and is full after a third of the load.
@functools.lru_cache(maxsize=1500)
def render(page):
    return bytes(8000)


def cached_pages(step):
    for i in range(3 * 1500 // n_load_steps):
        render(random.randrange(10**9))


# 900 documents are loaded when they are first asked for.
documents = {}


def load_document(number):
    documents[number] = bytearray(20000)


def documents_loaded_once(step):
    for i in range(40):
        number = random.randrange(900)
        if number not in documents:
            load_document(number)


# Rows are collected and handed on every nine steps.
batch = []


def collect(n):
    batch.append([n] * 300)


def batches_handed_on(step):
    for i in range(60):
        collect(i)
    if step % 9 == 8:
        batch.clear()


def serve():
    return [str(i) * 50 for i in range(400)]


name, n_load_steps, n_idle_steps, rate, seed, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
random.seed(seed)
work = globals()[name]
begin = time.monotonic()
for step in range(n_load_steps + n_idle_steps):
    if step < n_load_steps:
        serve()
        work(step)
    time.sleep(max(0, begin + (step + 1) * STEP_S - time.monotonic()))
print(f'lost {lost[0]} {lost[1]:.1f}', flush=True)
if end == 'term':
    os.kill(os.getpid(), signal.SIGTERM)
if end == '_exit':
    os._exit(0)
