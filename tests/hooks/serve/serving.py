# SPDX-License-Identifier: MIT
"""For tests of `deltaprof serve`."""
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import reader
from harness import BUILD, PRELOAD, environment, new_directory, skip, victim

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
EXACT = 'heap_rate=1,cpu_rate=0,mutex_rate=0,block_rate=0,out=none,log=none'
BYTES = 100

if subprocess.run(['stat', '-f', '-c', '%T', '/dev/shm'], capture_output=True, text=True).stdout.strip() != 'tmpfs':
    skip('no tmpfs at /dev/shm')


class Serving:
    """`deltaprof serve` on a directory of its own, and programs whose tables lie there."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.tables = tempfile.mkdtemp(prefix='deltaprof-test-', dir='/dev/shm')
        self.stack.callback(shutil.rmtree, self.tables, ignore_errors=True)
        self.out = new_directory()
        self.start_server()
        return self

    def start_server(self, *words):
        self.server = subprocess.Popen([DELTAPROF, 'serve', '--listen', '127.0.0.1:20000-29999', *words, self.tables],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.stack.callback(self.server.kill)
        self.url = re.search(r'http://\S+', self.server.stdout.readline())[0]

    def __exit__(self, *unused):
        self.stop()
        self.stack.close()

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        _, self.errors = self.server.communicate(timeout=60)
        return self.server.returncode

    def start(self, n_blocks, how, conf=EXACT, out=None, wait=True):
        """Returns when it has made its blocks, unless wait is false."""
        p = subprocess.Popen([victim('works'), str(n_blocks), how], env=environment(f'{conf},tables={self.tables}', out),
                             stdout=subprocess.PIPE)
        self.stack.callback(p.stdout.close)
        self.stack.callback(p.kill)
        assert not wait or p.stdout.readline() == b'done\n'
        return p

    def kill_server(self):
        self.server.kill()
        self.server.communicate()

    def files(self, kind='heap'):
        """All files of a kind that the server wrote, by number."""
        return [reader.load(path) for path in reader.files(self.out, kind)]

    def in_files(self):
        return sum(n for f in self.files() for n in made(f).values())

    def get(self, page, status=200, headers=None):
        request = urllib.request.Request(self.url + page, headers=headers or {})
        try:
            reply = urllib.request.urlopen(request, timeout=120)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            assert reply.status == status, (page, reply.status, reply.read())
            self.headers = reply.headers
            return reply.read()

    def profile(self, page):
        return reader.load(self.get(page))

    def ended(self):
        return int(re.search(r'^deltaprof_ended_processes_total (\d+)', self.get('metrics').decode(), re.M)[1])


def made(profile, type='alloc_objects'):
    """{label pid: blocks that the victims' function made}"""
    sums = collections.Counter()
    for s in profile.samples:
        if 'works' in s.names:
            sums[dict(s.labels).get('pid')] += s.values[type]
    return +sums
