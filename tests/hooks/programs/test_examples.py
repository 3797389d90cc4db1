# SPDX-License-Identifier: MIT
"""The example programs do what their comments say, and their profiles have exactly the programs' events.

    test_examples.py SERVER RUNTIME INTERPRETER FUTEX_LOCK
"""
import os
import subprocess
import sys
import tempfile
import unittest

import check_profile
import reader

SERVER, RUNTIME, INTERPRETER, FUTEX_LOCK = map(os.path.abspath, sys.argv[1:])


class Examples(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.dir = held.name

    def run_it(self, *command, says=''):
        env = {k: v for k, v in os.environ.items() if not k.startswith(('LD_', 'DELTAPROF_'))}
        done = subprocess.run(command, text=True, capture_output=True, cwd=self.dir, env=env, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, f'^{says}$')

    def test_a_server_answers_with_what_changed(self):
        self.run_it(SERVER, 'profile')
        paths = [os.path.join(self.dir, f'profile.{i}.pb.gz') for i in (0, 1)]
        for i, profile in enumerate(check_profile.check_files(paths, program='server')):
            total = reader.sum_profiles([profile])
            among = {'open_session', 'handle_request'}
            self.assertEqual(reader.by_function(total, 'alloc_objects', among), {'open_session': 500, 'handle_request': 500})
            self.assertEqual(reader.by_function(total, 'alloc_space', among), {'open_session': 256000, 'handle_request': 8000})
            self.assertEqual(reader.by_function(total, 'inuse_objects', among),
                             {'open_session': 500 * (i + 1), 'handle_request': 0})

    def test_a_runtime_reports_a_heap_of_its_own(self):
        self.run_it(RUNTIME, 'profiles')
        profiles = check_profile.check_files(reader.files(os.path.join(self.dir, 'profiles')), program='runtime')
        self.assertTrue(profiles)
        total = reader.sum_profiles(profiles)
        # A compiler may make a copy of the function for each constant argument.
        lists = {name for names, _ in total for name in names if name.split('.')[0] == 'read_list'}
        for key, value in (('alloc_objects', 1000), ('alloc_space', 64000), ('inuse_objects', 100), ('inuse_space', 6400)):
            self.assertEqual(reader.by_function(total, key, {'cell_new'}), {'cell_new': value})
            self.assertEqual(sum(reader.by_function(total, key, lists).values()), value)
        self.assertEqual({dict(labels).get('heap') for _, labels in total}, {'cells'})

    def test_an_interpreters_functions_are_in_the_stacks(self):
        self.run_it(INTERPRETER, 'profiles')
        profiles = check_profile.check_files(reader.files(os.path.join(self.dir, 'profiles')), program='interpreter')
        stacks = {}
        for profile in profiles:
            for sample in profile.samples:
                stack = tuple((f.function, f.line if f.file == 'toy.src' else 0) for f in sample.frames)
                stack = stack[:stack.index(('main', 0))]
                stacks[stack] = stacks.get(stack, 0) + sample.values['alloc_objects']
        compare = (('compare', 31), ('native_sort', 0), ('sorted', 21))
        self.assertEqual(stacks, {(('program', 11),): 1, compare + (('program', 12),): 1, compare + (('program', 13),): 1})

    def blames_who_eats_slowly(self, out):
        # a program that names no heap may have forgotten to link the hooks
        self.run_it(FUTEX_LOCK, out, says=r'deltaprof\[\d+\]: no interposer is active.*\n')
        held, waited = (reader.sum_profiles(check_profile.check_files(
            reader.files(os.path.join(self.dir, out), kind), program='futex_lock')) for kind in ('mutex', 'block'))
        blame, waits = (reader.by_function(total, 'delay') for total in (held, waited))
        self.assertEqual(sum(blame.values()), sum(waits.values()))
        self.assertEqual({dict(labels)['lock'] for _, labels in held | waited}, {'mutex'})
        blame.pop('[hand-over]', None)  # it depends on the scheduler
        return blame.get('eats_slowly', 0) > 0.8 * sum(blame.values()) and waits.get('snacks', 0) > 0

    def test_a_runtime_reports_locks_of_its_own(self):
        # A run in which a thread comes late, or is delayed while it holds the lock, does not count.
        self.assertTrue(any(self.blames_who_eats_slowly(out) for out in 'abcd'))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
