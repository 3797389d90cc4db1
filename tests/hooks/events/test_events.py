# SPDX-License-Identifier: MIT
"""events=on: each event has its own time and thread, and the sums equal those of the other files."""
import glob
import os
import subprocess
import sys

import reader
from harness import BUILD, main, new_directory, profiles, run, victim

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
EXACT = 'events=on,heap_rate=1,block_rate=1ns'


def books(text):
    """[({tid: (objects, bytes, wait_ns)}, begin, end)] of each round that the victim printed."""
    rounds, threads, begin = [], {}, 0
    for line in text.splitlines():
        words = line.split()
        if words[0] == 'begin':
            begin, threads = int(words[1]), {}
        elif words[0] == 'end':
            rounds.append((threads, begin, int(words[1])))
        elif words[0] != 'child':
            threads[int(words[0])] = tuple(map(int, words[1:]))
    return rounds


def samples(r, **kwargs):
    return [(s, dict(s.labels)) for p in profiles(r, kind='events', **kwargs) for s in p.samples]


def total(loaded, type):
    return sum(s.values[type] for s, _ in loaded)


def compare(loaded, book):
    threads, begin, end = book
    for tid, (objects, n_bytes, wait_ns) in threads.items():
        mine = [(s, labels) for s, labels in loaded if labels['thread id'] == tid]
        blocks = [(s, labels) for s, labels in mine if s.values['alloc_space'] in range(1000, 1004)]
        assert (total(blocks, 'alloc_objects'), total(blocks, 'alloc_space')) == (objects, n_bytes), (tid, blocks)
        times = [labels['end_timestamp_ns'] for _, labels in blocks]
        assert times == sorted(times) and begin <= times[0] and times[-1] <= end, (begin, times[0], times[-1], end)
        waits = [(s, labels) for s, labels in mine if labels.get('lock') == 'mutex' and s.values['contentions']]
        assert len(waits) == 1 and all(5e6 <= s.values['delay'] <= wait_ns for s, _ in waits), (waits, wait_ns)
        for s, labels in waits:
            assert begin <= labels['end_timestamp_ns'] - s.values['delay'] and labels['end_timestamp_ns'] <= end
    mutex = [(s, labels) for s, labels in loaded if labels.get('lock') == 'mutex']
    assert total(mutex, 'delay') == total(mutex, 'mutex_delay') > 0


def that_each_event_has_its_thread_and_its_time_and_sums_are_those_of_the_profiles():
    for interval in ('1h', '5ms'):
        r = run([victim('events')], f'{EXACT},interval={interval}')
        loaded = samples(r)
        compare(loaded, books(r.stdout)[0])
        for type in ('alloc_objects', 'alloc_space'):
            assert total(loaded, type) == sum(p.total(type) for p in profiles(r)), type
        assert total(loaded, 'mutex_delay') == sum(p.total('delay') for p in profiles(r, kind='mutex'))
        assert total(loaded, 'delay') == sum(p.total('delay') for p in profiles(r, kind='block'))
        assert not any('events' in c for p in profiles(r) for c in p.comments), 'nothing is lost'
        heaps = [os.path.basename(p).split('.')[2] for p in reader.files(r.out, 'heap')]
        assert all(os.path.basename(p).split('.')[2] in heaps for p in reader.files(r.out, 'events'))


def that_a_child_has_its_own_events_and_its_own_threads():
    r = run([victim('events'), 'fork'], f'{EXACT},interval=1h')
    child = int(r.stdout.split('child ')[1])
    parent_book, child_book = books(r.stdout)[0], books(r.stdout)[-1]
    compare(samples(r, pid=child), child_book)
    parent = {p for path in reader.files(r.out, 'events') for p in [int(os.path.basename(path).split('.')[1])]} - {child}
    assert len(parent) == 1
    compare(samples(r, pid=parent.pop()), parent_book)


def that_a_short_wait_says_how_long_it_was_and_how_many_it_stands_for():
    r = run([victim('events')], 'events=on,block_rate=1h,mutex_rate=0,heap_rate=0,interval=1h')
    for s, labels in samples(r):
        assert s.values['delay'] == 3600 * 10**9 > labels['duration'] > 0, (s, labels)


TRACED = """
import ctypes, threading
set_trace = ctypes.CDLL(None).deltaprof_trace_set
def request(n):
    set_trace(bytes([n] * 16), bytes([n] * 8))
    kept = [bytearray(70000 + n) for _ in range(n)]
    set_trace(None, None)
    kept.append(bytearray(70000))
for n in range(1, 50):
    thread = threading.Thread(target=request, args=(n,))
    thread.start()
    thread.join()
"""


