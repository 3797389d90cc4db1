# SPDX-License-Identifier: MIT
"""Short workers of a parent that holds memory: to whom the memory belongs, and what the workers' files say."""
import math
import os
import subprocess
import sys

from harness import BUILD, environment, main, new_directory, profiles, reader, run, victim, wait_until

CLI = os.path.join(BUILD, 'src/tool/cli/deltaprof')
MIB, KIB = 1 << 20, 1 << 10


def is_inherited(sample):
    return ('fork', 'inherited') in sample.labels


def in_use(p, function, inherited):
    return sum(s.values['inuse_space'] for s in p.samples if function in s.names and is_inherited(s) == inherited)


def top(*arguments):
    """(the lines before the table, {function: flat})"""
    done = subprocess.run([CLI, 'top', '-n0', *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    head, _, table = done.stdout.partition('   flat')
    return head, {line.split(None, 5)[5]: line.split()[0] for line in table.splitlines()[1:]}


def that_a_child_separates_inherited_memory_from_its_own():
    # interval=0: no thread of the profiler. The child of a process with threads may not call the loader, so that names
    # could be missing.
    r = run([victim('workers'), '5', '20', '10'], 'heap_rate=1,interval=0')
    assert r.status == 0, r.stderr
    parent, *workers = map(int, r.stdout.split())
    for pid in workers:
        p, = profiles(r, pid=pid)
        assert in_use(p, 'worker_holds', False) == 10 * KIB and in_use(p, 'worker_holds', True) == 0
        assert in_use(p, 'parent_holds', True) == 19 * MIB and in_use(p, 'parent_holds', False) == 0
        assert not any(v for s in p.samples if is_inherited(s) for t, v in s.values.items() if t.startswith('alloc_'))
        assert '#ended' in p.comments, p.comments
    p, = profiles(r, pid=parent)
    assert in_use(p, 'parent_holds', False) == 20 * MIB and not any(map(is_inherited, p.samples))
    ends = [top('--at', 'end', path)[1] for path in reader.files(r.out)]
    assert sorted(flat.get('worker_holds', '') for flat in ends) == [''] + ['10kB'] * 5, ends
    assert top(*reader.files(r.out))[1]['parent_holds'] == '20MB'  # at the peak
    assert top(reader.files(r.out, pid=workers[0])[0])[1]['parent_holds'] == '19MB'


def that_only_living_processes_have_memory_in_use():
    out = new_directory()
    conf = 'heap_rate=1,interval=50ms'
    with subprocess.Popen([victim('workers'), '5', '20', '10', 'wait'], env=environment(conf, out), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as parent:
        workers = parent.stdout.readline().split()[1:]
        wait_until(lambda: reader.files(out, pid=parent.pid))
        paths = reader.files(out)
        head, flat = top(*paths)
        parent.stdin.close()
    assert len(paths) >= 6
    assert 'in use by 1 process,' in head and '5 processes ended' in head, head
    assert flat['parent_holds'] == '20MB' and 'worker_holds' not in flat, flat
    assert top('--type', 'alloc_space', *paths)[1]['worker_holds'] == '50kB'


def that_the_last_file_is_marked_if_nothing_is_in_use():
    program = 'p = [bytearray(100000) for _ in range(100)]; import time; time.sleep(0.3); print(len(p))'
    r = run([sys.executable, '-S', '-c', program], 'heap_rate=64k,interval=50ms')
    last = profiles(r)[-1]
    assert {'#ended', '#exit'} & set(last.comments) and not any('#ended' in p.comments for p in profiles(r)[:-1])


def that_siblings_sample_independently():
    """600 kB in each of 100 children at 512k. The sum over all is right within five standard deviations, and so is the
    number of children without a sample. If the children began with their parent's countdown, all or none would have
    the first sample."""
    children, events, size, rate = 100, 600, 1 << 10, 512 << 10
    r = run([victim('workers'), str(children), '1', str(events)], 'interval=0')
    assert r.status == 0, r.stderr
    seen = [sum(s.values['alloc_objects'] for p in profiles(r, pid=int(pid)) for s in p.samples if 'worker_holds' in s.names)
            for pid in r.stdout.split()[1:]]
    p = -math.expm1(-size / rate)
    assert abs(sum(seen) - children * events) <= 5 * math.sqrt(children * events * (1 - p + 0.25) / p), seen
    none = math.exp(-events * size / rate)
    assert abs(seen.count(0) - children * none) <= 5 * math.sqrt(children * none * (1 - none)), seen


def mappings(r, pid):
    rows = {(m.memory_start, m.memory_limit, m.file_offset, p.message.string_table[m.filename], p.message.string_table[m.build_id])
            for p in profiles(r, pid=pid) for m in p.message.mapping}
    assert rows, pid
    return rows


def that_workers_show_the_mappings_that_they_inherit():
    """The first workers read /proc/self/maps, the later ones have what their parent read."""
    r = run([victim('workers'), '6', '20', '10'], 'heap_rate=1,interval=0')
    assert r.status == 0, r.stderr
    parent, *workers = map(int, r.stdout.split())
    first = mappings(r, workers[0])
    assert any(file.endswith('victim_workers') and build_id for _, _, _, file, build_id in first), first
    assert all(mappings(r, pid) == first for pid in workers), [mappings(r, pid) ^ first for pid in workers]
    assert first <= mappings(r, parent)


def that_a_library_that_only_a_worker_opens_has_its_mapping():
    program = """
import os
held = [bytearray(100000) for _ in range(50)]
for i in range(6):
    pid = os.fork()
    if not pid:
        if i == 5:
            import _decimal
            numbers = [_decimal.Decimal(n) ** 5000 for n in range(2, 40)]
        more = [bytearray(5000) for _ in range(50)]
        os._exit(0)
    os.waitpid(pid, 0)
    print(pid)
"""
    r = run(['/usr/bin/python3', '-S', '-c', program], 'heap_rate=1,interval=0,python=off')
    assert r.status == 0, r.stderr
    *others, last = map(int, r.stdout.split())
    opened = [m for m in mappings(r, last) if '_decimal' in m[3]]
    assert opened and all(build_id for *_, build_id in opened), mappings(r, last)
    assert not any('_decimal' in m[3] for pid in others for m in mappings(r, pid))


main(globals())
