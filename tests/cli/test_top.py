# SPDX-License-Identifier: MIT
"""`deltaprof top` on profiles made by hand.

    test_top.py DELTAPROF
"""
import fcntl
import gzip
import json
import os
import pty
import struct
import subprocess
import termios
import unittest

from by_hand import DELTAPROF, TopCase, chain, profile
from random_profile import HEAP, MUTEX, chunk, number, parse


class Top(TopCase):
    def test_the_whole_of_a_small_table(self):
        path = self.file('p', [(['leaf', 'middle', 'main'], [3, 3 << 20, 1, 1 << 20]), (['main'], [1, 512, 1, 512 << 10])])
        self.assertEqual(self.run_it('top', path).decode(), '''\
Program: server
Type: inuse_space, from 2001-09-09 01:46:40 UTC
Showing 3 of 3 functions: 1.50MB of 1.50MB (100.0%)
      flat  flat%   sum%        cum   cum%  name
       1MB  66.7%  66.7%        1MB  66.7%  leaf
     512kB  33.3% 100.0%     1.50MB 100.0%  main
         0   0.0% 100.0%        1MB  66.7%  middle
''')

    def test_a_recursive_function_counts_once_in_cum_and_an_inlined_one_is_the_leaf(self):
        path = self.file('p', [(['f', 'g', 'f', 'f', 'main'], [1, 100, 0, 0]), ([('inlined', 'outer'), 'main'], [1, 50, 0, 0])])
        self.assertEqual(self.names('--type', 'alloc_space', path),
                         {'f': ('100B', '100B'), 'inlined': ('50B', '50B'), 'g': ('0', '100B'), 'outer': ('0', '50B'),
                          'main': ('0', '150B')})

    def test_frames_without_names_are_object_and_place(self):
        path = self.file('p', [([0x400123, 0x400456], [1, 7, 1, 7])])
        self.assertEqual(self.names(path), {'server+0x1123': ('7B', '7B'), 'server+0x1456': ('0', '7B')})

    def test_the_type_is_the_one_asked_for_else_the_profiles_default_else_the_last(self):
        rows = [(['f'], [1, 20, 300, 4000])]
        self.assertEqual(self.names(self.file('a', rows)), {'f': ('3.91kB', '3.91kB')})
        self.assertEqual(self.names(self.file('b', rows, default='alloc_objects')), {'f': ('1', '1')})
        self.assertEqual(self.names('--type', 'inuse_objects', self.file('b', rows, default='alloc_objects')), {'f': ('300', '300')})
        self.run_it('top', '--type', 'cpu', self.file('a', rows), status=1)
        self.assertEqual(self.error, 'deltaprof top: %s/a: no sample type cpu; it has: alloc_objects, alloc_space, '
                         'inuse_objects, inuse_space\n' % self.dir.name)

    def test_times_are_readable(self):
        path = self.file('p', [(['a'], [1, 12_300_000]), (['b'], [1, 5_400_000_000]), (['c'], [1, 800])], MUTEX)
        self.assertEqual([row[0] for row in self.top(path)], ['5.40s', '12.30ms', '800ns'])

    def test_labels_choose_samples(self):
        path = self.file('p', [(['a'], [1, 1, 1, 1], {'bytes': 64, 'lock': 'mutex'}), (['b'], [1, 1, 1, 2], {'bytes': 64}),
                               (['c'], [1, 1, 1, 3], {'lock': 'mutex'}), (['d'], [1, 1, 1, 4])])
        self.assertEqual(set(self.names('--label', 'lock=mutex', path)), {'a', 'c'})
        self.assertEqual(set(self.names('--label', 'bytes=64', path)), {'a', 'b'})
        self.assertEqual(set(self.names('--label', 'bytes=64', '--label', 'lock=mutex', path)), {'a'})
        self.assertEqual([line for line in self.head if line.startswith('Only: ')], ['Only: bytes=64', 'Only: lock=mutex'])
        self.run_it('top', '--label', 'lock=', path, status=1)
        self.assertEqual(self.error, 'deltaprof top: no sample has the label lock=; there are: bytes=64, lock=mutex\n')
        path = self.file('p', [(['a'], [1, 1, 1, 1], {'k=': '=v'}), (['b'], [1, 1, 1, 1], {'k': '==v'}), (['c'], [1, 1, 1, 1])])
        self.assertEqual(set(self.names('--label', 'k===v', path)), {'a', 'b'})

    def test_n_is_how_many_are_shown(self):
        path = self.file('p', [(['f%d' % i], [1, 1, 1, 100 - i]) for i in range(50)])
        self.assertEqual(len(self.top(path)), 20)
        self.assertEqual([row[5] for row in self.top('-n', '2', path)], ['f0', 'f1'])
        self.assertIn('Showing 2 of 50 functions: 199B of 3.69kB (5.3%)', self.head)
        self.assertEqual(len(self.top('-n0', path)), 50)

    def test_standard_input_gzipped_or_raw(self):
        data = profile([(['f'], [1, 1, 1, 1])])
        self.assertEqual([row[5] for row in self.top('-', data=data)], ['f'])
        self.assertEqual([row[5] for row in self.top('-', data=gzip.decompress(data))], ['f'])

    def test_control_characters_in_a_name_are_not_printed(self):
        path = self.file('p', [(['evil\x1b]0;owned\x07\n'], [1, 1, 1, 1])], program='/bin/\x1b[2J')
        self.assertNotRegex(self.run_it('top', path), rb'[\x00-\x09\x0b-\x1f]')

    def test_unicode_control_characters_and_broken_utf8_are_not_printed(self):
        path = self.file('p', [(['a\x9b31m\xe9', 'b'], [1, 1])], [('x\x1b[2J', 'count'), ('y\x9b', 'by\ntes')])
        self.assertIn('Type: y??'.encode(), self.run_it('top', path))
        self.assertIn('a??31mé'.encode(), self.run_it('top', path))
        self.run_it('top', '--type=z', path, status=1)
        self.assertEqual(self.error.split('; ')[1], 'it has: x?[2J, y??\n')
        broken = gzip.decompress(profile([(['f\u20ac'], [1, 1, 1, 1])])).replace('f\u20ac'.encode(), b'\xe2\x82\xff\x80')
        self.assertEqual([row[5] for row in self.top(self.file('q', broken))], ['????'])

    def test_characters_that_change_the_direction_of_text_are_not_printed(self):
        for c in '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028':
            path = self.file('p' + c, [(['a%sb' % c], [1, 1, 1, 1])])
            self.assertEqual([row[5] for row in self.top(path)], ['a???b' if ord(c) > 0x7ff else 'a??b'])
            self.run_it('top', path + 'not there', status=1)
            self.assertNotIn(c, self.error)

    def on_a_terminal(self, columns, *arguments):
        try:
            master, slave = pty.openpty()
        except OSError as error:  # a chroot without /dev/pts
            self.skipTest(str(error))
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 25, columns, 0, 0))
        subprocess.run([DELTAPROF, *arguments], stdout=slave, timeout=60, check=True)
        os.close(slave)
        text = b''
        try:
            while piece := os.read(master, 65536):
                text += piece
        except OSError:  # EIO: the end
            pass
        os.close(master)
        return text.decode().splitlines()

    def test_stacks_of_waits_are_cut_on_a_narrow_terminal(self):
        stack = [f'function_number_{i}' for i in range(20)]
        path = self.file('a.1.0001.chain.pb.gz', [chain(1, 5, stack, stack[::-1])], MUTEX)
        for columns in (20, 40, 58, 59, 200):
            lines = self.on_a_terminal(columns, 'waits', path)
            self.assertEqual(len(lines), 3)
            self.assertLessEqual(max(map(len, lines)), max(columns, 60), lines)

    def test_a_line_on_a_terminal_has_the_name_of_its_file(self):
        file = '/home/somebody/sources/of/the/server/' + 'deep/' * 20 + 'request.py'
        path = self.file('p', [([f'handle@{file}'], [1, 7, 1, 7]), (['x' * 200 + '@' + file], [1, 5, 1, 5])])
        lines = self.on_a_terminal(80, 'top', '--by', 'line', path)
        self.assertTrue(lines[-2].endswith('  handle request.py:0'), lines)
        self.assertRegex(lines[-1], r'  x+\.\.x+ request.py:0$')
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn(file, self.run_it('top', '--by', 'line', path).decode())

    def test_lines_on_a_terminal_are_cut_at_its_width(self):
        name = 'own::map<%s>::operator()' % ('std::vector<größe>, ' * 100)
        path = self.file('p', [([name, 'main'], [1, 1, 1, 1])])
        self.assertEqual([row[5] for row in self.top('--names', 'full', path)], [name, 'main'])
        lines = self.on_a_terminal(100, 'top', '--names', 'full', path)
        self.assertEqual(lines[-2][44:], 'own::map<std::vector<größe>..ector<größe>, >::operator()')
        self.assertEqual([len(line) for line in lines[-2:]], [100, 48])
        self.assertEqual(self.on_a_terminal(30, 'top', '--names', 'full', path)[-2][12:], 'own::map..erator()')

    def test_a_narrow_terminal_has_fewer_columns_and_no_line_is_wrapped(self):
        names = ['function_number_%d_with_a_name_of_some_length' % i for i in range(40)]
        long, short = [(names, [1, 10, 1, 1000]), (names[5:], [1, 10, 1, 500])], [(names, [1, 10, 1, 10])]
        paths = [self.file('server.7.%04d.heap.pb.gz' % i, rows, time_ns=i * 10**9) for i, rows in enumerate((short, short, long), 1)]
        for columns in (20, 21, 30, 40, 43, 44, 57, 63, 64, 80, 120):
            top = self.on_a_terminal(columns, 'top', '-n0', *paths)
            heading = next(i for i, line in enumerate(top) if line.endswith(' name'))
            self.assertEqual(len(top[heading:]), 41)
            self.assertEqual(len(top[heading].split()), 6 if columns >= 64 else 4 if columns >= 44 else 2)
            self.assertRegex(top[heading + 1], r' {2,}[.\d]+k?B( .*)?  fun')
            tree = self.on_a_terminal(columns, 'tree', *paths)
            tree = tree[next(i for i, line in enumerate(tree) if line.endswith(' name')):]
            growth = [line for line in self.on_a_terminal(columns, 'growth', '--depth', '0', *paths) if '  fun' in line]
            self.assertEqual([len(tree), len(growth)], [41, 75])
            for lines in top[heading:], tree, growth:
                self.assertLessEqual(max(map(len, lines)), columns, lines)
        self.assertEqual(self.on_a_terminal(20, 'top', '--cum', *paths)[-1].split()[0], '1.46kB')

    def test_one_process_is_not_called_each(self):
        files = [self.file('server.7.%04d.heap.pb.gz' % i, [(['f'], [1, 10, 1, i])], time_ns=i * 10**9, comment=comment)
                 for i, comment in enumerate((None, None, '#ended'), 1)]
        when = ', 1970-01-01 00:00:0%d UTC'
        for arguments, text in ((files, ' at its peak' + when % 3 + ' (of 3 files; it has ended, with 2B in use)'),
                                (files[:2], ', from its newest file (of 2 files)'),
                                (['--at', 'end', *files], ' at end' + when % 2),
                                (['--at', 'last', *files], ' at the very end' + when % 3),
                                (['--at', 'last', *files[:2]], ' at last' + when % 2)):
            self.top(*arguments)
            self.assertEqual(self.head[1], 'Type: inuse_space, in use by 1 process' + text, arguments)

    def test_wide_characters_take_two_columns_and_combining_ones_none(self):
        path = self.file('p', [(['\u6f22\u5b57' * 50, 'e\u0301' * 50], [1, 1, 1, 1])])
        lines = self.on_a_terminal(100, 'top', path)
        self.assertEqual(lines[-2][44:], '\u6f22\u5b57' * 6 + '\u6f22' + '..' + '\u5b57' + '\u6f22\u5b57' * 6)
        self.assertEqual(lines[-1][44:], 'e\u0301' * 50)

    def test_units_of_other_producers_are_readable(self):
        for unit, text in {'bytes': '11.77MB', 'Byte': '11.77MB', 'B': '11.77MB', 'kilobytes': '11.77GB', 'MB': '11.77TB',
                           'microseconds': '12.35s', 'ms': '3.43hrs', 'seconds': '142.89days', 'count': '12345678', '': '12345678',
                           'business': '12345678'}.items():
            self.assertEqual(self.names(self.file('p', [(['f'], [12345678])], [('x', unit)])), {'f': (text, text)}, unit)

    def test_percentages_refer_to_the_sum_of_absolute_values(self):
        path = self.file('p', [(['a'], [-300]), (['b'], [100]), (['c', 'a'], [100])], [('x', 'count')])
        self.assertEqual(self.top(path), [('-300', '-60.0%', '-60.0%', '-200', '-40.0%', 'a'),
                                          ('100', '20.0%', '-40.0%', '100', '20.0%', 'b'), ('100', '20.0%', '-20.0%', '100', '20.0%', 'c')])
        self.assertIn('Showing 3 of 3 functions: -100 of -100 (-20.0%)', self.head)
        path = self.file('q', [(['a'], [2**63 - 1]), (['b'], [2**63 - 1]), (['c'], [-2**63])], [('x', 'count')])
        self.assertEqual({row[5]: row[1] for row in self.top(path)}, {'a': '100.0%', 'b': '100.0%', 'c': '-100.0%'})

    def test_a_profile_without_samples_or_stacks_is_no_error(self):
        self.assertEqual(self.top(self.file('p', [])), [])
        self.assertIn('no sample was recorded', self.below[0])
        for types, words in ([('samples', 'count'), ('cpu', 'nanoseconds')], 'Nothing: no thread used CPU time.'), (MUTEX, 'Nothing: no wait was recorded.'):
            self.names(self.file('none.pb.gz', [], types))
            self.assertIn(words, self.below[0])
        self.assertEqual(self.names(self.file('q', [([], [1, 1, 1, 1])])), {'[no stack]': ('1B', '1B')})


    # ---- which frames are shown ----

    def test_functions_that_only_wrap_an_allocator_are_folded_into_their_caller(self):
        path = self.file('p', [(['malloc', 'operator new(unsigned long)', 'std::__new_allocator<int>::allocate(unsigned long)',
                                 'std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*)', 'fill', 'main'], [1, 7, 1, 7]),
                               (['malloc', 'malloc'], [1, 1, 1, 1]), (['own_alloc', 'main'], [1, 2, 1, 2])])
        self.assertEqual(self.names(path), {'fill': ('7B', '7B'), 'own_alloc': ('2B', '2B'), 'main': ('0', '9B'), 'malloc': ('1B', '1B')})
        self.assertEqual(self.names('--fold', '^own_', path), {'fill': ('7B', '7B'), 'main': ('2B', '9B'), 'malloc': ('1B', '1B')})
        folds = self.file('ours', b'# what only passes on\n\n^own_\n^fill$\n')
        self.assertEqual(self.names('--fold', '@' + folds, path), {'main': ('9B', '9B'), 'malloc': ('1B', '1B')})
        for name, words in (('none', 'No such file'), (self.file('bad', b'fine\n(\n'), r'\('), (self.file('long', b'x' * 2000), 'longer than')):
            self.run_it('top', '--fold', '@' + name, path, status=2)
            self.assertRegex(self.error, r'\Adeltaprof top: --fold .*' + words + r'.*\n\Z')
        self.assertEqual(self.names('--raw', path)['malloc'], ('8B', '8B'))
        self.assertEqual(self.names('--raw', path)['fill'], ('0', '7B'))

    def test_the_interpreter_between_frames_of_its_language_is_left_out(self):
        path = self.file('p', [(['list_new', 'eval', 'inner@a.py', 'call', 'eval', 'outer@a.py', 'eval', 'main'], [1, 7, 1, 7]),
                               (['call', 'eval', 'outer@a.py', 'eval', 'main'], [1, 2, 1, 2])])
        self.assertEqual(self.names(path), {'list_new': ('7B', '7B'), 'call': ('2B', '2B'), 'eval': ('0', '9B'), 'inner': ('0', '7B'),
                                            'outer': ('0', '9B'), 'main': ('0', '9B')})
        self.assertEqual(self.names('--raw', path)['call'], ('2B', '9B'))

    def test_what_an_interpreter_does_for_a_function_counts_as_that_function(self):
        path = self.file('p', [(['malloc', 'python3.11+0x12', '_PyObject_New', 'inner@a.py', 'python3.11+0x34', 'outer@a.py', 'main'], [1, 7, 1, 7]),
                               (['malloc', '_PyObject_New', 'main'], [1, 2, 1, 2])], program='/usr/bin/python3.11')
        self.assertEqual(self.names(path), {'inner': ('7B', '7B'), 'outer': ('0', '7B'), '_PyObject_New': ('2B', '2B'), 'main': ('0', '2B')})
        self.assertEqual(self.names('--raw', path)['malloc'], ('9B', '9B'))
        other = self.file('q', [(['malloc', 'numpy_resize', 'numpy.so+0x34', 'inner@a.py', 'main'], [1, 7, 1, 7])], program='/usr/lib/numpy.so')
        self.assertEqual(next(iter(self.names(other))), 'numpy_resize')

    def test_what_starts_an_interpreter_is_left_out_and_a_program_that_embeds_it_stays(self):
        path = self.file('p', [(['malloc', 'inner@a.py', 'Py_RunMain', 'main', '_start'], [1, 7, 1, 7])], program='/usr/bin/python3.11')
        self.assertEqual(self.names('--cum', path), {'inner': ('7B', '7B')})
        path = self.file('q', [(['malloc', 'inner@a.py', 'PyEval_EvalCode', 'serve', 'main'], [1, 7, 1, 7])], program='/opt/server')
        self.assertEqual(set(self.names(path)), {'inner', 'PyEval_EvalCode', 'serve', 'main'})

    def test_functions_of_a_languages_own_library_count_as_their_callers(self):
        leak = ['operator new(unsigned long)', 'Session::Session()', 'std::_Sp_counted_ptr_inplace<Session>::_Sp_counted_ptr_inplace(int)',
                'std::shared_ptr<Session> std::make_shared<Session>()', 'Sessions::login(int)', 'std::__invoke(int)', 'worker', 'main']
        self.assertEqual(list(self.names('--cum', self.file('p', [(leak, [1, 7, 1, 7])]))), ['Session::Session', 'Sessions::login', 'main', 'worker'])
        for passing in (['std::vector<int>::push_back(int)'], ['alloc::vec::Vec<T>::push', '<T as core::convert::Into<U>>::into'],
                        ['core::ops::function::FnOnce::call_once', 'std::sys::backtrace::__rust_begin_short_backtrace']):
            path = self.file('p', [(['malloc'] + passing + ['fill'] + passing + ['main'], [1, 7, 1, 7])])
            self.assertEqual(self.names(path), {'fill': ('7B', '7B'), 'main': ('0', '7B')})
            self.assertEqual(len(self.names('--raw', path)), 3 + len(passing))
        alone = self.file('p', [(['std::locale::classic()'], [1, 7, 1, 7])])
        self.assertEqual(list(self.names(alone)), ['std::locale::classic'])

    def test_a_list_with_zero_bytes_is_refused(self):
        path = self.file('a', [(['f'], [1, 1, 1, 1])])
        for name in self.file('zeros', bytes(2000)), self.file('wide', '^own_\n'.encode('utf-16-le')), '/dev/zero':
            self.run_it('top', '--fold', '@' + name, path, status=2)
            self.assertRegex(self.error, r'\Adeltaprof top: --fold .*zero byte.*\n\Z')

    def test_rusts_library_is_known_by_its_types_and_its_source(self):
        path = self.file('p', [(['<usize as core::iter::traits::accum::Sum>::sum', '<&mut u8 as core::ops::Add>::add', 'main::scan'], [1, 1, 1, 5]),
                               (['<&mut alloc::string::String as core::fmt::Write>::write_str', '<[T] as core::fmt::Debug>::fmt', 'main::scan'], [1, 1, 1, 4]),
                               (['<main::Text as core::fmt::Display>::fmt', 'main::say'], [1, 1, 1, 7])])
        self.assertEqual(self.names(path), {'main::scan': ('9B', '9B'), '<main::Text as core::fmt::Display>::fmt': ('7B', '7B'), 'main::say': ('0', '7B')})

    def test_hooks_of_the_profiler_are_one_frame(self):
        path = self.file('p', [(['find_bucket', 'deltaprof_free_sampled', 'index@app.py'], [1, 1, 1, 5]),
                               (['read@app.py', 'deltaprof_call', 'index@app.py'], [1, 1, 1, 7])], program='/opt/lib/libdeltaprof.so.0')
        self.assertEqual(self.names(path), {'[deltaprof]': ('5B', '5B'), 'index': ('0', '12B'), 'read': ('7B', '7B')})
        self.assertIn('find_bucket', self.names('--raw', path))

    def test_allocators_of_known_programs_are_folded(self):
        for name in ['MemoryContextAllocZero', 'AllocSetContextCreateInternal', 'enlargeStringInfo', 'sqlite3DbStrNDup', 'ngx_create_pool', 'ngx_array_push_n', 'apr_pstrdup',
                     'strbuf_grow', 'xmemdupz', 'g_type_create_instance', 'g_object_new_with_properties', 'QArrayData::allocate', 'icu_72::UMemory::operator new']:
            with self.subTest(name):
                self.assertEqual(next(iter(self.names(self.file('p', [(['malloc', name, 'fill', 'main'], [1, 1, 1, 1])])))), 'fill')
        for name in 'strbuf_add', 'appendStringInfo', 'g_list_append', 'QString::append', 'operator_new_user':
            self.assertEqual(next(iter(self.names(self.file('p', [(['malloc', name, 'fill', 'main'], [1, 1, 1, 1])])))), name)

    def test_functions_that_only_lock_are_folded(self):
        for name in ['pthread_mutex_lock', '__gthread_mutex_lock(pthread_mutex_t*)', 'std::mutex::lock()', 'std::unique_lock<std::mutex>::lock()',
                     'std::lock_guard<std::mutex>::lock_guard(std::mutex&)', 'std::condition_variable::wait(std::unique_lock<std::mutex>&)', 'g_mutex_lock_slowpath',
                     'uv_cond_wait', 'PGSemaphoreLock', 'LWLockAcquire', 'PyThread_acquire_lock_timed', 'take_gil', 'absl::lts_20220623::Mutex::Lock()',
                     'absl::Mutex::LockSlow()', 'srw_mutex_impl<true>::wait_and_lock()', 'inline_mysql_mutex_lock', 'os_event::wait_low(long)', 'QMutex::lock()',
                     'std::sys::sync::mutex::futex::Mutex::lock_contended', 'parking_lot::raw_mutex::RawMutex::lock_slow', 'boost::unique_lock<boost::mutex>::lock()']:
            with self.subTest(name):
                path = self.file('p', [(['pthread_mutex_lock', name, 'serve', 'main'], [1, 1])], MUTEX)
                self.assertEqual(next(iter(self.names(path))), 'serve')
                self.assertEqual(next(iter(self.names('--raw', path))), 'pthread_mutex_lock')
        for name in 'lock_table', 'mutex_lock_and_read', 'sync_with', 'QMutexPool::get', 'condition', 'wait_for_reply':
            self.assertEqual(next(iter(self.names(self.file('p', [(['std::mutex::lock()', name, 'serve', 'main'], [1, 1])], MUTEX)))), name)

    def test_a_key_that_no_label_has_is_said(self):
        path = self.file('p', [(['f'], [1, 1, 1, 1], {'thread': 'main'})])
        self.run_it('top', '--by', 'label:thred', path, status=1)
        self.assertEqual(self.error, 'deltaprof top: no sample has the label thred; there are: thread=main\n')

    def test_a_list_of_the_user_is_folded_too(self):
        path = self.file('p', [(['malloc', 'own_alloc', 'their_alloc', 'fill', 'main'], [1, 1, 1, 1])])
        self.file('config/deltaprof/fold', b'# mine\n^own_\n')
        self.assertEqual(next(iter(self.names(path))), 'own_alloc')
        os.environ['XDG_CONFIG_HOME'] = self.dir.name + '/config'
        self.addCleanup(os.environ.pop, 'XDG_CONFIG_HOME')
        self.assertEqual(next(iter(self.names(path))), 'their_alloc')
        self.assertEqual(next(iter(self.names('--fold', '^their_', path))), 'fill')
        self.file('config/deltaprof/fold', b'(\n')
        self.run_it('top', path, status=2)
        self.assertIn('config/deltaprof/fold', self.error)

    def test_places_without_a_name_below_such_a_function_are_folded_too(self):
        path = self.file('p', [(['lib.so+0x12', 'xmalloc', 'lib.so+0x34', 'main'], [1, 7, 1, 7])])
        self.assertEqual(self.names(path), {'lib.so+0x34': ('7B', '7B'), 'main': ('0', '7B')})

    def test_names_of_templates_are_short_without_full(self):
        for full, short in {
            'void std::vector<std::pair<int, long>, std::allocator<std::pair<int, long> > >::push_back(std::pair<int, long>&&)':
                'std::vector<std::pair>::push_back',
            'std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append(char const*) const':
                'std::string::append',
            'std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, int>::find(int)':
                'std::map<std::string, int>::find',
            'operator()': 'operator()', 'cache::{lambda(int)#1}::operator()(int) const': 'cache::{lambda(int)#1}::operator()',
            '(anonymous namespace)::leak(int)': '(anonymous namespace)::leak', 'operator new[](unsigned long)': 'operator new[]',
            'std::ostream& operator<< <int>(std::ostream&, int)': 'operator<< <int>', 'ns::A::operator bool() const': 'ns::A::operator bool',
            'std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string<std::allocator<char> >(char const*)':
                'std::string::basic_string', 'f(int (*)(char))': 'f', '<module>': '<module>', 'main.(*T).Put': 'main.(*T).Put', '[hand-over]': '[hand-over]',
            '<alloc::vec::Vec<T,A> as core::ops::Drop>::drop': '<alloc::vec::Vec as core::ops::Drop>::drop',
            'apply<main(int, char**)::<lambda(int)>, main(int, char**)::<lambda()> >':
                'apply<main(int, char**)::{lambda}, main(int, char**)::{lambda}>',
            'run <lambda> (server.py)': 'run <lambda> (server.py)', 'a>>b<': 'a>>b<',
        }.items():
            with self.subTest(full):
                path = self.file('p', [([full], [1, 1, 1, 1])])
                self.assertEqual([row[5] for row in self.top('--raw', path)], [short])
                self.assertEqual([row[5] for row in self.top('--names=full', path)], [full])

    def test_brackets_without_end_are_refused(self):
        self.run_it('top', '--focus', '(' * 100000, self.file('p', [(['a'], [1, 1, 1, 1])]), status=2)
        self.assertEqual(self.error, 'deltaprof top: --focus: brackets may be nested 200 times\n')

    def test_focus_ignore_and_hide_choose_like_those_of_pprof(self):
        path = self.file('p', [(['a', 'b', 'main'], [1, 1, 1, 1]), (['c', 'b', 'main'], [1, 2, 1, 2]), (['d', 'main'], [1, 4, 1, 4])])
        self.assertEqual(self.names('--focus', '^b$', path), {'a': ('1B', '1B'), 'c': ('2B', '2B'), 'b': ('0', '3B'), 'main': ('0', '3B')})
        self.assertEqual(self.names('--focus', 'b', '--ignore', 'a$|^x', path), {'c': ('2B', '2B'), 'b': ('0', '2B'), 'main': ('0', '2B')})
        self.assertEqual(self.names('--hide', '^[ad]$', path), {'b': ('1B', '3B'), 'c': ('2B', '2B'), 'main': ('4B', '7B')})
        self.assertEqual(self.top('--focus', 'nothing', path), [])
        self.assertIn('--label, --focus, --ignore or --hide leave all of them out', self.below[0])
        self.run_it('top', '--focus', '(', path, status=2)
        self.assertRegex(self.error, r'\Adeltaprof top: --focus \(: .*\n\Z')

    def test_cum_sorts_by_cum(self):
        path = self.file('p', [(['a', 'main'], [1, 5, 1, 5]), (['b', 'main'], [1, 2, 1, 2])])
        self.assertEqual([row[5] for row in self.top('--cum', path)], ['main', 'a', 'b'])

    def test_by_library_and_by_label(self):
        path = self.file('p', [(['a'], [1, 5, 1, 5], {'tenant': 'x'}), (['b'], [1, 2, 1, 2], {'tenant': 'y'}), (['b'], [1, 1, 1, 1])])
        self.assertEqual(self.names('--by', 'library', path), {'server': ('8B', '8B')})
        self.assertEqual(self.names('--by', 'label:tenant', path), {'x': ('5B', '5B'), 'y': ('2B', '2B'), '[no label]': ('1B', '1B')})
        self.run_it('top', '--by', 'colour', path, status=2)

    def test_json_is_one_object(self):
        path = self.file('p', [(['a"\\\x1b\n\u20ac', 'main'], [1, 5, 1, 5]), (['b', 'main'], [1, 2, 1, 2])])
        self.assertEqual(json.loads(self.run_it('top', '--json', path)), {
            'type': 'inuse_space', 'unit': 'bytes', 'total': 7,
            'rows': [{'name': 'a"\\\x1b\n\u20ac', 'flat': 5, 'cum': 5}, {'name': 'b', 'flat': 2, 'cum': 2}, {'name': 'main', 'flat': 0, 'cum': 7}]})
        self.assertEqual(json.loads(self.run_it('top', '--json', self.file('q', [])))['rows'], [])

    def test_columns_are_beside_the_value(self):
        types = HEAP + [('freed_objects', 'count'), ('temporary_objects', 'count'), ('lifetime', 'microseconds')]
        path = self.file('p', [(['a', 'main'], [10, 100, 0, 0, 8, 6, 4000]), (['a', 'main'], [0, 0, 2, 20, 0, 0, 0], {'age': '<1m'}),
                               (['b', 'main'], [1, 1, 1, 1, 0, 0, 0])], types, default='inuse_space')
        lines = self.run_it('top', '--columns', 'lifetime,temporary,alloc_objects', path).decode().splitlines()[3:]
        self.assertEqual([line.split() for line in lines], [
            ['flat', 'flat%', 'sum%', 'cum', 'cum%', 'lifetime', 'temporary', 'alloc_objects', 'name'],
            ['20B', '95.2%', '95.2%', '20B', '95.2%', '500us', '75.0%', '10', 'a'],
            ['1B', '4.8%', '100.0%', '1B', '4.8%', '-', '-', '1', 'b'],
            ['0', '0.0%', '100.0%', '21B', '100.0%', '-', '-', '0', 'main']])
        rows = json.loads(self.run_it('top', '--json', '--cum', '--columns', 'freed_objects,lifetime,temporary', path))['rows']
        self.assertEqual(rows[0], {'name': 'main', 'flat': 0, 'cum': 21, 'freed_objects': 8, 'lifetime': 500000, 'temporary': 0.75})
        self.run_it('top', '--columns', 'colour', path, status=1)
        self.assertEqual(self.error, 'deltaprof top: --columns colour: no profile has this sample type\n')
        self.run_it('top', '--columns', 'lifetime', self.file('q', [(['a'], [1, 1, 1, 1])]), status=1)
        self.assertIn('the program needs age=on', self.error)
        self.run_it('top', '--columns', ','.join(['alloc_space'] * 9), path, status=2)

    # ---- below the table ----

    def test_if_nothing_is_in_use_what_was_allocated_is_shown(self):
        path = self.file('p', [(['f'], [1, 5, 0, 0])])
        self.assertEqual(self.names(path), {'f': ('5B', '5B')})
        self.assertRegex(self.head[1], r'^Type: alloc_space, .*; nothing is in use$')
        self.assertEqual(self.top('--type', 'inuse_space', path), [])
        self.assertEqual(self.below, ['Nothing: nothing is in use at that time.',
                                      'There is alloc_space: deltaprof top --type alloc_space ' + path])
        tree = self.run_it('tree', path).decode()
        self.assertIn('; nothing is in use', tree)
        self.assertRegex(tree, r'5B 100.0%  f\n')
        merged = self.file('merged', self.run_it('merge', path))
        self.assertEqual(self.names(merged), {'f': ('5B', '5B')})

    def test_losses_are_named_below_the_table(self):
        data = gzip.decompress(profile([(['f'], [1, 1, 1, 1])]))
        n = len(parse(data).string_table)
        data += b''.join(chunk(6, text) + number(13, n + i) for i, text in enumerate([b'#deltaprof 1', b'Type: heap', b'3 stacks were cut short']))
        self.top(self.file('p', data))
        self.assertEqual(self.below, ['Lost: 3 stacks were cut short'])


if __name__ == '__main__':
    unittest.main()
