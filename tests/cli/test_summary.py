# SPDX-License-Identifier: MIT
"""`deltaprof summary`, and `deltaprof PATH`: the sentences that matter, the worst first.

    test_summary.py DELTAPROF
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from by_hand import DELTAPROF, HEAP, Case, all_of, chain, open_terminal
from random_profile import MUTEX

CPU = [('samples', 'count'), ('cpu', 'nanoseconds')]


class Summary(Case):
    def heap(self, i, rows, comment=None, name='d', held=0, total=100 << 20):
        comments = [f'#RssTotal={total}', f'#RssAnon={total}', f'#RssPart malloc, held but not in use={held}'] + (comment or [])
        self.file(f'{name}/server.7.{i:04}.heap.pb.gz', rows, time_ns=10**18 + 10 * i * 10**9, duration_ns=10**10, comment=comments)

    def directory(self, name='d'):
        """A leak, an import that was freed, and a lock."""
        for i in range(1, 41):
            self.heap(i, [(['malloc', 'login', 'main'], [100, 10 << 20, 100 * i, i << 20]),
                          (['import_file', 'main'], [9, 900 if i > 4 else 120 << 20, 9, 120 << 20 if i < 4 else 1 << 20])], name=name, held=70 << 20)
            self.file(f'{name}/server.7.{i:04}.mutex.pb.gz', [(['report', 'timer'], [3, 400_000_000]), (['add', 'main'], [9, 1000])], MUTEX,
                      time_ns=10**18 + 10 * i * 10**9, duration_ns=10**10)
        return f'{self.dir.name}/{name}'

    def sentences(self, *arguments):
        return json.loads(self.run_it('summary', '--json', *arguments))['sentences']

    def test_the_worst_stands_first_with_its_number_its_function_and_a_command(self):
        directory = self.directory()
        found = self.sentences(directory)
        self.assertEqual([s['kind'] for s in found], ['leak', 'held', 'lock', 'looked'])
        leak, held, lock, _ = found
        self.assertRegex(leak['text'], r'^Leak: login, 40MB, \+360MB an hour in 6\.67min of work, unless it is data to keep\.$')
        self.assertEqual((leak['bytes'], leak['stack'], leak['more']), (40 << 20, ['login', 'main'], 'deltaprof leaks ' + directory))
        self.assertEqual(held['text'], '70% of resident memory, 70MB, is held by malloc and not in use: import_file had 119MB more at the peak '
                         '(123MB in use, 2001-09-09 01:47:20 UTC) than now.')
        self.assertEqual((held['bytes'], held['stack'], held['more']), (70 << 20, ['import_file', 'main'], 'deltaprof rss ' + directory))
        self.assertEqual(lock['text'], 'report made other threads wait 16s for its lock, in 6.67min of ticks with waits.')
        self.assertEqual((lock['ns'], lock['stack'], lock['more']), (16 * 10**9, ['report', 'timer'], 'deltaprof waits ' + directory))

    def test_commands_are_about_all_paths(self):
        one, other = self.directory('one'), self.directory('an other')
        self.assertIn(f"    deltaprof leaks {one} '{other}'\n", self.run_it('summary', one, other).decode())
        self.assertEqual(self.sentences(one, other)[0]['more'], f'deltaprof leaks {one} {other}')
        self.run_it('4194305', status=1)
        self.assertEqual(self.error, 'deltaprof summary: 4194305: no file, and no process with this number\n')

    def test_a_path_alone_is_the_summary(self):
        directory = self.directory()
        text = self.run_it('summary', directory)
        self.assertEqual(self.run_it(directory), text)
        self.assertEqual(text.decode().splitlines()[:2], ['Leak: login, 40MB, +360MB an hour in 6.67min of work, unless it is data to keep.', f'    deltaprof leaks {directory}'])
        self.run_it(f'{directory}/*.heap.pb.gz')
        self.run_it(self.dir.name + '/none', status=1)
        self.assertIn('No such file', self.error)

    def test_nothing_to_say_is_said_with_what_was_looked_at(self):
        for i in range(1, 21):
            self.heap(i, [(['f', 'main'], [10, 1000, 1, 5000])], held=1 << 20)
        found = self.sentences(self.dir.name + '/d')
        self.assertEqual([(s['kind'], s['text']) for s in found], [
            ('nothing', 'Nothing to say: no leak in 20 ticks, 1% of resident memory held by malloc and not in use, at most 4.88kB in use '
                        '(2001-09-09 01:47:00 UTC), no lock that made others wait, nothing lost.')])

    def test_a_wait_that_has_not_ended_stands_first(self):
        directory = self.directory()

        def block(i, *comments, pid=9):
            self.file(f'd/server.{pid}.{i:04}.block.pb.gz', [(['wait', 'main'], [1, 1000])], MUTEX, time_ns=10**18 + 10 * i * 10**9, duration_ns=10**10, comment=comments)
        block(1, '#stuck 1500 deadlock of 2 threads: thread 7 waits')
        block(2, '#stuck 11500 deadlock of 2 threads: thread 7 waits')
        stuck = self.sentences(directory)[0]
        self.assertEqual((stuck['kind'], stuck['ns'], stuck['text']),
                         ('stuck', 11500 * 10**6, 'Since 2001-09-09 01:46:58 UTC: deadlock of 2 threads: thread 7 waits.'))
        block(3, '#ended')
        self.assertEqual(self.sentences(directory)[0], stuck)
        block(3, '#ended', '#stuck 21500 thread 7 waits')  # a thread runs the handler that ends the process
        self.assertEqual(self.sentences(directory)[0], stuck)
        for comments in [], ['#stuck'], ['#stuck -5 x'], ['#stuck 12'], ['#stuck x y'], ['#stuck 99999999999999999999']:
            block(4, *comments)
            self.assertEqual(self.sentences(directory)[0]['kind'], 'leak', comments)
        block(1, '#stuck 1500 deadlock of 2 threads: thread 8 waits', pid=5)
        block(2, '#exit', pid=5) # only two files, and the next one is another process's
        self.assertIn('thread 8 waits', self.sentences(directory)[0]['text'])

    def test_what_another_process_made_of_the_tables_tells_neither_waits_nor_resident_memory(self):
        """The newest profile that the process has written itself does."""
        for i in range(1, 21):
            self.heap(i, [(['f', 'main'], [10, 1000, 1, 5000])], held=40 << 20)
            self.file(f'd/server.7.{i:04}.block.pb.gz', [(['wait', 'main'], [1, 1000])], MUTEX, time_ns=10**18 + 10 * i * 10**9,
                      duration_ns=10**10, comment=[f'#stuck {i * 10000} deadlock of 2 threads: thread 7 waits'])
        for kind, rows, types in ('block', [(['wait', 'main'], [1, 1000])], [MUTEX]), ('heap', [(['f', 'main'], [10, 1000, 1, 5000])], []):
            self.file(f'd/server.7.0021.{kind}.pb.gz', rows, *types, time_ns=10**18 + 210 * 10**9, duration_ns=10**9, comment=['#tables'])
        stuck, held, looked = self.sentences(self.dir.name + '/d')
        self.assertEqual((stuck['kind'], stuck['ns']), ('stuck', 200 * 10**9))
        self.assertIn('40% of resident memory, 40MB, is held by malloc', held['text'])
        self.assertIn('no other lock that made others wait', looked['text'])

    def test_what_a_program_frees_when_it_ends_is_not_held(self):
        for held, kinds in (1 << 20, ['nothing']), (60 << 20, ['held', 'looked']):
            for i in range(1, 21):
                self.heap(i, [(['f', 'main'], [10, 1000, 1, 5000])], held=held)
            self.heap(21, [(['f', 'main'], [10, 1000, 1, 5000])], ['#exit'], held=80 << 20)
            found = self.sentences(self.dir.name + '/d')
            self.assertEqual([s['kind'] for s in found], kinds)
            self.assertIn(f'{held >> 20}% of resident memory', found[0]['text'])

    def test_what_cannot_be_told_and_what_is_lost_is_said(self):
        self.heap(1, [(['f', 'main'], [10, 1000, 1, 5000])], ['3 stacks were cut short'])
        found = self.sentences(self.dir.name + '/d')
        self.assertEqual([s['kind'] for s in found], ['lost', 'leak-unknown', 'looked'])
        self.assertEqual((found[0]['text'], found[0]['more']), ('Lost in heap: 3 stacks were cut short.', 'deltaprof top ' + self.dir.name + '/d'))
        self.assertRegex(found[1]['text'], 'cannot be told yet: 1 tick')

    def test_what_is_open_is_a_list_in_json(self):
        def open_in(name):
            return json.loads(self.run_it('summary', '--json', f'{self.dir.name}/{name}'))['open']
        self.assertEqual(open_in(os.path.basename(self.directory())), [])
        self.heap(1, [(['f', 'main'], [10, 1000, 1, 5000])], name='short')
        (leak,) = open_in('short')
        self.assertEqual((leak['kind'], leak['needs']), ('leak', json.loads(self.run_it('leaks', '--json', self.dir.name + '/short'))['needs']))
        self.file('ended/a.1.0001.heap.pb.gz', [(['f', 'main'], [10, 1000, 1, 5000])], time_ns=10**18, duration_ns=10**9, comment='#exit')
        self.assertEqual([o['kind'] for o in open_in('ended')], ['leak', 'held'])
        self.file('locks/a.1.0001.mutex.pb.gz', [(['report'], [3, 4])], MUTEX, time_ns=10**18, duration_ns=10**10)
        self.assertEqual([o['kind'] for o in open_in('locks')], ['heap'])

    def waste(self, name, zeros, absent=0):
        types = [*HEAP, *((t, 'bytes') for t in ('resident_space', 'swapped_space', 'zero_space', 'pinned_space'))]
        for i in range(1, 21):
            self.file(f'{name}/server.7.{i:04}.heap.pb.gz', [(['malloc', 'grow', 'main'], [10, 1000, 10, 80 << 20, 80 << 20, 0, zeros, 0]),
                                                             (['malloc', 'read', 'main'], [10, 1000, 10, 20 << 20, 20 << 20, 0, zeros // 8, 0])], types,
                      time_ns=10**18 + 10 * i * 10**9, duration_ns=10**10,
                      comment=[f'#RssTotal={120 << 20}', f'#RssAnon={100 << 20}', f'#RssPart malloc, in use={100 << 20}', f'#RssAbsent={absent}'])
        return self.sentences(f'{self.dir.name}/{name}')

    def test_memory_in_use_that_is_only_zeros_is_said_where_profiles_tell(self):
        zeros, looked = self.waste('zeros', 40 << 20)
        self.assertEqual((zeros['kind'], zeros['text']), ('zeros', '45% of memory in use that is resident, 45MB, is only zeros, most in grow: 40MB.'))
        self.assertEqual((zeros['bytes'], zeros['stack'], zeros['more']), (45 << 20, ['grow', 'main'], f'deltaprof waste {self.dir.name}/zeros'))
        (looked,) = self.waste('few', 8 << 20)
        self.assertIn('9% of memory in use only zeros', looked['text'])
        self.assertNotIn('never written', looked['text'])

    def test_memory_in_use_that_was_never_written_is_said(self):
        (looked,) = self.waste('absent', 0, absent=300 << 20)
        self.assertIn('300MB of memory in use never written, so not resident', looked['text'])

    def test_a_lock_without_a_holder_is_nobodys(self):
        for name, frame, words in ('a', '[hand-over]', 'while no thread held the lock, in 10s of ticks with waits: it changes hands often.'), \
                ('b', '[unknown holder]', 'for a lock whose holder is not known, in 10s of ticks with waits.'):
            self.file(f'{name}/server.7.0001.mutex.pb.gz', [([frame], [3, 400_000_000])], MUTEX, time_ns=10**18, duration_ns=10**10)
            self.assertEqual(self.sentences(f'{self.dir.name}/{name}')[0]['text'], 'Threads waited 400ms ' + words)

    def wall(self, directory='d'):
        """Two threads at a time beside an idle one: a quarter runs, a half waits for a lock, an eighth each for io and a processor."""
        self.file(f'{directory}/server.7.0001.wall.pb.gz', [
            (['burn', 'main'], [500, 5 * 10**9], {'state': 'running'}), (['burn', 'main'], [9, 25 * 10**8], {'state': 'runnable'}),
            (['get', 'worker'], [90, 9 * 10**9], {'state': 'lock'}), (['put', 'worker'], [9, 10**9], {'state': 'lock'}),
            (['read', 'load', 'main'], [25, 25 * 10**8], {'state': 'io'}),
            (['take', 'pool'], [100, 10**10], {'state': 'lock', 'idle': 'yes'})], [('samples', 'count'), ('wall', 'nanoseconds')],
            time_ns=10**18, duration_ns=10**10)
        self.file(f'{directory}/server.7.0001.chain.pb.gz', [chain(9, 9 * 10**9, ['get', 'worker'], ['fill', 'main']),
                                                            chain(1, 10**10, ['other'], ['holder', 'main'])], MUTEX, 10**18, 10**10)
        return f'{self.dir.name}/{directory}'

    def test_where_threads_spent_their_time_is_said_by_state(self):
        directory = self.wall()
        found, = (s for s in self.sentences(directory) if s['kind'] == 'wall')
        self.assertEqual(found['text'], 'Threads: of 2 thread-seconds a second, idle ones aside, 25% run, 12% wait for a processor, '
                         '50% wait for locks (most in get, held by fill), 12% wait for io.')
        self.assertEqual((found['ns'], found['stack'], found['more']), (2 * 10**10, ['get', 'worker'], 'deltaprof top --kind wall --no-idle ' + directory))

    def test_threads_of_processes_that_ran_together_are_counted_together(self):
        for pid in 7, 8:
            self.file(f'd/server.{pid}.0001.wall.pb.gz', [(['burn'], [9, 3 * 10**10], {'state': 'running'})], [('samples', 'count'), ('wall', 'nanoseconds')],
                      time_ns=10**18, duration_ns=10**10)
        found, = (s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'wall')
        self.assertIn('of 6 thread-seconds a second', found['text'])

    def test_time_of_an_unknown_state_is_in_the_sum(self):
        self.file('d/server.7.0001.wall.pb.gz', [(['burn'], [5, 2 * 10**9], {'state': 'running'}), (['[state unknown]'], [5, 8 * 10**9], {'state': 'unknown'})],
                  [('samples', 'count'), ('wall', 'nanoseconds')], time_ns=10**18, duration_ns=10**10)
        found, = (s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'wall')
        self.assertIn('20% run, 80% wait, not known for what.', found['text'])

    def test_idle_threads_are_left_out_where_the_user_says_so(self):
        directory = self.wall()
        def total(*options):
            return json.loads(self.run_it('top', '--json', '--kind', 'wall', *options, directory))['total']
        self.assertEqual(total(), 3 * 10**10)
        self.assertEqual(total('--no-idle'), 2 * 10**10)
        self.assertEqual(total('--no-idle', '--label', 'state=lock'), 10**10)
        self.assertNotIn(b'take', self.run_it('tree', '--kind', 'wall', '--no-idle', directory))
        self.file('b/server.7.0001.block.pb.gz', [(['take', 'pool'], [1, 7], {'lock': 'cond'}), (['get', 'worker'], [1, 5], {'lock': 'mutex'})], MUTEX)
        self.assertEqual(json.loads(self.run_it('top', '--json', '--no-idle', self.dir.name + '/b'))['total'], 5)

    def test_the_time_of_threads_can_have_a_budget(self):
        directory = self.wall()
        self.run_it('check', '--max', 'wall=31s', directory)
        self.run_it('check', '--max', 'wall=29s', directory, status=1)
        self.run_it('check', '--max', 'wall=1s', '--label', 'state=lock', '--no-idle', directory, status=1)

    def test_of_locks_a_holder_stands_before_time_without_one(self):
        rows = [(['[hand-over]'], [9, 900_000_000]), (['report', 'timer'], [3, 400_000_000])]
        self.file('a/server.7.0001.mutex.pb.gz', rows, MUTEX, time_ns=10**18, duration_ns=10**10)
        self.assertEqual(self.sentences(self.dir.name + '/a')[0]['text'],
                         'report made other threads wait 400ms for its lock, in 10s of ticks with waits; hand-overs of locks took 900ms more.')
        self.file('b/server.7.0001.mutex.pb.gz', [(['[hand-over]'], [9, 60_000_000])], MUTEX, time_ns=10**18, duration_ns=10**10)
        self.assertEqual([s['kind'] for s in self.sentences(self.dir.name + '/b')], ['nothing'])

    def test_what_holds_the_interpreters_lock_is_said_so(self):
        rows = [(['parse@/home/me/app.py', '<module>@/home/me/app.py'], [3, 400_000_000], {'lock': 'gil'})]
        self.file('a/server.7.0001.mutex.pb.gz', rows, MUTEX, time_ns=10**18, duration_ns=10**10)
        self.assertEqual(self.sentences(self.dir.name + '/a')[0]['text'], 'parse made other threads wait 400ms for the GIL of Python, in 10s of ticks with waits.')

    def test_code_of_an_interpreter_is_not_the_users(self):
        library = ['_PyBytes_FromSize', 'load', 'loads@/usr/lib/python3.11/multiprocessing/connection.py', 'run@/usr/lib/python3.11/threading.py', '_PyEval_EvalFrame']
        for i in range(1, 41):
            self.file(f'd/python3.7.{i:04}.heap.pb.gz', [(library, [100, 10 << 20, 100 * i, i << 20])], time_ns=10**18 + 10 * i * 10**9, duration_ns=10**10,
                      program='/usr/bin/python3.11')
        self.file('d/python3.7.0040.cpu.pb.gz', [(library, [100, 10**10])], CPU, time_ns=10**18 + 400 * 10**9, duration_ns=10**10, program='/usr/bin/python3.11')
        leak, cpu = [s['text'] for s in self.sentences(self.dir.name + '/d')][:2]
        self.assertIn('Leak: loads, 40MB', leak)
        self.assertEqual(cpu, 'CPU: 1 cores on average in 10s, 100% in libraries alone.')

    def cpu(self, name, rows, n=1, seconds=10):
        """The CPU sentence of n processes that run at the same time, of rows (stack, percent of a core)."""
        for pid in range(n):
            self.file(f'{name}/server.{7 + pid}.0001.cpu.pb.gz', [(stack, [percent, percent * seconds * 10**7]) for stack, percent in rows], CPU,
                      time_ns=10**18, duration_ns=seconds * 10**9)
        found = [s for s in self.sentences(f'{self.dir.name}/{name}') if s['kind'] == 'cpu']
        return found[0]['text'] if found else None

    def test_the_function_that_uses_the_cpu_is_named_and_not_main(self):
        self.assertEqual(self.cpu('a', [(['parse', 'main'], 40), (['main'], 10), (['[deltaprof]'], 2), (['[deltaprof]', 'main'], 3)]),
                         'CPU: 0.55 cores on average in 10s, 73% of that in parse; deltaprof itself: 9%.')
        many = [([f'leaf{i}', 'handle', 'serve', 'main'], 9) for i in range(9)]
        self.assertEqual(self.cpu('b', [*many, (['parse', 'handle', 'serve', 'main'], 19)]),
                         'CPU: 1 cores on average in 10s, 100% of that in handle and what it calls, 19% in parse alone.')
        self.assertIsNone(self.cpu('c', [(['parse', 'main'], 1)]))

    def test_time_of_libraries_belongs_to_the_function_that_called_them(self):
        library = ['send@/usr/lib/python3/dist-packages/wsgi.py', 'run@/usr/lib/python3/dist-packages/wsgi.py']
        self.assertEqual(self.cpu('a', [([*library, '<module>@/home/me/app.py'], 50), (['index@/home/me/app.py', *library, '<module>@/home/me/app.py'], 6)]),
                         'CPU: 0.56 cores on average in 10s, 11% of that in index, 89% in library calls of <module>.')
        little = [([*library, '<module>@/home/me/app.py'], 50), (['index@/home/me/app.py', *library, '<module>@/home/me/app.py'], 2)]
        self.assertEqual(self.cpu('d', little), 'CPU: 0.52 cores on average in 10s, 96% of that in library calls of <module>.')
        self.assertEqual(self.cpu('b', [([*library, 'index@/home/me/app.py', *library, '<module>@/home/me/app.py'], 50)]),
                         'CPU: 0.5 cores on average in 10s, 100% of that in library calls of index.')
        self.assertEqual(self.cpu('c', [(library, 50)]), 'CPU: 0.5 cores on average in 10s, 100% in libraries alone.')

    def test_time_of_an_interpreter_without_its_functions_is_said_so(self):
        self.file('d/lua5.4.7.0001.cpu.pb.gz', [(['lua5.4+0x20', 'lua_pcallk', 'lua5.4+0x10'], [50, 5 * 10**9])], CPU, time_ns=10**18, duration_ns=10**10,
                  program='/usr/bin/lua5.4')
        found, = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'cpu']
        self.assertEqual(found['text'], 'CPU: 0.5 cores on average in 10s, 100% in the interpreter, in no known function of its language.')

    def test_processes_that_run_at_the_same_time_do_not_make_it_longer(self):
        self.assertIn('CPU: 2 cores on average in 10s,', self.cpu('a', [(['parse', 'main'], 50)], n=4))
        for pid in 7, 8, 9:
            self.file(f'd/server.{pid}.0001.mutex.pb.gz', [(['report', 'timer'], [3, 400_000_000])], MUTEX, time_ns=10**18 + pid * 10**9, duration_ns=10**10)
        self.assertIn('1.2s for its lock, in 12s of ticks with waits', self.sentences(self.dir.name + '/d')[0]['text'])

    def test_of_a_constructor_the_caller_is_named_too(self):
        for name, stack, words in ('a', ['Session::Session', 'Sessions::login', 'main'], 'Leak: Session::Session in Sessions::login, 40MB'), \
                ('b', ['shop::Cart<int>::Cart', 'shop::buy', 'main'], 'Leak: shop::Cart<int>::Cart in shop::buy, 40MB'), \
                ('c', ['Cart::new', 'main::buy', 'main::main'], 'Leak: Cart::new in main::buy, 40MB'), \
                ('d', ['Session::renew', 'Sessions::login', 'main'], 'Leak: Session::renew, 40MB'):
            for i in range(1, 41):
                self.heap(i, [(stack, [100, 10 << 20, 100 * i, i << 20])], name=name)
            self.assertIn(words, self.sentences(f'{self.dir.name}/{name}')[0]['text'])

    def test_a_place_without_a_name_says_where_its_name_is(self):
        self.file('d/server.7.0001.cpu.pb.gz', [([0x401000, 0x402000, 0x403000], [1, 10**9])], CPU, time_ns=10**18, duration_ns=10**9, program=self.dir.name + '/server')
        found = self.sentences(self.dir.name + '/d')
        self.assertEqual([s['kind'] for s in found], ['cpu', 'symbols', 'looked'])
        self.assertIn('\nNo symbols: server is not on this machine', self.run_it('summary', self.dir.name + '/d').decode())
        self.assertIn('server+0x', found[0]['text'])
        self.assertIn('No symbols: server is not on this machine', found[1]['text'])

    def test_losses_of_several_processes_are_summed(self):
        for pid in 7, 8:
            self.file(f'd/server.{pid}.0001.heap.pb.gz', [(['f', 'main'], [10, 1000, 1, 5000])], time_ns=10**18, duration_ns=10**10,
                      comment=[f'{pid} stacks were cut short', '1 sample had no room'])
        self.assertEqual('Lost in heap: 15 stacks were cut short; 2 sample had no room.', self.sentences(self.dir.name + '/d')[0]['text'])
        self.assertTrue(self.run_it('top', self.dir.name + '/d').decode().endswith('Lost: 15 stacks were cut short\n      2 sample had no room\n'))

    def test_each_loss_is_said_once_and_for_its_kinds(self):
        told = {'heap': ['3 stacks were cut short', '5 frames had no room'], 'cpu': ['4 stacks were cut short', '5 frames had no room'],
                'chain': ['2 waits have no holder', '5 frames had no room'], 'mutex': [], 'block': ['7 waits were not seen']}
        for kind, comments in told.items():
            row, types = (['f', 'main'], [1, 10]), {'heap': HEAP, 'cpu': CPU}.get(kind, MUTEX)
            rows = [(['f', 'main'], [10, 1000, 1, 5000])] if kind == 'heap' else [row]
            for i in 1, 2:
                self.file(f'd/server.7.{i:04}.{kind}.pb.gz', rows, types, time_ns=10**18 + i * 10**10, duration_ns=10**10, comment=[f'{i} old', *comments][i == 2:])
        lost, = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'lost']
        self.assertEqual(lost['text'], 'Lost in heap: 3 stacks were cut short; in heap, cpu and chain: 5 frames had no room; in block: 7 waits were not seen; '
                         'in cpu: 4 stacks were cut short; in chain: 2 waits have no holder.')
        os.remove(self.dir.name + '/d/server.7.0002.heap.pb.gz')
        os.remove(self.dir.name + '/d/server.7.0001.heap.pb.gz')
        lost, = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'lost']
        self.assertEqual(lost['text'][:38], 'Lost in block: 7 waits were not seen; ')
        self.assertEqual(lost['more'], f'deltaprof top --kind block {self.dir.name}/d')
        self.assertTrue(self.run_it('top', '--kind', 'cpu', self.dir.name + '/d').decode().endswith('Lost: 4 stacks were cut short\n      5 frames had no room\n'))

    def test_a_count_of_the_process_that_grew_between_two_files_is_said_once(self):
        frames, deltas = 'frames shown as [overflow]: the table of frames is full (raise memory=)', 'events lost in a forked child that was still copying its counters'
        holders = 'waits whose holder is unknown: too many locks or threads at once'
        for pid, told in (7, {'heap': [f'3 {frames}'], 'cpu': [f'5 {frames}', f'1 {deltas}'], 'mutex': [f'6 {holders}'], 'chain': [f'8 {holders}']}), \
                (8, {'heap': [f'20 {frames}'], 'chain': [f'4 {holders}']}):
            for kind, comments in told.items():
                row, types = (['f', 'main'], [1, 10]), {'heap': HEAP, 'cpu': CPU}.get(kind, MUTEX)
                rows = [(['f', 'main'], [10, 1000, 1, 5000])] if kind == 'heap' else [row]
                self.file(f'd/server.{pid}.0001.{kind}.pb.gz', rows, types, time_ns=10**18, duration_ns=10**10, comment=comments)
        lost, = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'lost']
        self.assertEqual(lost['text'], f'Lost: 25 {frames}; 1 {deltas}; in mutex and chain: 12 {holders}.')

    def test_an_end_before_the_first_tick_is_no_number_of_ticks(self):
        self.heap(1, [(['f', 'main'], [10, 5 << 20, 1, 5000])], ['#exit'])
        self.heap(2, [(['f', 'main'], [10, 5000, 1, 5000])], ['#ended'])
        unknown = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'leak-unknown']
        self.assertEqual(unknown[0]['text'], 'Whether it leaks cannot be told yet: no tick before the end of the program: run longer, or interval=100ms.')
        self.assertNotIn('0 tick', self.run_it('leaks', self.dir.name + '/d').decode())

    def test_a_long_life_without_a_tick_names_what_starts_the_thread(self):
        self.file('d/server.7.0001.heap.pb.gz', [(['f', 'main'], [10, 5 << 20, 1, 5000])], time_ns=10**18, duration_ns=90 * 10**9, comment=['#exit'])
        unknown = [s for s in self.sentences(self.dir.name + '/d') if s['kind'] == 'leak-unknown']
        self.assertEqual(unknown[0]['text'], 'Whether it leaks cannot be told yet: no tick in the 90 s of the program: shorter interval=; or, if it has one '
                                             'thread and allocates only in libc, wall_rate=1s or listen=.')

    def test_a_shorter_interval_is_advised_only_where_it_is_shorter(self):
        for name, interval in {'second': 10**9, 'tenth': 10**8}.items():
            for i in range(1, 6):
                self.file(f'{name}/server.7.{i:04}.heap.pb.gz', [(['f', 'main'], [50, 25 << 20, 10, 5 << 20])],
                          time_ns=10**18 + i * interval, duration_ns=interval)
            text = self.run_it('leaks', f'{self.dir.name}/{name}').decode()
            self.assertIn('Cannot tell: 5 ticks', text)
            self.assertEqual('or interval=100ms' in text, name == 'second', text)

    def test_a_directory_without_profiles_says_why(self):
        out = self.dir.name + '/out'
        subprocess.run([DELTAPROF, 'run', '-o', f'heap_rate=1G,cpu_rate=0,out={out}', '--', 'sleep', '0'], timeout=60, check=True)
        for verb in 'summary', 'top', 'leaks':
            self.run_it(verb, out, status=1)
            self.assertRegex(self.error, f'^deltaprof {verb}: {out}: no profile in this directory: sleep: no sample: [0-9]+k? bytes were allocated '
                             'with heap_rate=1G; use heap_rate=[0-9]+ to sample them'
                             + ('; workers that run as another user .* cannot write here .*' if os.getuid() == 0 else '') + '\n$')

    def test_lines_are_as_wide_as_the_terminal(self):
        import fcntl, struct, termios
        directory = self.directory()
        for n_columns in 80, 120, 40:
            master, slave = open_terminal()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, n_columns, 0, 0))
            subprocess.run([DELTAPROF, directory], stdout=slave, timeout=60, check=True)
            os.close(slave)
            lines = all_of(master).decode().splitlines()
            os.close(master)
            self.assertTrue(all(len(line) <= n_columns for line in lines if 'deltaprof ' not in line), lines)
            self.assertGreater(len(lines), 6)

    def test_only_a_terminal_has_colours_and_only_if_the_user_does_not_object(self):
        directory = self.directory()
        self.file('d/server.7.0001.chain.pb.gz', [chain(1, 9, ['add', 'main'], ['report', 'timer'])], MUTEX, 10**18, 10)
        for verb in 'summary', 'top', 'tree', 'leaks', 'growth', 'waits':
            plain = self.run_it(verb, directory)
            self.assertNotIn(b'\33', plain, verb)
            coloured = self.run_it(verb, '--color=always', directory)
            self.assertEqual(re.sub(b'\33\\[[0-9;]*m', b'', coloured), plain, verb)
            self.assertTrue(b'\33[' in coloured, verb)
            self.assertEqual(coloured.count(b'\33[0m'), len(re.findall(b'\33\\[[1-9]', coloured)), coloured)
            for environment, has_colour in [({'TERM': 'xterm'}, True), ({'TERM': 'xterm', 'NO_COLOR': ''}, True), ({'TERM': 'xterm', 'NO_COLOR': '1'}, False),
                                            ({'TERM': 'dumb'}, False), ({}, False)]:
                master, slave = open_terminal()
                subprocess.run([DELTAPROF, verb, directory], stdout=slave, timeout=60, check=True, env=environment)
                os.close(slave)
                self.assertEqual(b'\33[' in all_of(master), has_colour, (verb, environment))
                os.close(master)
            self.run_it(verb, '--color=red', directory, status=2)
            self.assertEqual(self.error, f'deltaprof {verb}: --color red: auto, always or never\n')

    def test_of_a_process_its_own_profiles_are_read(self):
        out = self.dir.name + '/out'
        program = subprocess.Popen([DELTAPROF, 'run', '-o', f'heap_rate=1,interval=100ms,out={out}', '--', sys.executable, '-c',
                                    'import time\nkeep = []\nfor i in range(6000): keep.append(bytes(1000 + i)); time.sleep(.005)'])
        try:
            for _ in range(100):
                time.sleep(.1)
                if os.path.isdir(out) and len(os.listdir(out)) > 8:
                    break
            done = subprocess.run([DELTAPROF, 'summary', str(program.pid)], capture_output=True, timeout=60, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, 'in use')
        finally:
            program.kill()
            program.wait()
        self.run_it('summary', str(program.pid), status=1)

    def test_a_master_says_which_of_its_children_are_profiled(self):
        out = self.dir.name + '/out'
        script = 'import os, time\nfor i in range(2):\n    if not os.fork(): time.sleep(600)\nprint(flush=True)\ntime.sleep(600)'
        program = subprocess.Popen([DELTAPROF, 'run', '-o', f'heap_rate=1,interval=0,out={out}', '--', sys.executable, '-c', script], stdout=subprocess.PIPE, start_new_session=True)
        try:
            program.stdout.readline()
            done = subprocess.run([DELTAPROF, 'summary', '--json', str(program.pid)], capture_output=True, timeout=60, text=True)
            (said,) = (s for s in json.loads(done.stdout)['sentences'] if s['kind'] == 'children')
            self.assertRegex(said['text'], r'^Without its 2 profiled children \(python\S* \d+, python\S* \d+\): the directory')
        finally:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            program.stdout.close()

    def test_a_verb_with_a_slip_is_named(self):
        for word, verb in {'tpo': 'top', 'leak': 'leaks', 'mrege': 'merge', 'sumary': 'summary', 'viwe': 'view', 'cpu': 'top --kind cpu',
                           'attach': 'on PID (of a program that deltaprof run --dormant started)'}.items():
            self.run_it(word, status=2)
            self.assertEqual(self.error, f'deltaprof: {word} is not a verb; did you mean {verb}?\n')
            self.run_it('help', word, status=2)
            self.assertEqual(self.error, f'deltaprof help: {word} is not a verb; did you mean {verb}?\n')
        self.run_it('run', '-p', '1', status=2)
        self.assertEqual(self.error, 'deltaprof run: -p is not an option; no program can be attached to: start it by deltaprof run --dormant, then deltaprof on PID\n')
        self.run_it('banana', status=2)
        self.assertIn('banana is not a verb, and no such file', self.error)
        self.run_it('help', 'banana', status=2)
        self.assertIn('banana is not a verb;', self.error)

    def test_processes_of_a_directory_that_were_not_measured_are_counted(self):
        """Both count in the heading; those that ended early are one line on stderr, and no failure."""
        for pid, comment in (7, ['#RssTotal=2097152', '#RssAnon=1048576']), (8, ['#RssTotal=2097152', '#RssAnon=1048576']), (9, ['#ended']), (10, ['#ended']):
            self.file(f'd/server.{pid}.0001.heap.pb.gz', [(['f', 'main'], [10, 1000, 1, 5000])], time_ns=10**18, duration_ns=10**10, comment=comment)
        text = self.run_it('rss', self.dir.name + '/d').decode()
        self.assertTrue(text.startswith('Anonymous resident memory of 2 processes: 2MB'), text)
        self.assertEqual(self.error, 'deltaprof rss: 2 processes ended before their resident memory was measured, and left out\n')
        self.run_it('rss', f'{self.dir.name}/d/server.9.*', status=1)
        self.assertIn('has no resident memory (#RssTotal)', self.error)


if __name__ == '__main__':
    unittest.main()
