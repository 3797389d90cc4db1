# SPDX-License-Identifier: MIT
"""The crate for Rust programs: `cargo test`, and what its example allocates, function by function and exactly.

    test_rust.py DELTAPROF CRATE BUILD VERSION
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

DELTAPROF, CRATE, BUILD, VERSION = os.path.abspath(sys.argv[1]), *sys.argv[2:]
CARGO = next((c for c in (os.environ.get('CARGO'), shutil.which('cargo'), '/usr/bin/cargo') if c and os.path.exists(c)), None)
SCRATCH = os.path.join(BUILD, 'tests/rust')
ENV = {**os.environ, 'DELTAPROF_LIB_DIR': os.path.join(BUILD, 'src'), 'LD_LIBRARY_PATH': os.path.join(BUILD, 'src'),
       'CARGO_TARGET_DIR': os.path.join(SCRATCH, 'target'), 'CARGO_NET_OFFLINE': 'true'}
ENV.pop('DELTAPROF_CONF', None)
# A thread's stack, its name and its handle are allocations of std, by the thread that makes it.
KEPT, DROPPED, THREADS, DROPPED_BY_THREADS = 200, 300, 4, 4000


def cargo(*words):
    done = subprocess.run([CARGO, *words, '--offline', '--locked'], cwd=CRATE, env=ENV, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def top(path, type, *options, column='flat'):
    """{function: value} of the functions in which stacks begin, or which stand in them."""
    said = subprocess.run([DELTAPROF, 'top', '--json', '--type', type, '-n', '0', *options, path], text=True, capture_output=True)
    assert said.returncode == 0, said.stderr
    return {row['name'].split('::')[-1]: row[column] for row in json.loads(said.stdout)['rows'] if row[column]}


class Rust(unittest.TestCase):
    def run_example(self, program, *command):
        first, second = (os.path.join(SCRATCH, name) for name in ('first.pb.gz', 'second.pb.gz'))
        done = subprocess.run([*command, program, first, second], text=True, capture_output=True,
                              env={**ENV, 'DELTAPROF_CONF': 'heap_rate=1'})
        self.assertEqual((done.returncode, done.stdout), (0, VERSION + '\n'), done.stderr)
        return first, second

    def check(self, first, second, options=()):
        objects, sizes = top(first, 'alloc_objects', *options), top(first, 'alloc_space', *options)
        self.assertEqual((objects['keep'], sizes['keep']), (KEPT + 1, KEPT * 1000 + KEPT * 8), objects)
        self.assertEqual((objects['drop_at_once'], sizes['drop_at_once']), (DROPPED, DROPPED * 500), objects)
        if not options:  # raw, the reallocs are those of std's finish_grow
            self.assertEqual((objects['grow'], sizes['grow']), (4, 16 + 32 + 96 + 288), objects)
        in_use = top(first, 'inuse_space', *options)
        self.assertEqual((in_use['keep'], in_use.get('grow', in_use.get('finish_grow'))), (sizes['keep'], 288), in_use)
        self.assertNotIn('drop_at_once', in_use)
        labelled = top(first, 'alloc_objects', '--label', 'endpoint=/keep', *options)
        self.assertEqual(labelled['keep'], KEPT + 1)
        self.assertNotIn('drop_at_once', labelled)
        self.assertEqual(top(second, 'alloc_objects', *options)['drop_at_once'], DROPPED_BY_THREADS)
        in_use = top(second, 'inuse_space', *options)
        self.assertTrue(not {'keep', 'grow', 'drop_at_once'} & set(in_use), in_use)

    def example(self, *options):
        cargo('build', '--example', 'server', *options)
        program = os.path.join(ENV['CARGO_TARGET_DIR'], 'release' if '--release' in options else 'debug', 'examples/server')
        needed = subprocess.run(['ldd', program], text=True, capture_output=True, env=ENV).stdout
        self.assertEqual('libdeltaprof' in needed, 'static' not in options, needed)
        return program

    def test_1_the_crates_own_tests_pass(self):
        self.assertIn('test result: ok.', cargo('test'))

    def test_2_what_the_example_allocates_is_counted_exactly(self):
        for options in (('--release',), ('--release', '--features', 'static')):
            with self.subTest(options):
                self.check(*self.run_example(self.example(*options)))

    def test_2_without_optimization_the_same_is_counted(self):
        first, second = self.run_example(self.example())
        objects, in_use = (top(first, type, column='cum') for type in ('alloc_objects', 'inuse_space'))
        self.assertEqual((objects['keep'], objects['drop_at_once'], objects['grow']), (KEPT + 1, DROPPED, 4), objects)
        self.assertEqual((in_use['keep'], in_use['grow']), (KEPT * 1008, 288), in_use)
        begin = top(first, 'alloc_objects', '--raw')
        self.assertFalse([name for name in begin if 'rust_alloc' in name or 'rg_alloc' in name or name == 'alloc_due'], begin)

    def test_3_with_optimization_a_stack_begins_at_the_function_that_allocates(self):
        self.check(*self.run_example(self.example('--release')), options=('--raw',))

    def test_4_beneath_the_preloaded_hooks_each_event_counts_once(self):
        words = (DELTAPROF, 'run', '-o', f'out={SCRATCH}/run,log=none', '--')
        self.check(*self.run_example(self.example('--release'), *words), options=('--raw',))

    def test_4_a_static_program_under_run_uses_the_preloaded_library(self):
        out = os.path.join(SCRATCH, 'static')
        shutil.rmtree(out, ignore_errors=True)
        program = self.example('--release', '--features', 'static')
        words = (DELTAPROF, 'run', '-o', f'out={out},log=none', '--')
        self.check(*self.run_example(program, *words), options=('--raw',))
        objects, sizes = top(out, 'alloc_objects', '--raw'), top(out, 'alloc_space', '--raw')
        self.assertEqual((objects['keep'], sizes['keep']), (KEPT + 1, KEPT * 1008), objects)
        self.assertEqual(objects['drop_at_once'], DROPPED + DROPPED_BY_THREADS, objects)

    def test_4_events_have_the_trace_context_of_their_thread(self):
        out = os.path.join(SCRATCH, 'events')
        shutil.rmtree(out, ignore_errors=True)
        self.run_example(self.example('--release'), DELTAPROF, 'run', '-o', f'events=on,out={out},log=none', '--')
        files = [os.path.join(out, name) for name in os.listdir(out) if '.events.' in name]
        for key, value in ('trace_id', '4b' * 16), ('span_id', '7a' * 8):
            traced = top(*files, 'alloc_objects', '--label', f'{key}={value}')
            self.assertEqual(traced['keep'], KEPT + 1, traced)
            self.assertNotIn('drop_at_once', traced)
        self.assertEqual(top(*files, 'alloc_objects')['drop_at_once'], DROPPED + DROPPED_BY_THREADS)

    def test_5_the_crate_is_in_step_with_the_library(self):
        with open(os.path.join(CRATE, 'Cargo.toml')) as f:
            self.assertIn(f'\nversion = "{VERSION}"\n', f.read())


if __name__ == '__main__':
    if not CARGO:
        print('skipped: cargo is not installed')
        sys.exit(77)
    os.makedirs(SCRATCH, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
