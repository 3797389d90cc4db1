# SPDX-License-Identifier: MIT
"""`deltaprof merge` on profiles made by hand; how all verbs treat files, and broken files.

    test_files.py DELTAPROF CORPUS
"""
import bz2
import gzip
import json
import lzma
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from by_hand import DELTAPROF, Case, profile
from random_profile import HEAP, MUTEX, chunk, meaning, number, parse, varint

CORPUS = sys.argv.pop(1)


def last_number(data, field):
    """The last number of a field in a message, for fields that protoc's profile.proto does not have yet."""
    at, found = 0, None

    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        tag, value = take(), take()
        at += value if tag & 7 == 2 else 0
        found = value if tag == field << 3 else found
    return found


class Files(Case):
    def test_wrong_usage_is_one_line_and_status_2(self):
        for arguments in (['top'], ['top', '-n', 'x', 'f'], ['top', '-n'], ['top', '--label', 'x', 'f'], ['top', '--bogus', 'f'],
                          ['merge'], ['merge', '-o'], ['diff', 'a'], ['diff', 'a', 'b', 'c'], ['diff', '--stream', 'a'],
                          ['diff', '--negative=x', 'a', 'b'], ['diff', '--first=x', 'a', 'b'], ['top', '--limit=5G', 'f'],
                          ['top', '--limit=-1', 'f'], ['top', '--limit=x', 'f'], ['top', '--limit=17179869184G', 'f'],
                          ['diff', '--first=full', 'a', 'b'], ['tree'], ['growth'], ['leaks'], ['check'],
                          ['leaks', '--confidence', 'x', 'f'], ['tree', '--names', 'x', 'f'], ['help', 'x'],
                          ['check', '--max-growth', 'inf', 'f', 'f'], ['check', '--max-growth', 'nan', 'f', 'f'], ['leaks', '-n', 'nan', 'f']):
            with self.subTest(arguments):
                self.run_it(*arguments, status=2)
                self.assertRegex(self.error, r'\Adeltaprof \w+: .*\n\Z')

    def test_help_has_a_text_for_each_verb(self):
        for verb in 'run', 'top', 'tree', 'growth', 'leaks', 'check', 'merge', 'diff':
            self.assertEqual(self.run_it('help', verb), self.run_it(verb, '--help'))
            self.assertIn(('deltaprof %s ' % verb).encode(), self.run_it('help'))

    # ---- merge ----

    def test_merge_has_the_same_rule_as_top(self):
        paths = self.files_of_two_processes()
        data = self.run_it('merge', *paths)
        self.assertEqual([v for row in meaning(data).values() for v in row], [10, 100, 7, 3004])
        self.assertEqual((parse(data).time_nanos, parse(data).duration_nanos), (100, 40))

    def test_merge_takes_a_directory_one_kind_at_a_time(self):
        self.files_of_two_processes()
        self.file('server.8.0001.block.pb.gz', [(['w'], [1, 9])], MUTEX)
        data = self.run_it('merge', self.dir.name)
        self.assertEqual([v for row in meaning(data).values() for v in row], [10, 100, 7, 3004])
        self.assertIn('the others: --kind block', self.error)
        data = self.run_it('merge', '--kind', 'block', self.dir.name)
        self.assertEqual(([v for row in meaning(data).values() for v in row], self.error), ([1, 9], ''))

    def test_the_header_of_a_profile_is_kept(self):
        fields = {7: b'drop.*', 8: b'keep.*', 13: b'a comment', 14: b'contentions', 15: b'https://example.org/'}
        data = gzip.decompress(profile([(['f'], [1, 2])], MUTEX))
        n = len(parse(data).string_table)
        data += b''.join(chunk(6, text) + number(field, n + i) for i, (field, text) in enumerate(fields.items()))
        path = self.file('p', data)
        for verb in ['merge', path], ['merge', path, path], ['diff', path, path], ['diff', '--flows=delay', path, path]:
            out = self.run_it(*verb)
            p = parse(out)
            self.assertEqual([p.string_table[i] for i in (p.drop_frames, p.keep_frames, p.comment[0], p.default_sample_type)],
                             ['drop.*', 'keep.*', 'a comment', 'contentions'])
            self.assertEqual(p.string_table[last_number(gzip.decompress(out), 15)], 'https://example.org/')

    def test_comments_are_merged_each_once(self):
        def with_comments(name, *comments):
            strings = [b'', *comments]
            data = chunk(1, b'') + b''.join(chunk(6, text) for text in strings)
            return self.file(name, data + b''.join(number(13, i) for i in range(1, len(strings))))
        data = self.run_it('merge', with_comments('a', b'x', b'y'), with_comments('b', b'y', b'z'), with_comments('c', b'z', b'x'))
        p = parse(data)
        self.assertEqual([p.string_table[i] for i in p.comment], ['x', 'y', 'z'])

    def test_an_output_appears_whole_and_replaces_its_input(self):
        a, b = self.file('a', [(['f'], [1, 1, 0, 0])]), self.file('b', [(['f'], [2, 2, 0, 0])])
        self.run_it('merge', a, b, '-o', a)
        with open(a, 'rb') as f:
            self.assertEqual(list(meaning(f.read()).values()), [[3, 3, 0, 0]])
        self.assertEqual(sorted(os.listdir(self.dir.name)), ['a', 'b'])

    def test_an_output_has_only_the_permissions_that_every_input_has(self):
        a, b = self.file('a', [(['f'], [1, 1, 0, 0])]), self.file('b', [(['f'], [2, 2, 0, 0])])
        out = os.path.join(self.dir.name, 'out')
        self.addCleanup(os.umask, os.umask(0o022))
        for modes, want in ((0o644, 0o644), 0o644), ((0o644, 0o600), 0o600), ((0o600, 0o644), 0o600), ((0o640, 0o644), 0o640):
            os.chmod(a, modes[0])
            os.chmod(b, modes[1])
            for verb in 'merge', 'diff':
                self.run_it(verb, a, b, '-o', out)
                self.assertEqual(os.stat(out).st_mode & 0o777, want, (verb, modes))
                os.remove(out)
        os.chmod(self.file('out', b''), 0o600)  # an existing file gets no more permissions
        os.chmod(a, 0o644)
        self.run_it('merge', a, '-o', out)
        self.assertEqual(os.stat(out).st_mode & 0o777, 0o600)

    def test_a_temporary_file_of_a_killed_process_with_this_pid_is_no_hindrance(self):
        a, out = self.file('a', [(['f'], [1, 1, 0, 0])]), os.path.join(self.dir.name, 'out')

        def leave():
            for name in '%s.%d.tmp', '%s.%d-0.tmp':
                open(name % (out, os.getpid()), 'x').close()
        done = subprocess.run([DELTAPROF, 'merge', a, '-o', out], stderr=subprocess.PIPE, timeout=60, preexec_fn=leave)
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        self.assertEqual(len(os.listdir(self.dir.name)), 4)

    def test_a_full_disk_leaves_nothing(self):
        a = self.file('a', [(['f'], [1, 1, 0, 0])])
        self.run_it('merge', a, '-o', '/dev/full', status=1)
        self.assertEqual(self.error, 'deltaprof merge: /dev/full: No space left on device\n')
        self.run_it('merge', a, '-o', self.dir.name + '/none/x', status=1)
        self.assertEqual(os.listdir(self.dir.name), ['a'])

    def test_a_file_that_may_not_grow_leaves_nothing(self):
        a = self.file('a', [(['f'], [1, 1, 0, 0])])
        done = subprocess.run([DELTAPROF, 'merge', a, '-o', self.dir.name + '/out'], stderr=subprocess.PIPE, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual((done.returncode, done.stderr.decode()), (1, 'deltaprof merge: %s/out: File too large\n' % self.dir.name))
        self.assertEqual(os.listdir(self.dir.name), ['a'])

    def test_a_killed_command_leaves_nothing(self):
        samples = b''.join(chunk(2, chunk(2, b'\1') + chunk(3, number(1, 1) + number(3, i))) for i in range(1, 300_000))
        a = self.file('a', chunk(6, b'') + chunk(6, b'k') + chunk(1, number(1, 1)) + samples)
        self.run_it('merge', a, '-o', self.dir.name + '/whole')
        with open(self.dir.name + '/whole', 'rb') as f:
            whole = f.read()
        for which in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
            status, left, before = 0, [], signal.signal(which, signal.SIG_DFL)  # a shell's background jobs ignore some
            self.addCleanup(signal.signal, which, before)
            while status == 0 or left == ['out']:  # it finished its output, or ended, before the signal
                out = tempfile.mkdtemp(dir=self.dir.name)
                process = subprocess.Popen([DELTAPROF, 'merge', a, '-o', out + '/out'])
                while not os.listdir(out) and process.poll() is None:
                    pass
                process.send_signal(which)
                status, left = process.wait(60), os.listdir(out)
                if left == ['out']:
                    with open(out + '/out', 'rb') as f:
                        self.assertEqual(f.read(), whole)
            self.assertEqual((status, left), (-which, []))

    def test_an_output_goes_where_its_link_leads(self):
        a = self.file('a', [(['f'], [1, 1, 0, 0])])
        target, link = self.file('real/old', b'old'), os.path.join(self.dir.name, 'link')
        os.symlink('real/old', link)
        self.run_it('merge', a, '-o', link)
        self.assertTrue(os.path.islink(link))
        with open(target, 'rb') as f:
            self.assertEqual(list(meaning(f.read()).values()), [[1, 1, 0, 0]])
        for path in '-', '/dev/stdout':
            self.assertEqual(list(meaning(self.run_it('merge', a, '-o', path)).values()), [[1, 1, 0, 0]])
        self.run_it('merge', a, '-o', self.dir.name + '/none/x', status=1)
        self.assertEqual(self.error, 'deltaprof merge: %s/none/x: No such file or directory\n' % self.dir.name)

    def test_profiles_do_not_go_to_a_terminal(self):
        a = self.file('a', [(['f'], [1, 1, 0, 0])])
        try:
            master, slave = pty.openpty()
        except OSError as error:  # a chroot without /dev/pts
            self.skipTest(str(error))
        for verb in ['merge', a], ['diff', a, a], ['diff', a, a, '-o', os.ttyname(slave)]:
            done = subprocess.run([DELTAPROF, *verb], stdout=slave, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.returncode, done.stderr.count(b'\n')), (2, 1))
        os.close(master)
        os.close(slave)

    # ---- broken files ----

    def refuse(self, *arguments, data=b''):
        """One line that says where, status 1, and nothing written."""
        before = sorted(os.listdir(self.dir.name))
        self.assertEqual(self.run_it(*arguments, status=1, data=data), b'')
        self.assertRegex(self.error, r'\Adeltaprof \w+: [^\x00-\x1f\x7f]+\n\Z')
        self.assertEqual(sorted(os.listdir(self.dir.name)), before)
        return self.error

    def test_broken_files_are_refused_by_every_verb(self):
        good = self.file('good', [(['f'], [1, 1, 0, 0])])
        fine = re.compile(r'raw-|gzip$|gzip-two-members|deep|ids-huge|values-extreme|strings-not-utf8|packed-comment|no-strings')
        names = [n for n in sorted(os.listdir(CORPUS)) if not fine.match(n)]
        self.assertGreater(len(names), 25)
        for name in names:
            path, out = os.path.join(CORPUS, name), os.path.join(self.dir.name, 'out')
            with self.subTest(name):
                for arguments in (['top', path], ['tree', path], ['leaks', path], ['growth', path, good], ['growth', good, path], ['merge', path, '-o', out], ['diff', path, good, '-o', out],
                                  ['diff', good, path, '-o', out]):
                    line = self.refuse(*arguments, '--limit=1M')
                    self.assertIn(path, line)
                    self.assertRegex(line, r'byte \d+|empty|the limit|another kind')
                with open(path, 'rb') as f:
                    self.refuse('top', '-', '--limit=1M', data=f.read())

    def test_broken_files_among_others_are_named_and_left_out(self):
        rows = [(['f', 'main'], [1, 10, 1, 10])]
        for seq in 1, 3, 4, 5:
            self.file('d/a.1.%04d.heap.pb.gz' % seq, rows, time_ns=10**18 + seq)
        middle = self.file('d/a.1.0002.heap.pb.gz', b'no profile')
        newest = self.file('d/a.1.0006.heap.pb.gz', profile(rows, time_ns=10**18 + 6)[:-9])
        inside = self.file('d/b.2.0001.heap.pb.gz', profile([(['f'], [1, 1])]))
        with open(inside, 'wb') as f:
            f.write(gzip.compress(chunk(1, number(1, 1) + number(2, 1)) + chunk(2, chunk(1, b'\7') + chunk(2, b'\1')) + chunk(6, b'') + chunk(6, b'x')))
        for arguments in ['top'], ['top', '--at', 'peak'], ['top', '--at', 'last'], ['tree'], ['leaks'], ['growth']:
            with self.subTest(arguments):
                shown = self.run_it(*arguments, self.dir.name + '/d', status=1).decode()
                self.assertIn('10B', shown)
                lines = self.error.splitlines()
                self.assertEqual(len(lines), 4, lines)
                for path, line in zip((middle, newest, inside), lines):
                    self.assertIn(path, line)
                self.assertEqual(lines[3], 'deltaprof %s: 3 files are left out, see above' % arguments[0])
        self.run_it('top', middle, newest, status=1)
        self.assertEqual(len(self.error.splitlines()), 2)
        self.run_it('check', '--max-growth=1%', self.dir.name + '/d', self.dir.name + '/d', status=2)

    def test_unusual_files_are_read(self):
        for name in 'gzip', 'gzip-two-members', 'deep', 'ids-huge', 'values-extreme', 'strings-not-utf8', 'packed-comment':
            path = os.path.join(CORPUS, name)
            self.run_it('top', path)
            for verb in ['top'], ['growth', path], ['growth', path, path], *([['tree']] if name != 'deep' else []):  # json has a limit
                json.loads(self.run_it(*verb, '--json', path))

    def test_an_error_in_a_file_is_named_with_its_place(self):
        for name, words in {
            'location-unknown': 'Sample.location_id 5 is no location',
            'location-twice': 'Location.id 1 stands there twice',
            'location-mapping-unknown': 'Location.mapping_id 9 is no mapping',
            'line-function-unknown': 'Line.function_id 9 is no function',
            'label-string-beyond': 'Label.key 50 is no index into string_table, which has 3',
            'values-too-few': 'Sample.value has 1 values for 2 sample types',
            'two-profiles': 'time_nanos stands there again: a second profile behind the first',
            'string-first-not-empty': 'string_table does not begin with ""',
            'wire-type-location': 'Sample|field 1 of a Profile|Profile.sample_type has wire type 5',
            'gzip-checksum': 'checksum', 'gzip-truncated': 'truncated', 'gzip-garbage-behind': 'behind the end of gzip data',
        }.items():
            with self.subTest(name):
                self.assertRegex(self.refuse('top', os.path.join(CORPUS, name)), r'byte \d+: .*(%s)' % words)

    def test_files_of_another_format_are_named(self):
        data = profile([(['f'], [1, 1, 1, 1])])
        for what, other in {'text': b'heap profile: 1: 2 [3: 4] @ heap_v2/524288\n', 'xz data': lzma.compress(data),
                            'bzip2 data': bz2.compress(data), 'zstd data': b'\x28\xb5\x2f\xfd\x04\x00' + data,
                            'gzipped twice': gzip.compress(data), 'a program': b'\x7fELF\2\1\1',
                            "text; if it is folded stacks, deltaprof convert reads it": b'main;f 1\nmain;g 2\n',
                            'OTLP, which is written but not read': chunk(1, chunk(1, chunk(1, b'x')) + chunk(2, bytes(300))) + chunk(2, b''),
                            'another protocol buffer': chunk(1, chunk(6, bytes(200)) + number(13, 1)) + chunk(1, number(8, 5))}.items():
            for data in (other,) if what == 'gzipped twice' else (other, gzip.compress(other)):
                self.assertIn('standard input: not a pprof profile, gzipped or raw, but ' + what, self.refuse('top', '-', data=data))

    def test_a_file_that_is_no_profile_is_refused(self):
        for data, line in {b'': 'empty, not a pprof profile', gzip.compress(b''): 'empty, not a pprof profile',
                           bytes(9): 'no pprof profile, or a broken one: byte 0: no field of a profile',
                           b'x.tar' + bytes(9): 'no pprof profile, or a broken one: byte 2: field 14 of a Profile'}.items():
            path = self.file('other', data)
            self.assertIn('deltaprof top: %s: %s' % (path, line), self.refuse('top', path))

    def test_every_truncation_of_a_file_is_refused(self):
        data = profile([(['f', 'g'], [1, 1, 1, 1], {'k': 'v'})])
        for n in range(0, len(data), 3):
            self.refuse('top', '-', data=data[:n])

    def test_a_gzip_bomb_ends_at_the_limit(self):
        member = gzip.compress(bytes(16 << 20))
        bomb = self.file('bomb', member * 640)  # 10 GiB in 10 MB
        line = self.refuse('top', '--limit', '64M', bomb)
        self.assertIn('more than 67108864 bytes uncompressed, the limit', line)

    def cpu_seconds(self, *arguments):
        before = os.times()
        self.run_it(*arguments)
        return os.times().children_user - before.children_user

    def test_strings_made_to_have_one_hash_take_no_longer(self):
        head = chunk(6, b'') + chunk(6, b'a') + chunk(1, number(1, 1)) + chunk(5, number(1, 1) + number(2, 1))
        n = 100_000
        for name, thing in {
            'lines': lambda i, bits: chunk(4, number(1, i) + chunk(4, number(1, 1) + number(2, i << bits))),
            'mappings': lambda i, bits: chunk(3, number(1, i) + number(2, 1) + number(3, i << bits)),
            'ids': lambda i, bits: chunk(4, number(1, i << bits)),
        }.items():
            usual, made = (self.cpu_seconds('top', self.file(name, gzip.compress(head + b''.join(thing(i, bits) for i in range(1, n)), 1)))
                           for bits in (0, 40 if name == 'ids' else 32))
            self.assertLess(made, 20 * usual + 1, name)

    def test_many_small_messages_end_at_the_memory_that_the_limit_allows(self):
        head = chunk(6, b'') + chunk(6, b'a') + chunk(1, number(1, 1))
        lines = number(1, 1) + b'\x22\0' * (15 << 20)  # two bytes each on the wire
        path = self.file('lines', gzip.compress(head + varint(4 << 3 | 2) + varint(len(lines)) + lines, 1))
        self.assertIn('more than 380 MiB of memory needed; a higher --limit allows more', self.refuse('top', '--limit', '31M', path))

    def test_a_control_group_limits_the_memory(self):
        with open('/proc/self/cgroup') as f:
            groups = {line.split(':')[1]: line.split(':', 2)[2].strip() for line in f}
        place, limit = ('/sys/fs/cgroup/memory' + groups['memory'], 'memory.limit_in_bytes') if 'memory' in groups else \
            ('/sys/fs/cgroup' + groups.get('', ''), 'memory.max')
        group = '%s/deltaprof-test-%d' % (place, os.getpid())
        try:
            os.mkdir(group)
            self.addCleanup(os.rmdir, group)
            with open(os.path.join(group, limit), 'w') as f:
                f.write(str(400 << 20))
        except OSError as error:  # not root, or no such controller here
            self.skipTest(str(error))

        def enter():
            with open(os.path.join(group, 'cgroup.procs'), 'w') as f:
                f.write(str(os.getpid()))
        head = chunk(6, b'') + chunk(6, b'a') + chunk(1, number(1, 1))
        lines = number(1, 1) + b'\x22\0' * (15 << 20)
        path = self.file('lines', gzip.compress(head + varint(4 << 3 | 2) + varint(len(lines)) + lines, 1))
        done = subprocess.run([DELTAPROF, 'top', path], capture_output=True, timeout=60, preexec_fn=enter)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b'more than 300 MiB of memory needed; the machine or its control group has no more', done.stderr)

    def test_kinds_are_not_mixed(self):
        heap, other = self.file('h', [(['f'], [1, 1, 1, 1])]), self.file('m', [(['f'], [1, 1])], [('x', 'count'), ('y', 'count')])
        for arguments in ['top', heap, other], ['merge', heap, other], ['diff', heap, other], ['diff', heap, self.file('l', [(['f'], [1, 1])], MUTEX)]:
            self.assertIn('another kind of profile', self.refuse(*arguments))

    def test_heap_profiles_with_more_types_stand_beside_others(self):
        """A program was started again with types=waste or age=on, and the same out."""
        plain = self.file('d/server.7.0001.heap.pb.gz', [(['f'], [1, 10, 2, 200])], time_ns=10**18)
        waste = self.file('d/server.8.0001.heap.pb.gz', [(['f'], [30, 30, 150, 100, 4, 400, 50, 0]), (['g'], [1, 1, 1, 1, 1, 1, 1, 1])],
                          [*((t, 'bytes') for t in ('resident_space', 'zero_space')), HEAP[2], HEAP[3], HEAP[0], HEAP[1], ('pinned_space', 'bytes'), ('swapped_space', 'bytes')],
                          time_ns=10**18)
        for files in [plain, waste], [waste, plain], [self.dir.name + '/d']:
            for kind, sums in ('alloc_space', {'f': 410, 'g': 1}), ('inuse_space', {'f': 300, 'g': 1}), ('zero_space', {'f': 30, 'g': 1}):
                found = json.loads(self.run_it('top', '--json', '--type', kind, *files))
                self.assertEqual({row['name']: row['flat'] for row in found['rows']}, sums, (files, kind))
            self.assertEqual([row['name'] for row in json.loads(self.run_it('waste', '--json', *files))['rows']], ['f', 'g'])
            for verb in 'summary', 'tree', 'leaks', 'growth', 'rss', 'view':
                done = subprocess.run([os.path.abspath(DELTAPROF), verb, *files], capture_output=True, timeout=60, cwd=self.dir.name)
                self.assertNotIn(b'another kind', done.stderr, verb)
            merged = os.path.join(self.dir.name, 'merged.pb.gz')
            self.run_it('merge', *files, '-o', merged)
            self.assertEqual(json.loads(self.run_it('top', '--json', '--type', 'alloc_space', merged))['total'], 411)

    def test_counters_that_went_down_are_reported(self):
        a, b = self.file('a', [(['f'], [9, 9, 5, 5])]), self.file('b', [(['f'], [2, 2, 7, 7])])
        self.assertEqual(list(meaning(self.run_it('diff', a, b)).values()), [[0, 0, 7, 7]])
        self.assertIn('1 sample went down or vanished', self.error)
        self.assertEqual(list(meaning(self.run_it('diff', '--negative=drop', a, b)).values()), [])
        self.assertEqual(list(meaning(self.run_it('diff', '--negative=keep', a, b)).values()), [[-7, -7, 7, 7]])

    def test_numbers_that_overflow_stay_at_the_largest(self):
        most, least = 2**63 - 1, -2**63
        a, b = self.file('a', [(['f'], [least, 1, 5, 5])]), self.file('b', [(['f'], [most, 1, 5, 5])])
        self.assertEqual(list(meaning(self.run_it('diff', a, b)).values()), [[most, 0, 5, 5]])
        self.assertEqual(list(meaning(self.run_it('diff', '--negative=keep', b, a)).values()), [[least, 0, 5, 5]])
        twice = self.file('c', [(['f'], [most, 1, 5, 5]), (['f'], [most, 1, 5, 5])])  # one row, summed
        self.assertEqual(list(meaning(self.run_it('diff', self.file('d', [(['g'], [1, 1, 1, 1])], program='/bin/other'), twice)).values()),
                         [[most, 2, 10, 10]])

    def test_missing_flows_are_named(self):
        a = self.file('a', [(['f'], [9, 9, 5, 5])])
        self.run_it('diff', '--flows=alloc_space,cpu', a, a, status=2)
        self.assertEqual(self.error, 'deltaprof diff: %s: no sample type cpu to subtract; it has: alloc_objects, alloc_space, '
                         'inuse_objects, inuse_space\n' % a)
        self.assertEqual(list(meaning(self.run_it('diff', '--flows=inuse_space,inuse_space', '--limit=4G', a, a)).values()), [[9, 9, 5, 0]])

    def test_a_stream_writes_no_delta_over_another(self):
        paths = [self.file('%d/heap.pb.gz' % i, [(['f'], [i, i, 0, 0])], time_ns=i) for i in range(1, 4)]
        out = os.path.join(self.dir.name, 'out')
        self.run_it('diff', '--stream', '-o', out, *paths, status=1)
        self.assertEqual(self.error, 'deltaprof diff: %s: %s/heap.delta.pb.gz was written for another file of this stream\n' % (paths[2], out))
        with open(out + '/heap.delta.pb.gz', 'rb') as f:
            self.assertEqual(list(meaning(f.read()).values()), [[1, 1, 0, 0]])

    def test_a_stream_takes_names_from_standard_input(self):
        paths = [self.file('in/%d.pb.gz' % i, [(['f'], [i, i, 0, 0])], time_ns=i) for i in range(1, 4)]
        out = os.path.join(self.dir.name, 'out')
        self.run_it('diff', '--stream', '-o', out, '-', data='\n'.join(paths).encode())
        self.assertEqual(sorted(os.listdir(out)), ['2.delta.pb.gz', '3.delta.pb.gz'])


if __name__ == '__main__':
    unittest.main()
