# SPDX-License-Identifier: MIT
"""`deltaprof timeline`: its output is decoded by protoc's reader and by json, and has the same sums as the profile.

    test_timeline.py DELTAPROF
"""
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from by_hand import HEAP, Case

EVENTS = [*HEAP[:2], ('contentions', 'count'), ('delay', 'nanoseconds'), ('mutex_contentions', 'count'), ('mutex_delay', 'nanoseconds')]
TYPES = [name for name, _ in EVENTS]
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
START = 10**18


def alloc(stack, at, tid, objects, size, **labels):
    return stack, [objects, size, 0, 0, 0, 0], {'end_timestamp_ns': START + at, 'thread id': tid, **labels}


def wait(stack, at, tid, delay, lock='mutex', n=1, **labels):
    return stack, [0, 0, n, delay, 0, 0], {'end_timestamp_ns': START + at, 'thread id': tid, 'lock': lock, **labels}


def unlock(stack, at, tid, delay):
    return stack, [0, 0, 0, 0, 1, delay], {'end_timestamp_ns': START + at, 'thread id': tid, 'lock': 'mutex'}


ROWS = [alloc(['make', 'main'], 100, 7, 3, 3000), alloc(['make', 'main'], 900, 8, 1, 10), alloc(['make', 'other', 'main'], 500, 7, 2, 64, thread='io'),
        wait(['lock', 'work'], 700, 8, 400), wait(['lock', 'work'], 1500, 8, 800), wait(['wait', 'work'], 2000, 7, 10**4, 'cond', 5, duration=300),
        unlock(['unlock', 'work'], 1499, 7, 800)]


def trace_proto():
    """The Python module that protoc makes from trace.proto."""
    if not shutil.which('protoc'):
        raise unittest.SkipTest('protoc is not installed')
    directory = tempfile.mkdtemp()
    subprocess.run(['protoc', f'--proto_path={os.path.dirname(os.path.abspath(__file__))}', f'--python_out={directory}', 'trace.proto'], check=True)
    sys.path.insert(0, directory)
    try:
        return importlib.import_module('trace_pb2')
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Decoded:
    """A trace: tracks by uuid, and events (time, type, track, name, {annotation: value}) in the order of the file."""

    def __init__(self, data):
        trace = trace_proto().Trace()
        trace.ParseFromString(data)
        self.tracks, self.events, self.counters, self.clocks = {}, [], [], {}
        names, annotations, texts = {}, {}, {}
        assert trace.packet[0].flags == 1, 'the state of the sequence begins'
        for packet in trace.packet:
            assert packet.sequence == 1
            for table, interned in ((names, packet.interned.event_names), (annotations, packet.interned.annotation_names), (texts, packet.interned.texts)):
                for name in interned:
                    assert name.iid and table.setdefault(name.iid, name.text.decode()) == name.text.decode()
            for clock in packet.clock_snapshot.clocks:
                self.clocks[clock.id] = clock.timestamp
            if packet.HasField('track'):
                assert packet.track.uuid and self.tracks.setdefault(packet.track.uuid, packet.track) is packet.track
            e = packet.event
            if e.type == COUNTER:
                self.counters.append((packet.timestamp, self.tracks[e.track], e.counter))
            elif e.type:
                values = {annotations[a.name]: a.number if a.HasField('number') else texts[a.text] for a in e.annotation}
                self.events.append((packet.timestamp, e.type, self.tracks[e.track], names.get(e.name), values))

    def total(self, name):
        return sum(values.get(name, 0) for _, _, _, _, values in self.events)


