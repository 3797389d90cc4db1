# SPDX-License-Identifier: MIT
"""The trace context that an OpenTelemetry SDK publishes for each thread: in events, and with trace=on in all profiles."""
import os
import subprocess

import reader
from harness import HOOKS, environment, main, new_directory, profiles, Run, victim, wait_until

CONF = 'heap_rate=1,block_rate=1ns,cpu_rate=1ms,interval=20ms'
THREADS, BLOCKS = 4, 50


def trace_of(i):
    return f'{i + 1:02x}' * 16


def span_of(i):
    return f'{16 * (i + 1):02x}' * 8


def labels_in(r, kind):
    return [(s, dict(s.labels)) for p in profiles(r, kind=kind) for s in p.samples]


def size_of(sample):
    return sample.values['alloc_space'] // sample.values['alloc_objects'] if sample.values['alloc_objects'] else 0


def run_victim(conf, *arguments, kind='events'):
    """Ends the victim's input when each thread's trace was seen: then the variable was found."""
    out = new_directory()
    process = subprocess.Popen([victim('traces'), *arguments], env=environment(f'{CONF},{conf}', out), stdin=subprocess.PIPE)
    r, seen, read = Run('', '', 0, out), set(), set()

    def all_seen():
        for path in set(reader.files(out, kind)) - read:
            read.add(path)
            seen.update(dict(s.labels).get('trace_id') for s in reader.load(path).samples)
        return seen >= set(map(trace_of, range(THREADS)))
    wait_until(all_seen)
    process.communicate(timeout=120)
    assert process.returncode == 0
    return r


def check_events(r):
    events, threads = labels_in(r, 'events'), {}
    for base in range(1000, 6000, 1000):
        for i in range(THREADS):
            mine = [(s, labels) for s, labels in events if size_of(s) == base + i]
            traces = {(labels.get('trace_id'), labels.get('span_id')) for _, labels in mine}
            if base == 1000:  # before the variable was found
                assert traces <= {(None, None), (trace_of(i), span_of(i))}, traces
            else:
                assert traces == {(trace_of(i), span_of(i)) if base == 2000 else (None, None)}, (base, i, traces)
                assert sum(s.values['alloc_objects'] for s, _ in mine) == BLOCKS, (base, i)
                threads.update({labels['thread id']: i for _, labels in mine})
    assert len(threads) == THREADS
    for type in ('delay', 'mutex_delay', 'cpu'):
        of_type = [(threads[labels['thread id']], labels.get('trace_id')) for s, labels in events
                   if s.values[type] and labels['thread id'] in threads and (type == 'cpu' or labels.get('lock') == 'mutex')]
        assert {trace for _, trace in of_type} - {None}, type
        assert all(trace in (None if type == 'cpu' else trace_of(i), trace_of(i)) for i, trace in of_type), (type, of_type)
    waited = {threads[labels['thread id']] for s, labels in events if s.values['delay'] and labels['thread id'] in threads and labels.get('trace_id')}
    assert waited == set(range(THREADS)), waited


def that_events_have_the_trace_that_a_program_publishes():
    check_events(run_victim('events=on'))


def that_the_variable_is_found_in_a_plugin_however_it_is_accessed():
    for name in ('new', 'old', 'large'):
        check_events(run_victim('events=on', os.path.join(HOOKS, f'libotel_plugin_{name}.so')))


def that_trace_divides_the_rows_of_all_profiles_by_trace():
    r = run_victim('events=on,trace=on')
    check_events(r)
    for kind, type in (('heap', 'alloc_space'), ('block', 'delay'), ('mutex', 'delay'), ('cpu', 'cpu')):
        rows, events = labels_in(r, kind), labels_in(r, 'events')
        event = {'delay': 'mutex_delay'}.get(type, type) if kind == 'mutex' else type
        for i in range(THREADS):
            # Waiting that no holder caused is a row without a thread, and its event is the waiter's.
            total = sum(s.values[type] for s, labels in rows if labels.get('trace_id') == trace_of(i))
            assert total == sum(s.values[event] for s, labels in events
                                if labels.get('trace_id') == trace_of(i) and '[hand-over]' not in s.names), (kind, i)
            assert total or kind == 'mutex', (kind, i)
    assert not any('span_id' in labels for kind in ('heap', 'block', 'mutex', 'cpu') for _, labels in labels_in(r, kind))


def that_rows_have_no_trace_without_being_asked():
    r = run_victim('events=on')
    assert not any('trace_id' in labels for kind in ('heap', 'block', 'cpu') for _, labels in labels_in(r, kind))


if __name__ == '__main__':
    main(globals())
