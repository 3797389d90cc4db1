# SPDX-License-Identifier: MIT
"""A stripped program: one line says what would give it names, and a debuginfod server gives them to the command.

    test_symbols.py DELTAPROF CC
"""
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

DELTAPROF, CC = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1).split()
PROGRAM = '''
#include <stdlib.h>
void *kept[4000];
__attribute__((noinline)) static void *take_order(int i) { return kept[i] = malloc(1000); }
__attribute__((noinline)) static int open_shop(int i) { return take_order(i) != NULL; }
__attribute__((noinline)) static int whole_day(void) { int n = 0; for (int i = 0; i < 4000; i++) n += open_shop(i); return n; }
int main(void) { return whole_day() != 4000; }
'''
RUST = '''
use std::collections::HashMap;
use std::sync::Mutex;
struct Store { map: Mutex<HashMap<u64, Vec<u8>>> }
impl Store {
    fn put(&self, key: u64) { self.map.lock().unwrap().insert(key, vec![0u8; 2000]); }
}
fn main() {
    let store = Store { map: Mutex::new(HashMap::new()) };
    for key in 0..4000 { store.put(key); }
    std::process::exit(store.map.lock().unwrap().len() as i32 - 4000);
}
'''


MILL = '''
#include <time.h>
__attribute__((noinline)) static int grind(void) { volatile int n = 0; while (clock() < CLOCKS_PER_SEC / 2) n++; return n; }
int main(void) { return grind() == 0; }
'''


class Server(http.server.ThreadingHTTPServer):
    """Answers as debuginfod does, for some build-ids: paths has their files."""

    def __init__(self, paths):
        self.asked = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked.append(self.path)
                words = self.path.split('/')
                if words[1] != 'buildid' or words[2] not in paths or words[3:] != ['debuginfo']:
                    return self.send_error(404)
                with open(paths[words[2]], 'rb') as file:
                    data = file.read()
                self.send_response(200)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        super().__init__(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Symbols(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix='deltaprof-symbols-')
        self.addCleanup(temporary.cleanup)
        self.dir = temporary.name
        self.shop = self.dir + '/shop'
        self.build_id = self.build('shop', PROGRAM)
        self.run_it(DELTAPROF, 'run', '-o', f'heap_rate=4k,cpu_rate=0,out={self.dir}/out', '--', self.shop)

    def run_it(self, *words):
        return subprocess.run(words, check=True, timeout=60, capture_output=True, text=True).stdout

    def build(self, name, text):
        """Builds a stripped program and NAME.debug, which has its symbols. Returns its build-id."""
        path = f'{self.dir}/{name}'
        self.run_it(*CC, '-g', '-O1', '-fno-optimize-sibling-calls', '-x', 'c', '-Wl,--build-id', '-o', path, self.write(name + '.c', text))
        build_id = self.run_it('readelf', '-n', path).split('Build ID: ')[1].split()[0]
        self.run_it('objcopy', '--only-keep-debug', path, path + '.debug')
        self.run_it('strip', '--strip-all', path)
        return build_id

    def serve(self, paths):
        server = Server(paths)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f'http://127.0.0.1:{server.server_port}'

    def write(self, name, text):
        with open(f'{self.dir}/{name}', 'w') as file:
            file.write(text)
        return f'{self.dir}/{name}'

    def top(self, urls=None, verb='top'):
        env = {k: v for k, v in os.environ.items() if not k.startswith('DEBUGINFOD')} | {'DEBUGINFOD_CACHE_PATH': self.dir + '/cache'}
        if urls:
            env['DEBUGINFOD_URLS'] = urls
        done = subprocess.run([DELTAPROF, verb, self.dir + '/out'], env=env, timeout=120, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def test_one_line_says_what_would_give_names(self):
        for verb in 'top', 'tree', 'leaks':
            text = self.top(verb=verb)
            self.assertEqual(text.count('No symbols: '), 1, text)
            self.assertIn('No symbols: shop has none; link it without -s and strip, or set DEBUGINFOD_URLS', text)
            self.assertTrue(verb == 'leaks' or 'shop+0x' in text, text)
        os.rename(self.shop, self.shop + '.gone')
        self.assertIn('No symbols: shop is not on this machine', self.top())

    def test_the_command_fetches_them_once(self):
        server, url = self.serve({self.build_id: self.dir + '/shop.debug'})
        self.assertIn('shop+0x', self.top())
        self.assertEqual(server.asked, [])
        for _ in range(2):
            text = self.top(url)
            self.assertIn('take_order', text)
            self.assertNotIn('shop+0x', text)
            self.assertNotIn('No symbols', text)
            self.assertEqual(server.asked.count(f'/buildid/{self.build_id}/debuginfo'), 1)
        self.assertIn('whole_day', self.top())  # from the cache

    def test_a_server_that_does_not_have_them_is_said(self):
        _, url = self.serve({})
        text = self.top(url)
        self.assertIn('shop+0x', text)
        self.assertIn('(the servers in DEBUGINFOD_URLS do not have them)', text)

    def test_a_command_that_reads_several_kinds_fetches_for_all_of_them(self):
        mill = self.build('mill', MILL)
        self.run_it(DELTAPROF, 'run', '-o', f'heap_rate=0,cpu_rate=5ms,out={self.dir}/out', '--', self.dir + '/mill')
        server, url = self.serve({self.build_id: self.dir + '/shop.debug', mill: self.dir + '/mill.debug'})
        text = self.top(url, verb='summary')
        for build_id in self.build_id, mill:
            self.assertEqual(server.asked.count(f'/buildid/{build_id}/debuginfo'), 1, text)
        self.assertIn('grind', text)

    @unittest.skipUnless(shutil.which('rustc'), 'no rustc')
    def test_methods_of_rust_that_were_inlined_are_seen(self):
        subprocess.run(['rustc', '-O', '-g', '--crate-name', 'kept', '-o', self.dir + '/kept', self.write('kept.rs', RUST)], check=True, timeout=120)
        subprocess.run([DELTAPROF, 'run', '-o', f'heap_rate=1k,cpu_rate=0,out={self.dir}/kept.d', '--', self.dir + '/kept'], check=True, timeout=60)
        top = subprocess.run([DELTAPROF, 'top', '--cum', self.dir + '/kept.d'], capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertRegex(top, r'100\.0% +100\.0% .* kept::Store::put\n')
        self.assertNotIn('alloc::', top)


if __name__ == '__main__':
    unittest.main()
