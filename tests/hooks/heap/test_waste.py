# SPDX-License-Identifier: MIT
"""types=waste and `deltaprof waste`: what of the memory in use is resident, absent or zeros, what pins pages, and what
malloc_trim gives back. The victims know the truth, or try it out."""
import ctypes
import ctypes.util
import json
import os
import platform
import re
import signal
import shutil
import subprocess
import tempfile

import reader
from harness import BUILD, environment, free_port, main, new_directory, profiles, run, skip, victim, wait_for_server, wait_until

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
PAGE = os.sysconf('SC_PAGESIZE')
GLIBC = tuple(map(int, (platform.libc_ver()[1] or '0.0').split('.')[:2]))
TYPES = ['resident_space', 'swapped_space', 'zero_space', 'pinned_space']


class Victim:
    """In `with`: a victim that has made its memory, whose endpoint can be asked. said: what it knows."""

    def __init__(self, kind, conf, **how):
        port = free_port()
        self.process = subprocess.Popen([victim('waste'), kind], env=environment(f'{conf},interval=1h,listen=127.0.0.1:{port}', new_directory(), **how),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = {}
        while 'ready' not in self.said:
            self.read_line()
        wait_for_server(port, self.process)

    def read_line(self):
        name, number = self.process.stdout.readline().split()
        self.said[name] = int(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, *options):
        done = subprocess.run([DELTAPROF, 'waste', '--json', '-n', '0', *options, str(self.process.pid)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        for row in answer['rows'] + [answer]:
            assert row['in_use_bytes'] == row['resident_bytes'] + row['swapped_bytes'] + row['absent_bytes'], row
            assert all(row[x] >= 0 for x in row if x.endswith('_bytes')) and row['zero_bytes'] <= row['resident_bytes'], row
        return answer

    def end(self):
        """Ends its input, after which it says what it tried out."""
        self.process.stdin.close()
        self.read_line()
        return self.said


def rows_of(answer):
    return {row['name']: row for row in answer['rows']}


def check_exact(conf):
    with Victim('blocks', 'heap_rate=1,mmap=on' + conf) as v:
        rows, big = rows_of(v.ask()), v.said['big'] * v.said['blocks']
        first_pages = v.said['blocks'] * (PAGE - 16)  # each has the block's header
        assert rows['make_written']['in_use_bytes'] == rows['make_written']['resident_bytes'] == big
        assert rows['make_written']['zero_bytes'] == 0
        assert rows['make_zeros']['resident_bytes'] == rows['make_zeros']['zero_bytes'] == big
        for name in 'make_absent', 'make_only_read':
            assert (rows[name]['in_use_bytes'], rows[name]['resident_bytes'], rows[name]['zero_bytes']) == (big, first_pages, first_pages), rows[name]
        half = v.said['blocks'] * ((v.said['big'] // 2 + 16 + PAGE - 1) // PAGE * PAGE - 16)
        assert (rows['make_half']['resident_bytes'], rows['make_half']['absent_bytes']) == (half, big - half), rows['make_half']
        # Two lines more may be zeros than the half that was written leaves: in its last page.
        assert rows['make_half']['zero_bytes'] == half - big // 2 - v.said['blocks'] * ((-(v.said['big'] // 2 + 16)) % 64), rows['make_half']
        records = rows['make_records']
        assert records['in_use_bytes'] == records['resident_bytes'] == v.said['record'] * v.said['records']
        assert records['zero_bytes'] == v.said['zeros'], (records, v.said)
        region = rows['map_region']
        assert (region['in_use_bytes'], region['resident_bytes']) == (v.said['region'], v.said['region'] // 4), region


def that_what_is_resident_absent_and_zero_is_exact_for_sampled_blocks():
    check_exact('')


def catches(pid, number):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'SigCgt:\s*(\S+)', f.read())[1], 16) >> (number - 1) & 1


def that_a_process_without_an_endpoint_is_asked_by_its_signal():
    """Each time, so that the answer is of now; a process that does not catch it gets none, of which it would die."""
    conf, out = 'heap_rate=1,interval=1h,types=waste,signal=USR2', new_directory()
    p = subprocess.Popen([victim('waste'), 'blocks'], env=environment(conf, out), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other = subprocess.Popen(['sleep', '1000'], env=environment(conf, new_directory(), preload=False, extra={'DELTAPROF_CONF': conf}))
    try:
        said = dict(iter(lambda: p.stdout.readline().split(), ['ready', '1']))
        # a signal handler alone measures no memory
        wait_until(lambda: catches(p.pid, signal.SIGUSR2) and len(os.listdir(f'/proc/{p.pid}/task')) > 1)

        def ask(pid):
            return subprocess.run([DELTAPROF, 'waste', '--json', '-n', '0', str(pid)], capture_output=True, text=True, timeout=120)

        def asked():
            """It may not answer in time, and then the newest profile is shown, if there is one: of a peak in its beginning."""
            n = len(reader.files(out))
            done = ask(p.pid)
            return done if len(reader.files(out)) > n and 'make_records' in done.stdout else None
        for _ in range(2):
            records = rows_of(json.loads(wait_until(asked).stdout))['make_records']
            assert records['in_use_bytes'] == int(said['record']) * int(said['records']), (records, said)
        done = ask(other.pid)
        assert done.returncode == 1 and done.stderr.count('\n') == 1 and other.poll() is None, (done, other.poll())
    finally:
        for process in p, other:
            process.kill()
            process.wait()
        p.stdin.close()
        p.stdout.close()


def that_it_is_exact_with_ages_too():
    check_exact(',age=on')


def that_each_age_has_its_waste_beside_the_lifetimes():
    r = run([victim('waste'), 'blocks'], 'heap_rate=1,interval=1h,age=on,types=waste')
    profile = profiles(r)[0]
    types = [t for t, _ in profile.types]
    assert [t for t in types if t in ('inuse_space', 'freed_objects', 'outgrown_space', *TYPES)] == ['inuse_space', 'freed_objects', 'outgrown_space', *TYPES], types
    written = [s for s in profile.samples if 'make_written' in s.names and s.values['inuse_space']]
    assert written and all(dict(s.labels)['age'] and s.values['resident_space'] == s.values['inuse_space'] and not s.values['freed_objects'] for s in written), written
    freed = [s for s in profile.samples if s.values['freed_objects']]
    assert all('age' not in dict(s.labels) and not s.values['resident_space'] for s in freed), freed


class Range(ctypes.Structure):
    _fields_ = [('start', ctypes.c_size_t), ('n_bytes', ctypes.c_size_t)]


def swap_out(pid, ranges):
    """Asks the kernel to write pages of a process to swap. False: it refuses."""
    pidfd_open, process_madvise, pageout = 434, 440, 21
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(pidfd_open, pid, 0)
    if fd < 0:
        return False
    vector = (Range * len(ranges))(*ranges)
    done = libc.syscall(process_madvise, fd, ctypes.byref(vector), ctypes.c_size_t(len(ranges)), pageout, 0)
    os.close(fd)
    return done > 0


def anonymous_mappings(pid, least_bytes):
    """(start, bytes, swapped bytes) of large anonymous mappings of a process."""
    found = []
    with open(f'/proc/{pid}/smaps') as f:
        for line in f:
            if m := re.match(r'([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0 *$', line):
                found.append([int(m[1], 16), int(m[2], 16) - int(m[1], 16), 0])
            elif re.match('[0-9a-f]+-', line):
                found.append([0, 0, 0])
            elif line.startswith('Swap:'):
                found[-1][2] = int(line.split()[1]) * 1024
    return [entry for entry in found if entry[1] >= least_bytes]


def that_swapped_memory_is_told():
    with open('/proc/swaps') as f:
        free = sum(int(line.split()[2]) - int(line.split()[3]) for line in list(f)[1:])
    if free < 200 << 10:
        skip('no 200 MB of swap are free')
    with Victim('blocks', 'heap_rate=1') as v:
        big = v.said['big'] * v.said['blocks']
        mappings = anonymous_mappings(v.process.pid, big)  # blocks lie side by side, and the kernel joins their mappings
        if not swap_out(v.process.pid, [(start, n_bytes) for start, n_bytes, _ in mappings]):
            skip('the kernel writes no pages of another process to swap')
        rows = rows_of(v.ask())
        swapped = sum(s for _, _, s in anonymous_mappings(v.process.pid, big))
        told = sum(rows[name]['swapped_bytes'] for name in rows)
        if not swapped:
            skip('nothing was swapped')
        assert rows['make_written']['resident_bytes'] + rows['make_written']['swapped_bytes'] == big, rows['make_written']
        assert 0.95 * swapped <= told <= 1.05 * swapped, (told, swapped, rows)


def that_a_process_that_does_not_answer_is_told_why():
    """Of a process with one thread: the profiler's thread may not have begun."""
    waits = 'import sys, threading; [threading.Thread(target=sys.stdin.read).start() for _ in range(%d)]; print(flush=True); sys.stdin.read()'
    for n_threads in 0, 1, 2:
        with subprocess.Popen(['/usr/bin/python3', '-c', waits % n_threads], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            done = subprocess.run([DELTAPROF, 'waste', str(process.pid), new_directory()], capture_output=True, text=True, timeout=120)
            process.stdin.close()
        assert done.returncode == 1 and f'process {process.pid}: it does not answer' in done.stderr, done.stderr
        assert ('it has one thread' in done.stderr) == (n_threads == 0), (n_threads, done.stderr)


def that_samples_stand_for_all_blocks():
    """Blocks of a megabyte are all sampled; of 1,000 records at a rate of 16k about 60 are, the others are guessed."""
    with Victim('blocks', 'heap_rate=16k') as v:
        rows, big = rows_of(v.ask()), v.said['big'] * v.said['blocks']
        assert rows['make_zeros']['zero_bytes'] == rows['make_written']['resident_bytes'] == big
        assert rows['make_absent']['absent_bytes'] == big - v.said['blocks'] * (PAGE - 16)
        truth, rate = v.said['record'] * v.said['records'], 16384
        assert abs(rows['make_records']['resident_bytes'] - truth) <= 6 * (truth * rate)**0.5
        share = rows['make_records']['zero_bytes'] / rows['make_records']['resident_bytes']
        assert abs(share - v.said['zeros'] / truth) < 0.1, share


def that_malloc_trim_gives_back_what_was_estimated():
    for kind in 'comb', 'sparse', 'mixed', 'top', 'small', 'threads', 'joined':
        with Victim(kind, 'heap_rate=64k') as v:
            malloc = v.ask()['malloc']
            trimmed = v.end()['trimmed']
            assert malloc['unknown_bytes'] * 20 < malloc['heap_bytes'], (kind, malloc)
            assert abs(malloc['trim_bytes'] - trimmed) <= 0.2 * trimmed + (256 << 10), (kind, malloc, trimmed)
            assert (2 * malloc['arena_bytes'] > malloc['trim_bytes']) == (kind in ('threads', 'joined')), (kind, malloc)
            if kind == 'threads' and (2, 30) <= GLIBC < (2, 42):  # each thread's cache has seven chunks of the size that it freed
                assert 4 * 7 * 608 <= malloc['cached_bytes'] < 1 << 20, malloc


def that_the_functions_that_pin_pages_are_named():
    with Victim('comb', 'heap_rate=1') as v:
        answer = v.ask()
        pinned, rows = answer['malloc']['pinned_bytes'], rows_of(answer)
        assert pinned > 500000 and 0.9 * pinned <= answer['pinned_bytes'] <= 1.1 * pinned, answer
        assert rows['make_pins']['pinned_bytes'] > 0.9 * pinned, rows
        exact = rows['make_pins']['pinned_bytes']
    with Victim('comb', 'heap_rate=16k') as v:  # some 170 of 1,000 pins are sampled
        assert 0.5 * exact < rows_of(v.ask())['make_pins']['pinned_bytes'] < 1.5 * exact


def that_placing_of_samples_is_not_told_as_pinned():
    """Where samples are rare, the C heap is asked to place them at the begin of a page, which leaves holes."""
    for rate in '256k', '1M':
        with Victim('dense', f'heap_rate={rate}') as v:  # each of its pages is full
            answer = v.ask()
            assert answer['pinned_bytes'] <= answer['malloc']['pinned_bytes'] < 2 << 20, answer
            assert rows_of(answer)['make_pins']['pinned_bytes'] < 1 << 20, answer
    with Victim('sparse', 'heap_rate=64k') as v:  # some 60 of 20,000 pins are sampled, of which each pins some 1,800 bytes
        answer = v.ask()
        assert answer['pinned_bytes'] <= answer['malloc']['pinned_bytes'], answer
        assert answer['pinned_bytes'] > 0.3 * answer['malloc']['pinned_bytes'], answer


def that_the_largest_blocks_are_read_first_and_all_that_a_gigabyte_allows():
    with Victim('many', 'heap_rate=1') as v:
        answer = v.ask()
        rows = rows_of(answer)
        assert rows['make_zeros']['zero_bytes'] == 32 << 20 and rows['make_half']['zero_bytes'] == 1000 * (16 << 10), rows
        assert answer['zeros_unknown_bytes'] < 2 << 20, answer


def jemalloc():
    return ctypes.util.find_library('jemalloc') or skip('no jemalloc is installed')


def that_decay_of_jemalloc_gives_back_what_was_estimated():
    """Dirty pages stay until the victim purges them: MALLOC_CONF."""
    how = {'behind': [jemalloc()], 'extra': {'MALLOC_CONF': 'dirty_decay_ms:-1'}}
    for kind in 'sparse', 'comb', 'mixed', 'small', 'threads':
        with Victim(kind, 'heap_rate=64k', **how) as v:
            malloc = v.ask()['malloc']
            trimmed = v.end()['trimmed']
            assert malloc['jemalloc'] == 1 and not malloc['trim_bytes'], (kind, malloc)
            assert abs(malloc['decay_bytes'] - trimmed) <= 0.2 * trimmed + (256 << 10), (kind, malloc, trimmed)


def that_functions_whose_blocks_keep_slabs_of_jemalloc_are_named():
    """A slab of four blocks of 3,072 bytes has one block that stays: it pins three."""
    how = {'behind': [jemalloc()], 'extra': {'MALLOC_CONF': 'dirty_decay_ms:-1'}}
    with Victim('comb', 'heap_rate=1', **how) as v:
        answer = v.ask()
        pinned = rows_of(answer)['make_pins']['pinned_bytes']
        assert 0.8 * 3 * 1000 * 3072 < pinned < 1.2 * 3 * 1000 * 3072 and pinned > 0.8 * answer['malloc']['pinned_bytes'], answer
        done = subprocess.run([DELTAPROF, 'waste', str(v.process.pid)], capture_output=True, text=True)
        assert 'it is off (dirty_decay_ms:-1)' in done.stdout and 'most by make_pins (' in done.stdout, done.stdout


def that_of_another_allocator_only_the_sum_is_told():
    tcmalloc = ctypes.util.find_library('tcmalloc_minimal') or skip('no tcmalloc is installed')
    with Victim('comb', 'heap_rate=64k', behind=[tcmalloc]) as v:
        malloc = v.ask()['malloc']
        assert not any(malloc[name] for name in ('trim_bytes', 'decay_bytes', 'pinned_bytes', 'jemalloc')) and malloc['held_bytes'] > 10 << 20, malloc
        done = subprocess.run([DELTAPROF, 'waste', str(v.process.pid)], capture_output=True, text=True)
        assert 'Cannot tell what the allocator could give back' in done.stdout, done.stdout


def that_a_process_whose_environment_is_overwritten_is_asked():
    with Victim('titled', 'heap_rate=64k') as v:
        assert v.ask()['malloc']['pinned_bytes'] > 500000


def waste_of(*words):
    return subprocess.run([DELTAPROF, 'waste', *words], capture_output=True, text=True, timeout=120)


def that_a_profile_made_of_tables_does_not_tell_and_the_one_before_is_named_as_such():
    out, tables = new_directory(), tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
    try:
        conf = f'heap_rate=64k,interval=1h,types=waste,tables={tables},signal=USR2,log=none'
        with subprocess.Popen([victim('waste'), 'dense'], env=environment(conf, out), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
            assert p.stdout.readline() == 'ready 1\n'
            p.kill()
            p.wait()
            p.stdin.close()
        done = subprocess.run([DELTAPROF, 'recover', tables], capture_output=True, text=True)
        last = reader.load(reader.files(out, 'heap')[-1])
        assert '#killed' in last.comments and not [t for t, _ in last.types if t in TYPES], (done, last.comments, last.types)
        done = waste_of('--at', 'last', out)
        assert done.returncode == 1 and 'is not known: the process had ended' in done.stderr and not done.stdout, done
        # An earlier profile of the same process, made by its twin: another program of the same name.
        r = run([victim('waste'), 'dense'], 'heap_rate=64k,interval=1h,types=waste', stdin='')
        tick = reader.files(r.out, 'heap')[0]
        number = os.path.basename(reader.files(out, 'heap')[-1]).split('.')[1]
        os.rename(reader.files(out, 'heap')[-1], os.path.join(out, f'victim_waste.{number}.0002.heap.pb.gz'))
        shutil.copy(tick, os.path.join(out, f'victim_waste.{number}.0001.heap.pb.gz'))
        done = waste_of(out)
        assert done.returncode == 0 and 'Of 1 process that ended the last profile does not tell this' in done.stdout, done
    finally:
        shutil.rmtree(tables)


def that_a_process_that_may_not_read_its_pages_says_so():
    with Victim('private', 'heap_rate=64k,types=waste,log=none') as v:
        done = waste_of(str(v.process.pid))
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
        assert done.stderr.startswith(f'deltaprof waste: {v.process.pid}: what of the memory in use is resident is not known: the kernel forbids'), done


def that_profiles_without_memory_in_use_are_refused_by_their_name():
    r = run([victim('waste'), 'comb'], 'heap_rate=0,cpu_rate=1ms,interval=1h')
    done = waste_of(r.out)
    assert done.returncode == 1 and done.stderr == f'deltaprof waste: {r.out}: these profiles have no memory in use\n', done


def that_what_malloc_adds_to_blocks_is_told_as_another_allocators_gain():
    with Victim('small', 'heap_rate=16k') as v:
        done = waste_of(str(v.process.pid))
        assert 'Settings of malloc can save at most' in done.stdout and 'Another allocator can also save' in done.stdout, done
        assert re.search(r'MALLOC_ARENA_MAX=1 can save at most [\d.]+(kB|B):', done.stdout), 'the program has one thread'


def that_what_is_not_used_is_told():
    """As a sum everywhere; by function where the kernel has soft-dirty bits. The bits count as of a busy machine: until all
    blocks that the victim uses were used in one second, it is asked again."""
    with Victim('idle', 'heap_rate=64k') as v:
        big = v.said['big']

        def asked():
            answer = v.ask('--idle', '1s')
            assert answer['not_used']['ms'] >= 1000 and answer['not_used']['anonymous_bytes'] >= 3 * big, answer['not_used']
            return answer if answer['not_used']['untouched_bytes'] < 3 * big // 2 else None
        answer = wait_until(asked)
        assert answer['not_used']['untouched_bytes'] >= big * 0.99, answer['not_used']
        rows = rows_of(answer)
        if 'idle_bytes' in answer:
            assert all(rows[name]['idle_bytes'] >= 0.99 * rows[name]['resident_bytes'] for name in ('make_zeros', 'make_only_read')), rows
            assert rows['make_written']['idle_bytes'] < rows['make_written']['resident_bytes'] // 2, rows
        done = waste_of('--idle', '1s', str(v.process.pid))
        assert 'were neither read nor written' in done.stdout and ('idle  name' in done.stdout) == ('idle_bytes' in answer), done
        assert 'not_used' not in v.ask()


def that_a_wrong_time_without_use_is_refused():
    for words, said in (('0s', '1'), 'from 1s to 1h'), (('2h', '1'), 'from 1s to 1h'), (('5', '1'), 'from 1s to 1h'), (('5s', '/'), 'needs a PID'):
        done = subprocess.run([DELTAPROF, 'waste', '--idle', *words], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count('\n') == 1, done


def that_errors_name_the_verb():
    for verb, pid in ('waste', '4194305'), ('waste', '2'), ('summary', '2'):
        done = subprocess.run([DELTAPROF, verb, pid], capture_output=True, text=True)
        assert done.returncode and done.stderr.startswith(f'deltaprof {verb}: '), done


def that_profiles_of_ticks_have_the_types_on_request_only():
    def types(conf):
        r = run([victim('waste'), 'comb'], f'heap_rate=64k,interval=1h,{conf}')
        assert r.status == 0, r.stderr
        return r, [[t for t, _ in p.types if t in TYPES] for p in map(reader.load, reader.files(r.out, 'heap'))]
    r, of_files = types('types=waste')
    assert TYPES in of_files, of_files  # but for what was in use at a peak that is over
    done = subprocess.run([DELTAPROF, 'waste', r.out], capture_output=True, text=True)
    assert done.returncode == 0 and 'make_pins' in done.stdout and 'malloc_trim(0) would give back' in done.stdout, done
    r, of_files = types('types=all')
    assert not any(of_files), of_files
    done = subprocess.run([DELTAPROF, 'waste', r.out], capture_output=True, text=True)
    assert done.returncode == 1 and 'types=waste' in done.stderr and len(done.stderr.splitlines()) == 1, done


if __name__ == '__main__':
    main(globals())
