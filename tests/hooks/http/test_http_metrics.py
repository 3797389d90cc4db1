# SPDX-License-Identifier: MIT
"""Data for monitoring systems: metrics, profiles of some locks only, titles, names in text. They are read by
Prometheus's own parser and by pprof."""
import re

from harness import main, need, skip, victim, wait_until
from http_client import Server, go_top

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None


def rested():
    """Starts a server whose threads have waited for locks of several kinds; no thread waits now."""
    s = Server([victim('serve'), 'locks'], 'heap_rate=1,block_rate=1ns,interval=1h')
    wait_until(lambda: {'mutex', 'rwlock-write', 'sem', 'cond'} <= set(sums(s.profile('block'))))
    s.process.stdin.write('stop\n')
    s.process.stdin.flush()
    assert s.process.stdout.readline() == 'rested\n'
    return s


def sums(profile):
    """{lock: (contentions, delay)} of a profile."""
    found = {}
    for sample in profile.samples:
        n, ns = found.get(dict(sample.labels).get('lock'), (0, 0))
        found[dict(sample.labels).get('lock')] = n + sample.values['contentions'], ns + sample.values['delay']
    return found


def that_metrics_are_openmetrics_and_equal_the_profiles():
    if not text_string_to_metric_families:
        skip('no prometheus_client')
    with rested() as s:
        block, mutex = sums(s.profile('delta_block?cursor=a.b&lock=cond,sem')), sums(s.profile('mutex'))
        block_all = sums(s.profile('block'))
        status, headers, text = s.ask('/debug/pprof/metrics')
        assert status == 200 and headers['Content-Type'].startswith('application/openmetrics-text; version=1.0.0'), headers
        families = {f.name: f for f in text_string_to_metric_families(text.decode())}
        values = {(x.name, tuple(sorted(x.labels.items()))): x.value for f in families.values() for x in f.samples}
        for kind, (n, ns) in block_all.items():
            assert values['deltaprof_waits_total', (('lock', kind),)] == n, (kind, n)
            assert abs(values['deltaprof_wait_seconds_total', (('lock', kind),)] - ns / 1e9) < 1e-6, (kind, ns)
        for kind, (n, ns) in mutex.items():
            assert values['deltaprof_holdups_total', (('lock', kind),)] == n
            assert abs(values['deltaprof_holdup_seconds_total', (('lock', kind),)] - ns / 1e9) < 1e-6
        heap = s.profile('heap')
        assert abs(values['deltaprof_in_use_bytes', ()] - heap.total('inuse_space')) <= 65536
        assert values['deltaprof_allocated_bytes_total', ()] >= values['deltaprof_in_use_bytes', ()]
        assert values['deltaprof_memory_limit_bytes', ()] == 64 << 20 > values['deltaprof_memory_bytes', ()] > 0
        assert values['deltaprof_losses_total', (('cause', 'overflow'),)] == 0 < values['deltaprof_samples_total', ()]
        ages = {labels: v for (name, labels), v in values.items() if name == 'deltaprof_delta_age_seconds'}
        assert (('consumer', 'cursor'), ('cursor', 'a.b'), ('lock', 'cond,sem'), ('profile', 'block')) in ages and all(v >= 0 for v in ages.values()), ages
        assert set(block) == {'cond', 'sem'}
        assert s.ask('/debug/pprof/metrics', 'HEAD')[2] == b''


def that_a_lock_filter_leaves_the_rest_to_other_cursors():
    with rested() as s:
        whole = sums(s.profile('block'))
        assert sums(s.profile('block?lock=sem')) == {'sem': whole['sem']}
        assert sums(s.profile('delta_block?cursor=x&lock=mutex,rwlock-write')) == {k: whole[k] for k in ('mutex', 'rwlock-write')}
        assert sums(s.profile('delta_block?cursor=x&lock=mutex,rwlock-write')) == {}
        rest = s.profile('delta_block?cursor=x&lock=cond')
        assert sums(rest) == {'cond': whole['cond']} and any(c.startswith('only lock=cond: ') for c in rest.comments), rest.comments
        assert sums(s.profile('delta_block?cursor=x')) == whole  # a cursor without a filter is another cursor
        assert sums(s.profile('delta_block?lock=mutex')) == {'mutex': whole['mutex']} and sums(s.profile('delta_block')) == whole
        text = s.get('/debug/pprof/block?debug=1&lock=sem').decode()
        rows = [line.split(' @')[0].split() for line in text.split('--- Memory map')[0].splitlines() if ' @' in line]
        assert (sum(int(n) for _, n in rows), sum(int(ns) for ns, _ in rows)) == whole['sem'], (rows, whole)
        assert s.profile('delta_heap?lock=mutex').total('alloc_objects') > 0  # lock= is ignored for heap profiles
        status, headers, text = s.ask('/debug/pprof/block?lock=none')
        kinds = re.fullmatch(r"lock: (.*) or (.*); several with ','\n", text.decode())
        assert status == 400 and kinds, text
        assert sums(s.profile('block?lock=' + ','.join(kinds[1].split(', ') + [kinds[2]]))) == whole


def that_titles_distinguish_mutex_and_block():
    need('go')
    with rested() as s:
        for kind, title in (('mutex', 'mutex: who made others wait'), ('delta_block', 'block: where threads waited')):
            lines = go_top(s.url('/debug/pprof/' + kind)).splitlines()
            # pprof's page is named after the first line of this kind, and shows all.
            assert [line for line in lines if line.startswith('Type: ')] == [f'Type: {title}', 'Type: delay'], lines[:8]
            assert any(re.match(r'\d+ (waits|releases made others wait), \d+\.\d{3} s: ', line) for line in lines), lines[:8]


def that_text_has_names_beside_addresses():
    with Server([victim('serve'), 'tree', '3'], 'heap_rate=1') as s:
        text = s.get('/debug/pprof/heap?debug=1').decode()
        row, *names = re.search(r'^(\d+: .* @ .*)\n((?:#\t.*\n)+)', text[text.index('@ heap_v2'):], re.M).group(0).splitlines()
        addresses = [name.split('\t')[1] for name in names]
        assert set(addresses) <= set(row.split(' @ ')[1].split()), (row, names)
        assert re.search(r'^#\t0x[0-9a-f]+\tnode$', text, re.M) and re.search(r'^#\t0x[0-9a-f]+\tmain$', text, re.M), text[:3000]
        lines = s.get('/debug/pprof/heap?debug=1&symbolize=lines').decode()
        assert re.search(r'^#\t0x[0-9a-f]+\tnode\t\S*victim_serve.c:\d+$', lines, re.M), lines[:3000]
        assert '#\t' not in s.get('/debug/pprof/heap?debug=1&symbolize=none').decode()


if __name__ == '__main__':
    main(globals())