class Timeline(Case):
    def perfetto(self, *paths):
        out = os.path.join(self.dir.name, 'out.pftrace')
        self.run_it('timeline', *paths, '-o', out)
        with open(out, 'rb') as f:
            return Decoded(f.read())

    def firefox(self, *paths):
        out = os.path.join(self.dir.name, 'out.json')
        self.run_it('timeline', *paths, '-o', out)
        with open(out) as f:
            return json.load(f)

    def test_sums_equal_those_of_top(self):
        path = self.file('server.7.0001.events.pb.gz', ROWS, EVENTS)
        trace = self.perfetto(path)
        for i, name in enumerate(TYPES):
            data = self.run_it('top', '--json', '--type', name, path)
            self.assertEqual(trace.total(name), json.loads(data)['total'])
            self.assertEqual(trace.total(name), sum(values[i] for _, values, _ in ROWS))

    def test_a_file_counts_once_however_many_paths_name_it(self):
        path = self.file('server.7.0001.events.pb.gz', ROWS, EVENTS)
        directory, link = os.path.dirname(path), path + '.link'
        os.symlink(path, link)
        want = self.perfetto(path).events
        for paths in (path, path), (directory, path), (link, path):
            self.assertEqual([e[0] for e in self.perfetto(*paths).events], [e[0] for e in want], paths)

    def test_waits_are_slices_and_other_events_are_instants(self):
        trace = self.perfetto(self.file('server.7.0001.events.pb.gz', ROWS, EVENTS))
        by_thread = {}
        for time, kind, track, name, values in trace.events:
            self.assertEqual(track.thread.pid, 7)
            by_thread.setdefault(track.thread.tid, []).append((time - START, kind, name))
        self.assertEqual(by_thread[8], [(300, BEGIN, 'wait mutex: lock'), (700, END, None), (700, BEGIN, 'wait mutex: lock'),
                                        (900, INSTANT, 'alloc: make'), (1500, END, None)])
        self.assertEqual(by_thread[7], [(100, INSTANT, 'alloc: make'), (500, INSTANT, 'alloc: make'), (1499, INSTANT, 'unlock mutex: unlock'),
                                        (1700, BEGIN, 'wait cond: wait'), (2000, END, None)])
        self.assertEqual([t for t in trace.clocks.values()], [START + 100] * 2)
        stacks = [values['stack'] for _, kind, _, _, values in trace.events if kind != END]
        self.assertIn('make\nother\nmain', stacks)
        self.assertEqual({t.thread.name for t in trace.tracks.values() if t.HasField('thread')}, {'io', 'thread'})

    def test_states_are_slices_below_their_thread(self):
        def off(state, at, ns, **labels):
            return ['nap', 'work'], [0, 0, 1, ns], {'end_timestamp_ns': START + at, 'thread id': 7, 'state': state, **labels}
        types = [('samples', 'count'), ('cpu', 'nanoseconds'), ('wall_samples', 'count'), ('wall', 'nanoseconds')]
        path = self.file('server.7.0001.events.pb.gz', [off('sleep', 500, 400), off('io', 900, 1000, duration=400),
                                                        (['work'], [1, 9, 0, 0], {'end_timestamp_ns': START + 950, 'thread id': 7})], types)
        trace = self.perfetto(path)
        thread, below = (next(u for u, t in trace.tracks.items() if is_it(t)) for is_it in
                         (lambda t: t.HasField('thread'), lambda t: t.name == 'off the processor'))
        self.assertEqual(trace.tracks[below].parent, thread)
        got = [(time - START, kind, track.uuid == below, name) for time, kind, track, name, _ in trace.events]
        self.assertEqual(got, [(100, BEGIN, True, 'sleep'), (500, END, True, None), (500, BEGIN, True, 'io'), (900, END, True, None),
                               (950, INSTANT, False, 'cpu: work')])
        self.assertEqual((trace.total('wall'), trace.total('cpu')), (1400, 9))
        got = self.firefox(path)['threads'][0]
        self.check_tables(got)
        self.assertEqual([(got['stringArray'][n], d['state'], d['time']) for n, d in zip(got['markers']['name'], got['markers']['data'])],
                         [('sleep', 'sleep', 0.0004), ('io', 'io', 0.001)])
        self.assertEqual([round(w * 1e6) for w in got['samples']['weight']], [400, 1000, 9])

    def test_memory_is_counted(self):
        self.file('p/server.7.0001.events.pb.gz', ROWS, EVENTS)
        self.file('p/server.7.0001.heap.pb.gz', [(['a'], [1, 10, 1, 10]), (['b'], [1, 20, 1, 32])], time_ns=START, duration_ns=50)
        self.file('p/server.7.0002.heap.pb.gz', [(['a'], [0, 0, 1, 10])], time_ns=START + 50, duration_ns=50)
        self.file('p/server.7.0001.block.pb.gz', [(['a'], [1, 1])], EVENTS[2:4])
        trace = self.perfetto(os.path.join(self.dir.name, 'p'))
        levels = [(time - START, value) for time, track, value in trace.counters if track.name.startswith('in use')]
        self.assertEqual(levels, [(50, 42), (100, 10)])
        allocated = [(time - START, value) for time, track, value in trace.counters if track.name.startswith('allocated')]
        self.assertEqual(allocated, [(100, 3000), (500, 3064), (900, 3074)])
        self.assertEqual(trace.total('contentions'), 7)
        self.assertEqual({t.parent for t in trace.tracks.values() if t.HasField('counter')}, {u for u, t in trace.tracks.items() if t.HasField('process')})

    def test_processes_stay_apart(self):
        a, b = self.file('a.1.0001.events.pb.gz', ROWS, EVENTS), self.file('b.2.0001.events.pb.gz', ROWS, EVENTS)
        trace = self.perfetto(a, b)
        self.assertEqual(sorted((t.process.pid, t.process.name) for t in trace.tracks.values() if t.HasField('process')), [(1, 'a'), (2, 'b')])
        self.assertEqual(len([t for t in trace.tracks.values() if t.HasField('thread')]), 4)
        self.assertEqual(trace.total('delay'), 2 * sum(values[3] for _, values, _ in ROWS))
        self.assertEqual({t['pid'] for t in self.firefox(a, b)['threads']}, {'1', '2'})

    def check_tables(self, thread):
        """Checks that every column has the length of its table, and every index is within the table that it refers to."""
        for name in ('samples', 'nativeAllocations', 'markers', 'stackTable', 'frameTable', 'funcTable', 'resourceTable'):
            if name == 'nativeAllocations' and name not in thread:
                continue
            for column, values in thread[name].items():
                if isinstance(values, list):
                    self.assertEqual(len(values), thread[name]['length'], (name, column))
        stacks, frames, functions = thread['stackTable'], thread['frameTable'], thread['funcTable']
        for i, (frame, prefix) in enumerate(zip(stacks['frame'], stacks['prefix'])):
            self.assertTrue(0 <= frame < frames['length'] and (prefix is None or 0 <= prefix < i))
        self.assertTrue(all(0 <= f < functions['length'] for f in frames['func']))
        strings = [*functions['name'], *(f for f in functions['fileName'] if f is not None), *thread['resourceTable']['name'], *thread['markers']['name']]
        self.assertTrue(all(0 <= s < len(thread['stringArray']) for s in strings))
        self.assertTrue(all(r == -1 or 0 <= r < thread['resourceTable']['length'] for r in functions['resource']))

    def stack(self, thread, number):
        names = []
        while number is not None:
            frame = thread['stackTable']['frame'][number]
            names.append(thread['stringArray'][thread['funcTable']['name'][thread['frameTable']['func'][frame]]])
            number = thread['stackTable']['prefix'][number]
        return names

    def test_firefox_has_allocations_and_markers_by_thread(self):
        profile = self.firefox(self.file('server.7.0001.events.pb.gz', ROWS, EVENTS))
        self.assertEqual(profile['meta']['preprocessedProfileVersion'], 47)
        self.assertEqual({m['name'] for m in profile['meta']['markerSchema']}, {'wait', 'unlock', 'state'})
        threads = {t['tid']: t for t in profile['threads']}
        for tid, t in threads.items():
            self.check_tables(t)
            mine = [(stack, values, labels) for stack, values, labels in ROWS if labels['thread id'] == tid]
            allocations = sorted((labels['end_timestamp_ns'], values[1], stack) for stack, values, labels in mine if values[0])
            got = t['nativeAllocations']
            self.assertEqual([(w, self.stack(t, s)) for w, s in zip(got['weight'], got['stack'])], [(size, stack) for _, size, stack in allocations])
            markers = sorted((labels['end_timestamp_ns'], values[3] + values[5], stack) for stack, values, labels in mine if not values[0])
            got = t['markers']
            self.assertEqual([(round(d['delay'] * 1e6), self.stack(t, d['cause']['stack'])) for d in got['data']], [(ns, stack) for _, ns, stack in markers])
            self.assertEqual([t['stringArray'][n] for n in got['name']], [d['type'] for d in got['data']])
            self.assertEqual(sum(t['samples']['weight']) * 1e6, sum(values[3] for _, values, _ in mine))
        got = threads[8]['markers']
        start = profile['meta']['startTime']
        self.assertAlmostEqual(start, (START + 100) / 1e6, 3)
        self.assertEqual([(round(b * 1e6) + 100, round(e * 1e6) + 100) for b, e in zip(got['startTime'], got['endTime'])], [(300, 700), (700, 1500)])
        self.assertEqual((threads[7]['name'], threads[7]['isMainThread'], threads[8]['name']), ('io', True, 'thread 8'))

    def test_the_range_of_firefox_covers_all_events(self):
        """Firefox Profiler takes an empty table of allocations as a time that is no number, and leaves out what is at the end of its range."""
        profile = self.firefox(self.file('server.7.0001.events.pb.gz', [*ROWS, wait(['lock'], 99, 9, 50), alloc(['last'], 5000, 7, 1, 1)], EVENTS))
        self.assertEqual({t['tid']: t.get('nativeAllocations', {}).get('length') for t in profile['threads']}, {7: 3, 8: 1, 9: None})
        last = max(t['nativeAllocations']['time'][-1] for t in profile['threads'] if 'nativeAllocations' in t)
        self.assertEqual(round(last * 1e6) + 49, 5000)
        self.assertEqual(profile['meta']['profilingStartTime'], 0)
        self.assertGreater(profile['meta']['profilingEndTime'], last)

    def test_names_of_all_kinds_are_escaped(self):
        names = ['"', '\\', 'new\nline', '\x01', 'ä€𝄞', '%s%n', 'a' * 3000]
        path = self.file('server.7.0001.events.pb.gz', [alloc([name, 'main'], i, 7, 1, 1) for i, name in enumerate(names)], EVENTS)
        thread, = self.firefox(path)['threads']
        self.check_tables(thread)
        self.assertEqual([self.stack(thread, s)[0] for s in thread['nativeAllocations']['stack']], names)
        trace = self.perfetto(path)
        self.assertEqual([values['stack'] for _, _, _, _, values in trace.events], [name + '\nmain' for name in names])

    def test_many_events_of_many_stacks(self):
        rows = [alloc([f'f{i % 100}', f'g{i % 37}', 'main'], i * 10, 7 + i % 3, 1, i) for i in range(5000)]
        path = self.file('server.7.0001.events.pb.gz', rows, EVENTS)
        self.assertEqual(self.perfetto(path).total('alloc_space'), sum(range(5000)))
        profile = self.firefox(path)
        self.assertEqual(sum(sum(t['nativeAllocations']['weight']) for t in profile['threads']), sum(range(5000)))

    def test_samples_without_a_time_are_counted_and_left_out(self):
        untimed = [(['a', 'main'], [1, 10, 0, 0, 0, 0], {'thread id': 7}), (['a', 'main'], [1, 20, 0, 0, 0, 0], {'thread id': 7, 'end_timestamp_ns': 0})]
        first = alloc(['make', 'main'], 1 - START, 7, 1, 5)  # the first nanosecond of 1970
        nothing = (['a', 'main'], [0] * 6, {'end_timestamp_ns': START, 'thread id': 7})
        for n, words in (0, ''), (1, '1 sample without a time is left out'), (2, '2 samples without a time are left out'):
            profile = self.firefox(self.file('server.7.0001.events.pb.gz', [first, nothing, *ROWS, *untimed[:n]], EVENTS))
            self.assertEqual(self.error, f'deltaprof timeline: {words}\n' if n else '')
            self.assertEqual(sum(sum(t['nativeAllocations']['weight']) for t in profile['threads']), 3079)

    def test_wrong_arguments_and_inputs_are_refused(self):
        events = self.file('server.7.0001.events.pb.gz', ROWS, EVENTS)
        heap = self.file('server.7.0001.heap.pb.gz', [(['a'], [1, 1, 1, 1])])
        other = self.file('untimed.pb.gz', [(['a'], [1, 1, 1, 1])])
        for arguments, status, words in (([events], 2, 'which format?'), ([events, '-o', 'x.txt'], 2, 'which format?'), ([], 2, 'no file given'),
                                         ([events, '--to', 'chrome'], 2, '--to chrome: perfetto or firefox'),
                                         ([heap, '-o', 'x.pftrace'], 1, 'events=on'), ([other, '-o', 'x.pftrace'], 1, 'events=on'),
                                         (['/nonexistent', '-o', 'x.json'], 1, '/nonexistent')):
            self.run_it('timeline', *arguments, status=status)
            self.assertIn(words, self.error)
            self.assertEqual(self.error.count('\n'), 1, self.error)
            self.assertFalse(os.path.exists('x.pftrace'))
        data = self.run_it('timeline', '--to', 'firefox', events)
        self.assertEqual(json.loads(data)['meta']['product'], 'deltaprof')


if __name__ == '__main__':
    unittest.main()