def that_a_trace_context_is_in_the_events_of_its_request_and_in_no_other_profile():
    r = run([sys.executable, '-S', '-c', TRACED], f'{EXACT},interval=1h,python=off', timeout=120)
    loaded = samples(r)
    for n in range(1, 50):
        mine = [(s, labels) for s, labels in loaded if labels.get('trace_id') == f'{n:02x}' * 16]
        blocks = [s for s, _ in mine if s.values['alloc_space'] in range(70000 + n, 70000 + n + 100)]
        assert len(blocks) == n and {labels['span_id'] for _, labels in mine} == {f'{n:02x}' * 8}, (n, mine)
    assert len([s for s, labels in loaded if 70000 <= s.values['alloc_space'] < 70100 and 'trace_id' not in labels]) == 49
    assert not any('trace_id' in dict(s.labels) for p in profiles(r) for s in p.samples)
    otlp = b''.join(subprocess.run([DELTAPROF, 'convert', path, '--to', 'otlp'], capture_output=True, check=True).stdout
                    for path in reader.files(r.out, 'events'))
    assert all(bytes([n] * 16) in otlp and bytes([n] * 8) in otlp for n in range(1, 50)), 'each is a link'


def that_events_lost_by_a_full_ring_are_counted_in_its_own_profiles():
    r = run([victim('events'), 'many'], 'events=on,heap_rate=1,interval=1h,memory=4M', timeout=120)
    loaded, heap = samples(r), profiles(r)[-1]
    lost = [int(c.split()[0]) for p in profiles(r, kind='events') for c in p.comments if 'events' in c and 'ring' in c]
    n_all = sum(p.total('alloc_objects') for p in profiles(r))
    assert lost and len(loaded) + lost[-1] >= n_all > len(loaded), (len(loaded), lost, n_all)
    assert not any('ring was full' in c for c in heap.comments), heap.comments


def that_events_can_have_a_directory_of_their_own():
    out = new_directory()
    r = run([victim('events')], f'{EXACT},interval=1h', extra=None)
    assert glob.glob(r.out + '/*.events.pb.gz')
    r = run([victim('events')], f'events={out}/%e,heap_rate=1,interval=1h')
    assert not glob.glob(r.out + '/*.events.*') and glob.glob(r.out + '/*.heap.*')
    assert [os.path.basename(p).split('.')[2:] for p in glob.glob(out + '/victim_events/*')] == [['0001', 'events', 'pb', 'gz']]
    assert not glob.glob(run([victim('events')], 'heap_rate=1,interval=1h').out + '/*.events.*')  # off


def that_events_without_a_directory_are_refused():
    for conf, words in (('events=on,out=none', 'events=on needs out=DIR'), ('events=yes', 'events=yes: on, off, or a directory')):
        done = subprocess.run([DELTAPROF, 'run', '-o', conf, 'true'], text=True, capture_output=True)
        assert done.returncode == 2 and words in done.stderr and done.stderr.count('\n') == 1, done


def top(*arguments):
    done = subprocess.run([DELTAPROF, 'top', '--json', *arguments], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    import json
    return json.loads(done.stdout)


def that_the_verbs_take_a_directory_with_events_as_one_without():
    r = run([victim('events')], f'{EXACT},interval=1h')
    events = [f for f in glob.glob(r.out + '/*') if '.events.' in f]
    assert top('--type', 'alloc_space', r.out)['total'] == top('--type', 'alloc_space', *events)['total'] > 0
    assert top('--type', 'delay', r.out)['total'] == top('--type', 'delay', '--kind', 'events', r.out)['total'] > 0
    merged = os.path.join(new_directory(), 'merged.pb.gz')
    subprocess.run([DELTAPROF, 'merge', '--kind', 'events', r.out, '-o', merged], check=True)
    assert len(reader.load(merged).samples) == len(samples(r))
    page = merged + '.html'
    subprocess.run([DELTAPROF, 'view', r.out, '-o', page], check=True)
    size = os.path.getsize(page)
    for f in events:
        os.unlink(f)
    subprocess.run([DELTAPROF, 'view', r.out, '-o', page], check=True)
    assert os.path.getsize(page) <= size  # the events were the heat map's


if __name__ == '__main__':
    main(globals())
