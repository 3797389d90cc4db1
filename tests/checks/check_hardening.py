# SPDX-License-Identifier: MIT
"""What is built is hardened, as readelf and nm see it, and what runs inside a hook has no check that could end the host.

    check_hardening.py COMPILER-GIVES DELTAPROF PUSH CORE.so OTHER.so... --hooks PRELOAD.so HOOKS.a...

COMPILER-GIVES has the words fortify and shstk if the build has them.
"""
import re
import subprocess
import sys
import unittest

GIVES, *REST = sys.argv[1:]
OBJECTS, HOOKS = REST[:REST.index('--hooks')], REST[REST.index('--hooks') + 1:]
PROGRAMS = OBJECTS[:2]
GUARDED = OBJECTS[:3]  # the others are small: the compiler may find nothing to guard in one of them
LOADED = OBJECTS + HOOKS[:1]


def read(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


def called(file):
    return {line.split()[-1].split('@')[0] for line in read('nm', '-u', file).splitlines() if re.match(r'\s+U ', line)}


class Hardening(unittest.TestCase):
    def test_every_symbol_is_bound_at_start_and_then_read_only(self):
        for file in LOADED:
            self.assertIn('BIND_NOW', read('readelf', '-dW', file), file)
            self.assertIn('GNU_RELRO', read('readelf', '-lW', file), file)

    def test_programs_lie_anywhere(self):
        for file in PROGRAMS:
            self.assertRegex(read('readelf', '-hW', file), r'Type: +DYN', file)

    def test_no_stack_is_executable(self):
        for file in LOADED:
            self.assertRegex(read('readelf', '-lW', file), r'GNU_STACK.* RW ', file)

    def test_stacks_are_guarded_but_inside_hooks(self):
        for file in GUARDED:
            self.assertIn('__stack_chk_fail', called(file), file)
        for file in HOOKS:
            self.assertNotIn('__stack_chk_fail', called(file), file)

    def test_calls_are_checked_but_inside_hooks(self):
        for file in GUARDED if 'fortify' in GIVES else []:
            self.assertTrue({name for name in called(file) if re.match(r'__\w+_chk$', name)}, file)
        self.assertNotIn('__longjmp_chk', called(OBJECTS[2]))  # the core jumps between stacks
        for file in HOOKS:
            self.assertEqual({name for name in called(file) if re.match(r'__\w+_chk$', name)}, set(), file)

    def test_a_process_keeps_its_shadow_stack(self):
        for file in LOADED if 'shstk' in GIVES else []:
            self.assertRegex(read('readelf', '-nW', file), r'x86 feature:.*\bSHSTK\b', file)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
