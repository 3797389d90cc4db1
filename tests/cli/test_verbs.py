# SPDX-License-Identifier: MIT
"""Rules for all verbs: each option has an effect or is refused; an error names the input that cannot be read; output that cannot be
written is an error.

    test_verbs.py DELTAPROF CORPUS
"""
import gzip
import json
import os
import re
import select
import shutil
import subprocess
import sys
import unittest

import by_hand
from by_hand import DELTAPROF, Case, open_terminal, profile
from random_profile import HEAP, MUTEX, chunk, number

CORPUS = sys.argv.pop(1)
VERBS = 'run', 'summary', 'top', 'tree', 'waits', 'growth', 'leaks', 'check', 'rss', 'view', 'timeline', 'convert', 'push', 'merge', 'diff'
LONG = 'own::map<std::pair<int, long>, std::vector<int> >::insert(int)'
EVENTS = [*HEAP[:2], ('contentions', 'count'), ('delay', 'nanoseconds')]


class Verbs(Case):
    def directory(self):
        """A directory with heap, block and lock-chain profiles of two processes, eight of each; every option changes what a verb prints of it."""
        for pid, start in (7, 0), (8, 5):
            for i in range(1, 9):
                wave = 4000 if i == 5 else 0
                rows = [(['xmalloc', 'own_alloc', LONG, 'main'], [100, 10000, 10 * i, 1000 * i + wave], {'thread': 'io'}),
                        (['malloc', 'steady', 'lib.so+0x12', 'main'], [1, 20, 3, 300 + pid]),
                        (['malloc', 'inherit', 'main'], [0, 0, 1, 50 * i], {'fork': 'inherited'})]
                self.file(f'd/server.{pid}.{i:04}.heap.pb.gz', rows, HEAP, 10**18 + (start + 15 * i) * 10**9, 15 * 10**9,
                          comment='#RssTotal=%d' % (10**6 * i))
                chains = [by_hand.chain(i, 1000 * i, ['std::mutex::lock()', 'own_lock', LONG, 'main'], ['own_unlock', 'hold'], thread='io'),
                          by_hand.chain(1, 10, ['other'], ['idle'])]
                for kind, rows in ('block', [(['own_lock', LONG, 'main'], [1, 1000 * i], {'lock': 'mutex'})]), ('chain', chains):
                    self.file(f'd/server.{pid}.{i:04}.{kind}.pb.gz', rows, MUTEX, 10**18 + (start + 15 * i) * 10**9, 15 * 10**9)
        return self.dir.name + '/d'

    def outcome(self, *arguments):
        done = subprocess.run([DELTAPROF, *arguments], capture_output=True, timeout=60, env=dict(os.environ, TZ='UTC'))
        return done.returncode, done.stdout, done.stderr

    def test_every_option_has_an_effect_or_is_refused(self):
        d = self.directory()
        old, new = f'{d}/server.7.0002.heap.pb.gz', f'{d}/server.7.0008.heap.pb.gz'
        commands = [['top', d], ['tree', '--min', '0', d], ['leaks', '--confidence', '0', d], ['growth', d], ['growth', old, new],
                    ['check', '--max-growth', '1%', '--type', 'inuse_space', old, new], ['waits', d]]
        options = [['--type', 'alloc_objects'], ['--kind', 'block'], ['--label', 'thread=io'], ['--focus', 'steady|other'], ['--ignore', 'own'],
                   ['--hide', 'own|steady'], ['--fold', '^own'], ['--raw'], ['--names', 'full'], ['--at', 'peak'], ['--at', '01:47:50'],
                   ['--inherited'], ['--json'], ['--limit', '100']]
        for verb, *rest in commands:
            plain = self.outcome(verb, *rest)
            self.assertIn(plain[0], (0, 1), plain)
            self.assertTrue(plain[1], (verb, plain))
            for option in options:
                if option[0] in ('--at', '--inherited') and rest[-1] == new:
                    continue  # with one file on each side there is no time and no process to choose
                if option[0] == '--type' and verb == 'check':
                    option = ['--type', 'alloc_space']
                if option[0] == '--kind' and rest[-1] == new:
                    continue  # files named one by one are all of one kind
                with self.subTest(verb=verb, rest=rest, option=option):
                    self.assertNotEqual(self.outcome(verb, *rest[:-1], *option, rest[-1])[:2], plain[:2])
        for option in ['--inherited'], ['--kind', 'block'], ['--limit', '100']:
            self.assertNotEqual(self.outcome('merge', *option, d)[:2], self.outcome('merge', d)[:2], option)

    def test_columns_without_a_name_are_refused(self):
        d = self.directory()
        for wanted in '', ',', 'alloc_space,', ',alloc_space':
            self.run_it('top', '--columns', wanted, d, status=2)
            self.assertEqual(self.error, f'deltaprof top: --columns {wanted}: a name is empty\n')

    def test_inherited_memory_counts_only_with_the_option(self):
        d = self.directory()
        for verb in 'growth', 'leaks':
            text = [self.run_it(verb, '--json', '-n0', *option, d).decode() for option in ([], ['--inherited'])]
            found = [json.loads(t) for t in text]
            totals = [f['total'] if verb == 'growth' else f['in_use_bytes'] for f in found]
            self.assertEqual(totals[1] - totals[0], 2 * (50 * 8 - (50 if verb == 'growth' else 0)))
        self.assertEqual([r['name'] for r in json.loads(self.run_it('growth', '--json', '--label', 'fork=inherited', d))['rows']], ['inherit'])

    def test_output_that_cannot_be_written_is_an_error(self):
        d = self.directory()
        files = [f'{d}/server.7.000{i}.heap.pb.gz' for i in (1, 8)]
        commands = [['--help'], ['--version'], ['help'], *(['help', verb] for verb in VERBS), *([verb, '--help'] for verb in VERBS),
                    ['top', d], ['tree', d], ['waits', d], ['growth', d], ['growth', *files], ['leaks', d], ['check', '--max-growth=1%', *files],
                    ['rss', d], ['rss', str(os.getpid())], ['merge', d], ['diff', *files], ['convert', files[0], '--to', 'folded'], ['view', d, '-o', '-']]
        commands += [[verb, '--json', d] for verb in ('top', 'tree', 'waits', 'growth', 'leaks', 'rss')]
        for command in commands:
            with self.subTest(command), open('/dev/full', 'wb') as full:
                done = subprocess.run([DELTAPROF, *command], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 2 if command[0] == 'check' and len(command) > 2 else 1, done.stderr)
                self.assertRegex(done.stderr.decode().splitlines()[-1], r'standard output: No space left on device')

    def bad_inputs(self):
        """Paths that no verb can read."""
        good = profile([(['f'], [1, 1, 1, 1])])
        os.makedirs(self.dir.name + '/empty')
        os.symlink('loop', self.dir.name + '/loop')
        yield from (self.file('nothing', b''), self.file('text', b'heap profile: 1: 2\n'), self.file('cut', good[:-9]), self.file('zeros', bytes(5000)),
                    self.file('garbage', b'\x1f\x8b' + bytes(range(256))), self.dir.name + '/none', self.dir.name + '/none/*', self.dir.name + '/loop',
                    self.dir.name + '/empty', '/proc/self/mem')
        for name in 'location-unknown', 'values-too-few', 'gzip-truncated', 'wire-type-location':
            yield os.path.join(CORPUS, name)

    def test_input_that_cannot_be_read_is_named_in_one_line(self):
        good = self.file('good', [(['f'], [1, 1, 1, 1])])
        for bad in list(self.bad_inputs()):
            for arguments in (['top', bad], ['tree', bad], ['waits', bad], ['growth', bad, good], ['growth', bad], ['leaks', bad],
                              ['check', '--max-growth=1%', bad, good], ['rss', bad], ['view', bad, '-o', self.dir.name + '/out'],
                              ['timeline', bad, '-o', self.dir.name + '/out.pftrace'], ['convert', bad, '-o', self.dir.name + '/out.otlp'],
                              ['merge', bad, '-o', self.dir.name + '/out'], ['diff', bad, good, '-o', self.dir.name + '/out']):
                if bad.endswith('/text') and arguments[0] == 'convert':
                    continue  # convert reads text, as one stack per line
                with self.subTest(arguments):
                    status, out, error = self.outcome(*arguments)
                    self.assertEqual((status, out), (2 if arguments[0] == 'check' or (arguments[0] == 'diff' and bad.endswith('/empty')) else 1, b''))
                    self.assertRegex(error.decode(), r'\Adeltaprof \w+: [^\x00-\x1f\x7f]+\n\Z')
                    self.assertIn(bad, error.decode())
                    self.assertFalse([name for name in os.listdir(self.dir.name) if name.startswith('out')])

    def test_broken_files_are_left_out_of_the_output_and_named(self):
        def row(values, **labels):
            return [(['f', 'main'], values, labels)]
        for i in (1, 3):
            self.file(f'd/a.1.{i:04}.heap.pb.gz', row([1, 10, 1, 10]), time_ns=10**18 + i, comment='#RssTotal=5000')
            self.file(f'd/a.1.{i:04}.block.pb.gz', row([1, 10]), MUTEX, time_ns=10**18 + i)
            self.file(f'd/a.1.{i:04}.chain.pb.gz', [by_hand.chain(1, 10, ['f'], ['g'])], MUTEX, time_ns=10**18 + i)
            self.file(f'd/a.1.{i:04}.events.pb.gz', row([1, 10, 0, 0], end_timestamp_ns=10**18 + i), EVENTS, time_ns=10**18)
        bad = []
        for i, data in (2, b'no profile'), (4, profile(row([1, 1]), MUTEX)[:-9]):
            bad += [self.file(f'd/a.1.{i:04}.{kind}.pb.gz', data) for kind in ('heap', 'block', 'events', 'chain')]
        inside = chunk(1, number(1, 1) + number(2, 1)) + chunk(2, chunk(1, b'\7') + chunk(2, b'\1')) + chunk(6, b'') + chunk(6, b'x')
        bad += [self.file(f'd/b.2.0001.{kind}.pb.gz', gzip.compress(inside)) for kind in ('heap', 'block', 'events', 'chain')]
        out, d = self.dir.name + '/out', self.dir.name + '/d'
        for kinds, arguments in (('heap', ['merge', d, '-o', out]), ('block', ['merge', '--kind', 'block', d, '-o', out]), ('chain', ['waits', d]),
                                 ('heap', ['rss', d]), ('heap', ['summary', d]), ('heap events', ['timeline', d, '-o', out, '--to', 'perfetto']), ('heap block chain', ['view', d, '-o', out])):
            with self.subTest(arguments):
                status, text, error = self.outcome(*arguments)
                lines = error.decode().splitlines()
                self.assertEqual(status, 1, lines)
                self.assertEqual(len(lines), len(set(lines)), lines)  # each is named once, however often the verb reads it
                named = [path for path in bad if any(path in line for line in lines)]
                wanted = {path for path in bad if path.split('.')[-3] in kinds.split()}
                if arguments[0] != 'rss':  # it reads only the newest file of each process that is not broken
                    self.assertLessEqual(wanted, set(named))
                self.assertTrue(any(line.endswith('left out, see above') for line in lines), lines)
                if '-o' in arguments:
                    self.assertGreater(os.path.getsize(out), 50)
                    os.remove(out)
                else:
                    self.assertTrue(text)
        self.outcome('merge', d, '-o', out)
        self.assertIn('20B', re.search(r'Showing.*', self.run_it('top', '--type', 'alloc_space', out).decode())[0])

    def completed(self, *words):
        """The words that bash offers as completions of the last word."""
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../src/man/completion.sh')
        path = self.file('completion', subprocess.run(['sh', script, DELTAPROF, 'bash'], capture_output=True, timeout=60, check=True).stdout)
        done = subprocess.run(['bash', '-c', 'compopt() { :; }; . "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _deltaprof; printf "%s\\n" "${COMPREPLY[@]}"',
                               path, 'deltaprof', *words], capture_output=True, timeout=60, cwd=self.dir.name, text=True)
        self.assertEqual(done.stderr, '')
        return set(done.stdout.split())

    def test_verbs_options_and_keys_are_completed(self):
        self.assertLessEqual(set(VERBS), self.completed(''))
        self.assertEqual(self.completed('to'), {'top'})
        self.assertEqual(self.completed('top', '--fo'), {'--focus', '--fold'})
        self.assertEqual(self.completed('check', '--max'), {'--max', '--max-growth'})
        self.assertEqual(self.completed('run', '-o', 'heap_'), {'heap_rate='})
        self.assertEqual(self.completed('top', 'comp'), {'completion'})
        for verb in VERBS:  # the verb knows each option that is offered
            for option in self.completed(verb, '-') - {'--help'}:
                error = self.outcome(verb, option)[2].decode()
                self.assertNotRegex(error, option + ' is no(t an)? option', (verb, option))

    def test_a_directory_is_merged_for_convert(self):
        d = self.directory()
        out = self.dir.name + '/out.folded'
        self.run_it('convert', d, '-o', out, '--type', 'alloc_space')
        self.assertIn(': its 16 profiles are merged; only one kind of them, there are also: block', self.error)
        with open(out) as f:
            self.assertEqual(sum(int(line.rsplit(' ', 1)[1]) for line in f),
                             json.loads(self.run_it('top', '--json', '--type', 'alloc_space', d))['total'])

    @unittest.skipUnless(shutil.which('strace'), 'strace is not installed')
    def test_a_verb_that_runs_longer_than_a_second_prints_its_progress(self):
        paths = [self.file(f'a.1.{i:04}.heap.pb.gz', [(['f'], [1, 1, 1, 1])]) for i in (1, 2)]
        slow = ['strace', '-o', '/dev/null', '-P', paths[0], '-e', 'inject=openat:delay_enter=1300000']
        for command, says in ([], False), (slow, True):
            master, slave = open_terminal()
            subprocess.run([*command, DELTAPROF, 'top', *paths], stderr=slave, stdout=subprocess.DEVNULL, timeout=60, check=True)
            text = os.read(master, 4096) if select.select([master], [], [], .1)[0] else b''
            os.close(slave)
            os.close(master)
            self.assertEqual(b'deltaprof top: 1 of 2 files' in text, says, text)
            if says:
                self.assertTrue(text.endswith(b'\r\x1b[K'), text)

    def test_standard_input_is_never_left_out(self):
        bad = self.file('bad', b'no profile')
        for verb in ['top'], ['merge']:
            self.assertEqual(self.run_it(*verb, bad, '-', data=profile([(['f'], [1, 1, 1, 1])]), status=1), b'')
            self.assertEqual(len(self.error.splitlines()), 1)

    def test_waits_says_that_no_holder_has_unlocked_yet(self):
        self.file('d/a.1.0001.block.pb.gz', [(['f'], [1, 1])], MUTEX)
        self.run_it('waits', self.dir.name + '/d', status=1)
        self.assertEqual(self.error, f'deltaprof waits: {self.dir.name}/d: no chain profile; there are: block (threads waited, but no holder has released a lock; '
                         'top --kind block shows the waits, and summary names deadlocks)\n')

    def test_waits_says_that_a_directory_has_no_lock_profiles(self):
        self.file('d/a.1.0001.heap.pb.gz', [(['f'], [1, 1, 1, 1])])
        self.run_it('waits', self.dir.name + '/d', status=1)
        self.assertEqual(self.error, f'deltaprof waits: {self.dir.name}/d: no chain profile; there are: heap (deltaprof run writes some when threads wait for locks)\n')


if __name__ == '__main__':
    unittest.main()
