# SPDX-License-Identifier: MIT
"""`deltaprof push` without failures: the profiles that arrive, their labels, and the limits.

    test_send.py DELTAPROF EXAMPLE
"""
import collections
import os
import signal
import subprocess
import time
import unittest

from by_hand import DELTAPROF
from pushing import EXAMPLE, Pushing
from receiver import Receiver, sums


class Send(Pushing):
    def test_each_kind_arrives_with_the_sums_of_its_files(self):
        for protocol in 'pyroscope', 'parca':
            with self.subTest(protocol), Receiver() as receiver:
                for seq in 1, 2, 3:
                    for kind in 'heap', 'mutex', 'block':
                        self.write(seq, kind)
                self.assertEqual(self.push(receiver.url(protocol)), '')
                self.assert_arrived(receiver)
                labels = receiver.taken[0].labels
                self.assertEqual((labels['service_name'], labels['program'], labels['pid']), ('server', 'server', '7'))
                n = receiver.n_requests
                self.assertEqual(self.push(receiver.url(protocol)), '')
                self.assertEqual(receiver.n_requests, n, 'a file was sent again')

    def test_parca_gets_a_series_for_each_kind_of_lock(self):
        rows = [(['work', 'main'], [1, 5], {'lock': 'mutex'}), (['idle', 'main'], [2, 700], {'lock': 'cond'}),
                (['put', 'main'], [3, 9], {'lock': 'mutex'}), (['plain', 'main'], [4, 11])]
        self.write(1, 'block', rows)
        self.write(2, 'cpu', [(['work', 'main'], [1, 1])])
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('parca')), '')
            self.assert_arrived(receiver, ['block'])
            series = {t.labels.get('lock'): sum(s.values['delay'] for s in t.profile.samples) for t in receiver.taken if t.kind == 'block'}
            self.assertEqual(series, {None: 11, 'cond': 700, 'mutex': 14})
            self.assertEqual([t.labels.get('lock') for t in receiver.taken if t.kind != 'block'], [None])
        with Receiver() as receiver:
            self.write(3, 'block', rows)
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assertEqual([t.labels.get('lock') for t in receiver.taken if t.kind == 'block'], [None] * 2)

    def test_wrappers_are_folded_on_request(self):
        rows = [(['zmalloc', 'sds', 'main'], [1, 10, 1, 10]), (['zmalloc', 'dict', 'main'], [1, 20, 1, 20], {'k': 'v'}), (['my_alloc', 'list', 'main'], [1, 40, 1, 40]),
                ([('operator new', 'grow'), 'main'], [1, 80, 1, 80]), (['zmalloc'], [1, 160, 1, 160])]
        plain = {'zmalloc': 190, 'my_alloc': 40, 'operator new': 80}
        folded = {'sds': 10, 'dict': 20, 'my_alloc': 40, 'operator new': 80, 'zmalloc': 160}
        for protocol in 'pyroscope', 'otlp':
            for more, expected in ([], plain), (['--fold'], folded), (['--fold=^my_'], {'list' if k == 'my_alloc' else k: v for k, v in folded.items()}):
                path = self.write(1, rows=rows)
                with Receiver() as receiver:
                    self.assertEqual(self.push(receiver.url(protocol), *more), '')
                    leaves = collections.Counter()
                    for s in (s for taken in receiver.taken for s in taken.profile.samples):
                        leaves[s.names[0]] += s.values.get('alloc_space', 0)
                    self.assertEqual(dict(leaves), expected, (protocol, more))
                os.remove(path)
        self.assertIn('--fold=(: ', self.push('pprof+http://127.0.0.1:1', '--fold=(', status=2))

    def test_otlp_has_the_sums_and_the_process(self):
        for seq in 1, 2:
            for kind in 'heap', 'block':
                self.write(seq, kind)
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('otlp'), '--tag', 'k8s.pod.name=a', OTEL_SERVICE_NAME='shop'), '')
            self.assert_arrived(receiver, ['heap'])
            self.assertEqual(sums(t.profile for t in receiver.taken if t.kind == 'lock'), sums(self.files('block')))
            origin = receiver.taken[0].labels
            self.assertEqual((origin['service.name'], origin['process.pid'], origin['k8s.pod.name']), ('shop', 7, 'a'))
            self.assertEqual(len({t.id for t in receiver.taken}), 4)

    def test_profiles_that_an_otlp_receiver_rejects_are_counted(self):
        self.write(1)
        with Receiver() as receiver:
            receiver.reply_body = b'\x0a\x06\x08\x04\x12\x02no'  # partial_success {rejected_profiles: 4, error_message: no}
            said = self.push(receiver.url('otlp'), status=1)
            self.assertIn('0 files accepted, 0 perhaps delivered, 1 refused', said)
            self.assertIn(': status 200, but it rejected profiles: no\n', said)
            for seq, body in enumerate((b'\x0a\x06\x12\x02no\x08\x04', b'\x18\x07\x0a\x02\x08\x04',  # in any order, behind unknown fields
                                        b'\x1d1234\x2112345678\x0a\x09\x1a\x05other\x08\x01'), 2):
                self.write(seq)
                receiver.reply_body = body
                self.assertIn('1 refused', self.push(receiver.url('otlp'), status=1))
            for seq, body in enumerate((b'\x0a\x04\x12\x02no', b'\x0a\x7f\x08\x04', b'\xff\xff\xff', b'\x0b\x08\x04'), 5):  # a warning; no such messages
                self.write(seq)
                receiver.reply_body = body
                self.assertEqual(self.push(receiver.url('otlp')), '')

    def test_plain_pprof_is_the_unchanged_file(self):
        path = self.write(1)
        with Receiver() as receiver, open(path, 'rb') as f:
            self.push(receiver.url('pprof'))
            self.assertEqual(sums([receiver.taken[0].profile]), sums(self.files('heap')))
            self.assertEqual(int(receiver.taken[0].headers['content-length']), len(f.read()))

    def test_two_receivers_have_a_journal_each(self):
        self.write(1)
        with Receiver() as one, Receiver() as other:
            self.push(one.url('pyroscope'))
            self.push(other.url('pyroscope'))
            self.assertEqual((len(one.taken), len(other.taken)), (1, 1))

    def test_tags_come_from_environment_and_command_line(self):
        self.write(1)
        with Receiver() as receiver:
            self.push(receiver.url('pyroscope'), '--tag', 'zone=b', '--tag', 'pid=', OTEL_SERVICE_NAME='shop',
                      OTEL_RESOURCE_ATTRIBUTES='service.name=other,service.version=1.2%2C3,zone=a,deployment.environment=prod')
            labels = receiver.taken[0].labels
            self.assertEqual({k: labels.get(k) for k in ('service_name', 'service_version', 'zone', 'deployment_environment', 'pid')},
                             {'service_name': 'shop', 'service_version': '1.2,3', 'zone': 'b',
                              'deployment_environment': 'prod', 'pid': None})
            self.push(receiver.url('parca'), '--service', 'till', OTEL_SERVICE_NAME='shop')
            self.assertEqual(receiver.taken[-1].labels['service_name'], 'till')

    def test_tags_that_a_receiver_would_refuse_are_mended(self):
        """Bytes that are no UTF-8, long values, names that become the same label, reserved names, too many."""
        os.rename(self.write(1), os.path.join(self.dir.encode(), b'caf\xe9.7.0001.heap.pb.gz'))
        odd = 'long=%s,a.b=1,a_b=2,__name__=evil,__delta__=true,1x=3,empty=' % ('\u20ac' * 1000)
        with Receiver() as receiver:
            for protocol in 'pyroscope', 'parca', 'otlp':
                self.assertEqual(self.push(receiver.url(protocol), OTEL_RESOURCE_ATTRIBUTES=odd), '')
                labels = receiver.taken[-1].labels
                self.assertEqual(labels['service.name' if protocol == 'otlp' else 'service_name'], 'caf\ufffd')
                if protocol != 'otlp':
                    self.assertEqual((labels['a_b'], labels['_1x'], labels['long'], labels['__name__']), ('2', '3', '\u20ac' * 682, 'memory'))
            self.assertEqual(receiver.refused, [])
            self.write(2)
            many = ','.join('key%d=%d' % (i, i) for i in range(40))
            said = self.push(receiver.url('pyroscope'), OTEL_RESOURCE_ATTRIBUTES=many, OTEL_SERVICE_NAME='shop')
            self.assertIn('its last 21 tags are left out', said)
            labels = receiver.taken[-1].labels
            self.assertEqual((labels['service_name'], labels['key18'], labels.get('key19')), ('shop', '18', None))
            log = os.path.join(self.scratch.name, 'log')
            said = self.push(receiver.url('pyroscope'), '--log', log, *('--tag=x%d=1' % i for i in range(30)), status=2)
            with open(log) as f:  # also what is wrong with the command line
                self.assertEqual((said, f.read()), ('', 'deltaprof push: --tag x24=1: no more than 20 tags\n'))

    def test_a_tag_that_would_be_no_label_is_refused(self):
        self.write(1)
        with Receiver() as receiver:
            for tag in 'größe=1', '日本=1', 'ж.a=1', '__name__=x', '.-=1':
                for protocol in 'pyroscope', 'parca':
                    said = self.push(receiver.url(protocol), '--tag', tag, status=0 if tag == 'größe=1' else 2)
                    if tag != 'größe=1':
                        self.assertRegex(said, r'\Adeltaprof push: --tag %s: the key makes no label, [^\n]*\n\Z' % tag)
            self.assertEqual([t.labels['gr____e'] for t in receiver.taken], ['1'] * 3)  # Parca gets allocations and memory in use apart
            self.assertEqual(self.push(receiver.url('pyroscope'), '--tag', '日本='), '')
            self.push(receiver.url('otlp'), '--tag', '日本=1')
            self.assertEqual(receiver.taken[-1].labels['日本'], '1')

    def test_tokens_and_headers_come_from_files(self):
        def file(name, text):
            path = os.path.join(self.scratch.name, name)
            with open(path, 'w') as f:
                f.write(text)
            return path
        headers = file('headers', 'X-Scope-OrgID: tenant\n\nX-Other: 1\n')
        with Receiver() as receiver:
            for seq, (text, sent) in enumerate((('secret\n', 'Bearer secret'), ('me:secret\n', 'Basic bWU6c2VjcmV0'),
                                                ('Basic abc\n', 'Basic abc')), 1):
                self.write(seq)
                self.push(receiver.url('pyroscope'), '--token', file('token', text), '--header', headers)
                self.assertEqual(receiver.taken[-1].headers['authorization'], sent)
                self.assertEqual(receiver.taken[-1].headers['x-scope-orgid'], 'tenant')
            self.write(4)
            self.push(receiver.url('pyroscope'), DELTAPROF_PUSH_TOKEN=file('token', 'named'))
            self.assertEqual(receiver.taken[-1].headers['authorization'], 'Bearer named')

    def test_a_file_of_headers_that_cannot_be_sent_as_it_is_sends_nothing(self):
        self.write(1)
        path = os.path.join(self.scratch.name, 'file')
        os.mkfifo(path + '.fifo')
        with Receiver() as receiver:
            for option, text, why in (('--token', b'', 'no token in it'), ('--token', b'a\0b\n', 'line 1 has a control character'),
                                      ('--token', b'a\rX-B: c\n', 'line 1 has a control character'),
                                      ('--token', b'\n' + b'x' * 8193, 'line 2 is longer than 8192 bytes'),
                                      ('--token', None, 'not a regular file'), ('--header', None, 'not a regular file'),
                                      ('--header', b'', 'no header in it'), ('--header', b'X-Scope-OrgID: 1\nno header\n', 'line 2 is not `Name: value`'),
                                      ('--header', b' X-A: folded\n', 'line 1 is not `Name: value`'), ('--header', b'X-Scope-OrgID: \n', 'line 1 has no value'),
                                      ('--header', b'content-length: 5\n', 'line 1 names a header that push sets itself'),
                                      ('--header', b'X-A: ' + b'x' * 8192, 'line 1 is longer than 8192 bytes')):
                with self.subTest((option, text)):
                    with open(path, 'wb') as f:
                        f.write(text or b'')
                    said = self.push(receiver.url('pyroscope'), '--wait', '20ms', option, path + ('.fifo' if text is None else ''), status=1)
                    self.assertIn(path + ('.fifo' if text is None else '') + ': ' + why, said)
                    self.assertIn('1 waiting', said)
                    self.assertEqual(receiver.n_requests, 0)
            with open(path, 'wb') as f:
                f.write(b'X' * 8192 + b'\r\n')
            self.push(receiver.url('pyroscope'), '--token', path)
            self.assertEqual(receiver.taken[-1].headers['authorization'], 'Bearer ' + 'X' * 8192)

    def test_an_empty_name_of_a_service_is_none(self):
        with Receiver() as receiver:
            for seq, options in enumerate((['--service', ''], ['--tag', 'service='], ['--tag', 'service.name=']), 1):
                self.write(seq)
                self.push(receiver.url('pyroscope'), *options)
                self.assertEqual(receiver.taken[-1].labels['service_name'], 'server')

    def test_a_profile_too_large_for_the_receiver_is_cut_by_rows(self):
        for seq, rows in enumerate(([(['leaf', 'main'], [1, i, 2, i], {'n': i + 1}) for i in range(16500)],
                                    [(['leaf', 'main'], [1, i, 2, i], {'text': '%d' % i + 'x' * 10000}) for i in range(600)]), 1):
            self.write(seq, rows=rows)
            with Receiver() as receiver:
                self.assertEqual(self.push(receiver.url('pyroscope')), '')
                self.assert_arrived(receiver, ['heap'])
                self.assertGreater(len(receiver.taken), seq)
                self.assertEqual(len({t.id for t in receiver.taken}), len(receiver.taken))

    def test_windows_that_the_receiver_refuses_are_cut_and_named(self):
        now = time.time_ns()
        self.write(1, time_ns=now - 7200 * 10**9, duration_ns=7190 * 10**9)  # the first delta of an old process
        self.write(2, time_ns=now - 7200 * 10**9, duration_ns=10**9)         # after an outage
        self.write(3, time_ns=now + 3600 * 10**9, duration_ns=10**9)         # a clock that is fast
        self.write(4)
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assert_arrived(receiver, ['heap'])
            first, second, third, fourth = [t.profile for t in receiver.taken]
            self.assertLess(abs(first.time_ns + first.duration_ns - (now - 10 * 10**9)), 10**9, 'the end moved')
            self.assertEqual(second.duration_ns, 10**9)
            for profile in first, second, third:
                self.assertEqual(sum('the receiver takes no such time' in c for c in profile.comments), 1)
            self.assertEqual(fourth.comments, [])

    def test_each_interval_is_a_point_unless_the_pusher_is_hours_behind(self):
        """A database sums memory in use over the points of a range: their number must not depend on how the files went."""
        now = time.time_ns()
        for seq in range(1, 61):
            self.write(seq, modified_ns=now - (61 - seq) * 115 * 10**9)  # 1 h 53 min
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assertEqual(len(receiver.taken), 60)
            self.assert_arrived(receiver, ['heap'])

    def test_many_waiting_files_of_one_kind_are_joined(self):
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 101):
            self.write_old(seq, time_ns=t + seq * 10**9)
            self.write_old(seq, 'block', time_ns=t + seq * 10**9)
        self.write(101, time_ns=t + 101 * 10**9)
        self.write(101, 'block', time_ns=t + 101 * 10**9)
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assertEqual(receiver.n_requests, 2 * (100 / 20 + 1))
            self.assert_arrived(receiver, ['block'])
            flows = {k: v for k, v in sums(self.files('heap')).items() if k[0].startswith('alloc')}
            profiles = [t.profile for t in receiver.taken if t.kind == 'memory']
            self.assertEqual({k: v for k, v in sums(profiles).items() if k[0].startswith('alloc')}, flows)
            self.assertEqual(sum(p.duration_ns for p in profiles), 101 * 10**9)
            self.assertEqual(min(p.time_ns for p in profiles), t + 10**9)
            newest = {k: v for k, v in sums([max(profiles, key=lambda p: p.time_ns)]).items() if k[0].startswith('inuse')}
            self.assertEqual(newest, {k: v for k, v in sums([self.files('heap')[-1]]).items() if k[0].startswith('inuse')})

    def test_joined_files_keep_their_peak(self):
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 11):
            in_use = 9000 if seq == 4 else 10 * seq
            self.write_old(seq, time_ns=t + seq * 10**9, rows=[(['import' if seq == 4 else 'serve', 'main'], [1, 10, 1, in_use])])
        self.write(11, rows=[(['serve', 'main'], [1, 10, 1, 5])], comment='#ended')
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('pyroscope')), '')
            self.assertEqual(receiver.n_requests, 2)
            [sample] = [s for s in receiver.taken[0].profile.samples if s.values['inuse_space']]
            self.assertEqual((sample.names[0], sample.values['inuse_space']), ('import', 9000))

    def test_files_are_sent_as_they_appear_until_it_is_told_to_end(self):
        with Receiver() as receiver:
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.PIPE, text=True,
                                      env=self.environment())
            try:
                for seq in range(1, 6):
                    self.write(seq)
                    self.wait_until(lambda: len(receiver.taken) >= seq)
            finally:
                pusher.send_signal(signal.SIGTERM)
                self.assertEqual(pusher.communicate(timeout=60)[1], '')
            self.assertEqual(pusher.returncode, 0)
            self.assert_arrived(receiver, ['heap'])

    def test_what_is_left_is_sent_after_sigterm(self):
        self.write(1)
        with Receiver() as receiver:
            receiver.plan = ['503 Retry-After: 1']
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), env=self.environment(), stderr=subprocess.PIPE, text=True)
            self.wait_until(lambda: receiver.n_requests)
            pusher.send_signal(signal.SIGTERM)
            pusher.communicate(timeout=60)
            self.assertEqual(pusher.returncode, 0)
            self.assert_arrived(receiver, ['heap'])

    def test_one_directory_has_one_pusher_for_a_receiver(self):
        with Receiver() as receiver:
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), env=self.environment())
            try:
                self.write(1)
                self.wait_until(lambda: receiver.taken)
                self.assertIn('another deltaprof push', self.push(receiver.url('pyroscope'), status=1))
            finally:
                pusher.kill()
                pusher.wait()
            self.assertEqual(self.push(receiver.url('pyroscope')), '')

    def test_a_directory_with_several_names_is_sent_once(self):
        self.write(1)
        link = os.path.join(self.scratch.name, 'link')
        os.symlink(self.dir, link)
        names = [link, os.path.relpath(self.dir), self.dir + '/.', self.dir]
        with Receiver() as receiver:
            self.assertEqual(self.push(receiver.url('pyroscope'), *names), '')
            self.assert_arrived(receiver, ['heap'])
        shown = subprocess.run([DELTAPROF, 'push', '--status', *names], text=True, capture_output=True, check=True, timeout=60)
        self.assertEqual(shown.stdout.count('\n'), 1, shown.stdout)

    def test_a_receiver_that_was_never_there_leaves_no_journal(self):
        self.write(1)
        with Receiver() as receiver:
            wrong = receiver.url('pyroscope')
        self.assertIn('1 waiting', self.push(wrong, '--wait', '20ms', status=1))
        self.assertEqual(os.listdir(self.dir), ['server.7.0001.heap.pb.gz'])
        with Receiver() as receiver:
            receiver.plan = ['taken']  # a reply that never comes: it may be delivered
            self.assertIn('1 perhaps delivered', self.push(receiver.url('pyroscope'), status=1))
        self.assertEqual(len(os.listdir(self.dir)), 2)

    def test_files_deleted_before_they_were_sent_are_counted(self):
        for seq in 1, 2:
            self.write(seq)
        with Receiver() as receiver:
            self.push(receiver.url('pyroscope'))
            os.remove(os.path.join(self.dir, 'server.7.0001.heap.pb.gz'))
            for seq in 6, 7:  # 3 to 5 were deleted meanwhile
                self.write(seq)
            self.assertIn('2 files accepted, 0 perhaps delivered, 0 refused, 3 deleted', self.push(receiver.url('pyroscope'), status=1))
            self.write(9)
            self.write(9, 'block')  # so that tick 8 had two files as well
            self.assertIn('2 files accepted, 0 perhaps delivered, 0 refused, 2 deleted', self.push(receiver.url('pyroscope'), status=1))
            self.assertEqual(self.push(receiver.url('pyroscope')), '')

    def test_other_files_are_left_alone_and_broken_ones_are_named(self):
        for name in 'x.pb.gz', '.server.7.heap.ab.tmp', 'server.7.0001.other.pb.gz', 'server.7.1.heap.pb.gz':
            with open(os.path.join(self.dir, name), 'wb') as f:
                f.write(b'no profile')
        os.symlink('/etc/passwd', os.path.join(self.dir, 'server.7.0005.heap.pb.gz'))
        for seq, data in (2, b'\x1f\x8b broken'), (4, b''):
            with open(os.path.join(self.dir, 'server.7.%04d.heap.pb.gz' % seq), 'wb') as f:
                f.write(data)
        self.write(3)
        with Receiver() as receiver:
            line = self.push(receiver.url('pyroscope'), status=1)
            self.assertRegex(line, r'0002.heap.pb.gz: ')
            self.assertIn('0004.heap.pb.gz: empty', line)
            self.assertIn('1 files accepted, 0 perhaps delivered, 2 refused', line)
            self.assertEqual(len(receiver.taken), 1)

    def test_a_broken_file_among_joined_ones_is_refused_alone(self):
        t = time.time_ns() - 600 * 10**9
        for seq in range(1, 13):
            path = self.write_old(seq, time_ns=t + seq * 10**9)
            if seq == 5:
                with open(path, 'r+b') as f:
                    f.truncate(os.path.getsize(path) // 2)
                os.utime(path, ns=(time.time_ns() - (3 * 3600 - 5) * 10**9,) * 2)
        self.write(13)
        with Receiver() as receiver:
            said = self.push(receiver.url('pyroscope'), status=1)
            self.assertRegex(said, r'0005.heap.pb.gz: ')
            self.assertIn('12 files accepted, 0 perhaps delivered, 1 refused', said)
            os.unlink(os.path.join(self.dir, 'server.7.0005.heap.pb.gz'))
            self.assert_arrived(receiver, ['heap'])

    def test_a_broken_file_from_the_future_is_named_too(self):
        for seq, data in (1, b'\x1f\x8b broken'), (2, b''):
            path = os.path.join(self.dir, 'server.7.%04d.heap.pb.gz' % seq)
            with open(path, 'wb') as f:
                f.write(data)
            os.utime(path, (time.time() + 10**6,) * 2)
        with Receiver() as receiver:
            self.assertIn('2 refused', self.push(receiver.url('pyroscope'), status=1))

    def test_events_go_to_receivers_that_take_times(self):
        rows = [(['leaf%d' % (i % 3), 'main'], [1, i], {'end_timestamp_ns': 10**18 + i, 'thread id': 5}) for i in range(1, 30)]
        self.write(1)
        self.write(1, 'events', rows)
        self.write(2, 'events', rows)  # a tick with nothing else
        self.write(3)
        with Receiver() as receiver:
            for protocol in 'pyroscope', 'parca':
                self.assertEqual(self.push(receiver.url(protocol)), '')
                self.assert_arrived(receiver, ['heap'])
                receiver.taken.clear()
            self.assertEqual(self.push(receiver.url('otlp')), '')
            self.assertEqual([t.labels['deltaprof.kind'] for t in receiver.taken], ['heap', 'events', 'events', 'heap'])
            self.assertEqual(sums(t.profile for t in receiver.taken if t.kind == 'lock'), sums(self.files('events')))

    def test_push_waits_for_a_file_that_is_being_copied(self):
        with open(self.write(1), 'rb') as f:
            data = f.read()
        os.remove(f.name)
        with Receiver() as receiver:
            pusher = subprocess.Popen(self.command(receiver.url('pyroscope')), stderr=subprocess.PIPE, text=True, env=self.environment())
            try:
                self.wait_until(lambda: any(n.startswith('.push.') for n in os.listdir(self.dir)))
                with open(f.name, 'wb') as g:
                    for part in b'', data[:60], data[60:100], data[100:]:
                        g.write(part)
                        g.flush()
                        time.sleep(0.3)
                self.wait_until(lambda: receiver.taken)
            finally:
                pusher.send_signal(signal.SIGTERM)
                self.assertEqual(pusher.communicate(timeout=60)[1], '')
            self.assert_arrived(receiver, ['heap'])

    @unittest.skipUnless(os.geteuid() == 0, 'not root')
    def test_profiles_of_another_user_are_counted(self):
        other = ['setpriv', '--reuid', '65534', '--clear-groups', '--inh-caps=-all']
        if subprocess.run([*other, 'test', '-x', os.path.abspath(DELTAPROF)]).returncode:
            self.skipTest('another user cannot start the command here')
        os.chmod(self.write(1), 0o600)
        os.chmod(self.scratch.name, 0o755)
        os.chmod(self.dir, 0o777)
        with Receiver() as receiver:
            said = self.push(receiver.url('pyroscope'), before=other, status=1)
            self.assertIn('1 profiles of another user cannot be read', said)

    @unittest.skipUnless(EXAMPLE, 'no example')
    def test_a_server_that_sends_deltas_itself_loses_nothing(self):
        with Receiver() as receiver:
            receiver.plan = ['503', 'ok', 'ok']
            done = subprocess.run([EXAMPLE, 'http://127.0.0.1:%d/v1/pprof' % receiver.port], text=True, capture_output=True, timeout=60)
            self.assertEqual((done.returncode, receiver.refused), (0, []), done.stderr)
            n = sum(s.values['alloc_objects'] for t in receiver.taken for s in t.profile.samples if 'handle_request' in s.names)
            self.assertEqual((n, len(receiver.taken)), (1500, 2))

    def test_wrong_usage_is_one_line_and_status_2(self):
        for arguments, why in (([], 'no DIR given'), ([self.dir], 'no --to URL given'), ([self.dir, '--to', 'http://x'], 'a receiver is'),
                               ([self.dir, '--to', 'otlp+http://me:secret@x'], '--token FILE'),
                               ([self.dir, '--to', 'otlp+http://x:99999'], 'a port from 1 to 65535'),
                               ([self.dir, '--to', 'otlp+http://x:0'], 'a port from 1 to 65535'),
                               ([self.dir, '--to', 'otlp+https://[::1/'], '[IPv6]:PORT'),
                               ([self.dir, '--to', 'otlp+http://x', '--tag', 'x'], 'KEY=VALUE'),
                               ([self.dir, '--to', 'otlp+http://x', '--token', '/nowhere'], '/nowhere'),
                               ([self.dir, '--to', 'otlp+http://x', '--wait', 'x'], 'a time'),
                               ([self.dir, '--to', 'otlp+http://x', '--bogus'], '--bogus is no option'),
                               ([self.dir, '-b'], '-b is no option'), ([self.dir, '--to'], '--to needs a value'),
                               ([self.dir, '--to', 'otlp+http://x', '--beside', '0'], 'a number from 1 on, not 0')):
            with self.subTest(arguments):
                done = subprocess.run([DELTAPROF, 'push', *arguments], text=True, capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, r'\Adeltaprof push: .*\n\Z')
                self.assertIn(why, done.stderr)
                self.assertNotIn('secret', done.stderr)


if __name__ == '__main__':
    unittest.main()
