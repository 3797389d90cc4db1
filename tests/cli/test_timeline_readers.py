# SPDX-License-Identifier: MIT
"""`deltaprof timeline` as the programs that it is made for read it: their sums are those of `top`.

    DELTAPROF_TEST_PROFILER_CLI=/path/of/profiler-cli.js DELTAPROF_TEST_PERFETTO=/directory/with/the/package/perfetto \\
        DELTAPROF_TEST_TRACE_PROCESSOR=/directory/with/trace_processor.wasm test_timeline_readers.py DELTAPROF

profiler-cli is Firefox Profiler's own importer and queries, as a command. The trace processor answers SQL in Perfetto's UI: the
directory has its WebAssembly and the UI's engine_bundle.js, which loads it. The package perfetto has Perfetto's own messages of
today; SQL is asked of tables that are filled with them by the rules of its trace processor. A reader whose variable is not set is
skipped.
"""
import base64
import collections
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from by_hand import Case

CLI, PERFETTO, PROCESSOR = (os.environ.get('DELTAPROF_TEST_' + name) for name in ('PROFILER_CLI', 'PERFETTO', 'TRACE_PROCESSOR'))
if not (CLI or PERFETTO or PROCESSOR):
    print('skipped: no reader is named')
    sys.exit(77)

from test_timeline import EVENTS, ROWS, TYPES, alloc, unlock, wait  # noqa: E402

BEGIN, END, COUNTER, SIZE_BYTES = 1, 2, 4, 3
DECODE = '''
import json, sys
from google.protobuf.json_format import MessageToDict
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
with open(sys.argv[1], 'rb') as f:
    trace = perfetto_trace_pb2.Trace.FromString(f.read())
known = perfetto_trace_pb2.Trace.FromString(trace.SerializeToString())
known.DiscardUnknownFields()
assert known.SerializeToString() == trace.SerializeToString(), 'a field that Perfetto does not know'
json.dump(MessageToDict(trace, preserving_proto_field_name=True, use_integers_for_enums=True), sys.stdout)
'''
# Threads that only allocate, that only wait, and that only unlock; waits and allocations at the very first and last moment.
MORE = [wait(['lock', 'first'], 60, 11, 59, 'rwlock-write'), *(alloc(['make', 'f%d' % (i % 7), 'main'], 10 * i, 12, 1, i) for i in range(1, 500)),
        unlock(['unlock', 'late'], 5500, 13, 70), wait(['lock', 'outer'], 9000, 14, 4000), wait(['sem', 'handler', 'outer'], 8000, 14, 1000, 'sem'),
        alloc(['make', 'last'], 10**7, 15, 2, 1 << 40)]


class Readers(Case):
    def setUp(self):
        super().setUp()
        rows = ROWS + MORE
        random.Random(1).shuffle(rows)
        self.rows = rows
        self.events = self.file('server.7.0001.events.pb.gz', rows, EVENTS)

    def timeline(self, name):
        out = os.path.join(self.dir.name, name)
        self.run_it('timeline', self.events, '-o', out)
        return out

    def top(self, name):
        return json.loads(self.run_it('top', '--json', '--type', name, self.events))['total']

    @unittest.skipUnless(CLI, 'no profiler-cli')
    def test_firefox_profiler(self):
        home = tempfile.mkdtemp(dir=self.dir.name)

        def ask(*words, attempts=1):
            for _ in range(attempts):
                done = subprocess.run(['node', CLI, *words], text=True, capture_output=True, timeout=100, env={**os.environ, 'HOME': home})
                if not done.returncode:
                    return done.stdout
                time.sleep(0.2)
            self.fail(done.stderr + done.stdout)
        subprocess.run(['node', CLI, 'load', self.timeline('out.json')], capture_output=True, timeout=100, env={**os.environ, 'HOME': home})
        try:
            threads = json.loads(ask('thread', 'list', '--json', attempts=100))
            handles = {t['tid']: t.get('threadHandle') or t['handle'] for t in threads['threads']}
            by_tid = collections.defaultdict(lambda: [0] * len(TYPES))
            for _, values, labels in self.rows:
                by_tid[labels['thread id']] = [a + b for a, b in zip(by_tid[labels['thread id']], values)]
            self.assertEqual({int(tid) for tid in handles}, set(by_tid))
            totals = collections.Counter()
            for tid, handle in handles.items():
                _, size, _, delay, _, _ = by_tid[int(tid)]
                for strategy, expected, unit in ('native-allocations', size, 1), ('timing', delay, 1e6):
                    if expected:
                        shown = json.loads(ask('thread', 'samples', '--thread', handle, '--strategy', strategy, '--json'))
                        self.assertEqual(shown['callTreeSummaryStrategy'], strategy)
                        total = round(shown['categoryBreakdown']['totalSamples'] * unit)
                        self.assertEqual(total, expected, (tid, strategy))
                        totals[strategy] += total
            markers = json.loads(ask('profile', 'markers', '--limit', '10000', '--json'))['markers']
            for m in markers:
                totals[m['name']] += round(m['data']['delay'] * 1e6)
            self.assertEqual(totals, {'native-allocations': self.top('alloc_space'), 'timing': self.top('delay'), 'wait': self.top('delay'),
                                      'unlock': self.top('mutex_delay')})
            self.assertTrue(all(m['hasStack'] for m in markers))
        finally:
            ask('stop', '--all')

    def packets(self, path):
        """The trace as Perfetto's own messages have it, without a field that they do not know."""
        done = subprocess.run([sys.executable, '-S', '-c', DECODE, path], text=True, capture_output=True, timeout=100, env={**os.environ, 'PYTHONPATH': PERFETTO})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)['packet']

    def tables(self, path):
        """The tables of the trace processor that SQL over these events needs."""
        db = sqlite3.connect(':memory:')
        db.executescript('create table thread(utid integer primary key, tid int, name text, pid int);'
                         'create table slice(id integer primary key, ts int, dur int, utid int, category text, name text, depth int);'
                         'create table args(slice int, key text, int_value int, string_value text);'
                         'create table counter(ts int, track text, value int)')
        names, threads, counters, open_slices, is_valid, last = collections.defaultdict(dict), {}, {}, collections.defaultdict(list), False, 0
        for packet in self.packets(path):
            is_valid |= packet.get('sequence_flags', 0) & 1
            self.assertTrue(packet['trusted_packet_sequence_id'] and is_valid, 'the trace processor skips packets without a state')
            for table, entries in packet.get('interned_data', {}).items():
                names[table].update((e['iid'], e.get('name') or base64.b64decode(e.get('str', '')).decode()) for e in entries)
            track = packet.get('track_descriptor', {})
            if 'thread' in track:
                cursor = db.execute('insert into thread(tid, name, pid) values(?, ?, ?)', [track['thread'][k] for k in ('tid', 'thread_name', 'pid')])
                threads[track['uuid']] = cursor.lastrowid
            if 'counter' in track:
                self.assertEqual(track['counter']['unit'], SIZE_BYTES)
                counters[track['uuid']] = track['name']
            if 'track_event' not in packet:
                continue
            e, ts = packet['track_event'], int(packet['timestamp'])
            if e['type'] == COUNTER:
                db.execute('insert into counter values(?, ?, ?)', (ts, counters[e['track_uuid']], int(e['counter_value'])))
                continue
            self.assertGreaterEqual(ts, last, 'events by time')
            last = ts
            utid = threads[e['track_uuid']]
            if e['type'] == END:
                slice_id, begin = open_slices[utid].pop()
                db.execute('update slice set dur = ? where id = ?', (ts - begin, slice_id))
                continue
            cursor = db.execute('insert into slice(ts, dur, utid, category, name, depth) values(?, 0, ?, ?, ?, ?)',
                                (ts, utid, *e['categories'], names['event_names'][e['name_iid']], len(open_slices[utid])))
            if e['type'] == BEGIN:
                open_slices[utid].append((cursor.lastrowid, ts))
            for a in e['debug_annotations']:
                text = names['debug_annotation_string_values'].get(a.get('string_value_iid'))
                db.execute('insert into args values(?, ?, ?, ?)',
                           (cursor.lastrowid, 'debug.' + names['debug_annotation_names'][a['name_iid']], int(a['int_value']) if 'int_value' in a else None, text))
        self.assertFalse(any(open_slices.values()), 'slices without an end')
        return db

    @unittest.skipUnless(PERFETTO, 'no package perfetto')
    def test_perfetto(self):
        db = self.tables(self.timeline('out.pftrace'))
        for name in TYPES:
            [(total,)] = db.execute('select sum(int_value) from args where key = ?', ('debug.' + name,))
            self.assertEqual(total, self.top(name), name)
        [(delay,)] = db.execute("select sum(int_value) from args join slice on slice.id = args.slice where key = 'debug.delay' and category = 'wait' and "
                                "slice.dur = int_value")
        sampled = sum(values[3] for _, values, labels in self.rows if 'duration' in labels)
        self.assertEqual(delay + sampled, self.top('delay'), 'the length of a slice is the wait')
        self.assertEqual(list(db.execute("select max(value) from counter where track like 'allocated%'")), [(self.top('alloc_space'),)])
        by_lock = dict(db.execute("select string_value, sum(dur) from args join slice on slice.id = args.slice where key = 'debug.lock' and category = 'wait' group by 1"))
        expected = collections.Counter()
        for _, values, labels in self.rows:
            if values[2]:
                expected[labels['lock']] += labels.get('duration', values[3])
        self.assertEqual(by_lock, expected)
        self.assertEqual(list(db.execute("select depth from slice where name = 'wait sem: sem'")), [(1,)])
        tids = {tid for (tid,) in db.execute('select tid from thread')}
        self.assertEqual(tids, {labels['thread id'] for _, _, labels in self.rows})

    def ask(self, path, *queries):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'trace_processor.js')
        done = subprocess.run(['node', script, os.path.abspath(PROCESSOR), path], input=json.dumps(queries), text=True, capture_output=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @unittest.skipUnless(PROCESSOR, 'no trace processor')
    def test_trace_processor(self):
        """Strings of arguments are not asked for: trace processors before v23 do not know interned ones."""
        annotated = 'select key, sum(int_value), count(*) from slice join args using (arg_set_id) where int_value is not null group by key'
        arguments, waits, tids, counters, depth, losses = self.ask(
            self.timeline('out.pftrace'), annotated,
            "select slice.name, tid, sum(dur), count(*) from slice join thread_track on track_id = thread_track.id join thread using (utid) "
            "where category = 'wait' group by 1, 2",
            'select distinct tid, thread.name, pid from thread join process using (upid) where thread.name is not null',
            'select process_counter_track.name, unit, pid, max(value), count(*) from counter join process_counter_track on track_id = process_counter_track.id '
            'join process using (upid) group by 1, 2, 3',
            "select depth from slice where name = 'wait sem: sem'",
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        self.assertEqual(losses, [])
        self.assertEqual({key: total for key, total, _ in arguments}, {'debug.' + name: self.top(name) for name in TYPES})
        expected = collections.Counter()
        numbers = collections.Counter()
        for stack, values, labels in self.rows:
            if values[2]:
                key = 'wait %s: %s' % (labels['lock'], stack[0]), labels['thread id']
                expected[key] += labels.get('duration', values[3])
                numbers[key] += 1
        self.assertEqual({(name, tid): total for name, tid, total, _ in waits}, expected)
        self.assertEqual({(name, tid): n for name, tid, _, n in waits}, numbers)
        self.assertEqual({tid for tid, _, _ in tids}, {labels['thread id'] for _, _, labels in self.rows})
        self.assertEqual({pid for _, _, pid in tids}, {7})
        self.assertEqual([tuple(c) for c in counters if c[0].startswith('allocated')],
                         [('allocated (bytes)', 'bytes', 7, self.top('alloc_space'), sum(1 for _, values, _ in self.rows if values[1]))])
        self.assertEqual(depth, [[1]])


if __name__ == '__main__':
    unittest.main()
