# SPDX-License-Identifier: MIT
"""`deltaprof push` and the endpoint with the real servers: what their own APIs answer is what the files say, to the unit.

    DELTAPROF_TEST_PYROSCOPE=/path/of/pyroscope DELTAPROF_TEST_PARCA=/path/of/parca DELTAPROF_TEST_OTELCOL=/path/of/otelcol \\
        test_servers.py DELTAPROF EXAMPLE

A server whose variable is not set is skipped.
"""
import collections
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import otlp
import yaml
from by_hand import DELTAPROF
from pushing import NAMES, Pushing
from servers import Collector, Parca, Pyroscope, free_ports
from test_beside import pushers

SCRAPED = 'heap', 'mutex', 'block'  # the kinds in the examples
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples')
if not (Pyroscope.binary() or Parca.binary() or Collector.binary()):
    print('skipped: no server is named')
    sys.exit(77)

# Six threads that allocate and that wait for a mutex and for a rwlock, once BEGIN exists, until END exists.
LOCKS = '''
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
void *work(void *unused)
{
    for (int i = 0; i < 150; i++) {
        pthread_mutex_lock(&mutex);
        void *kept = malloc((size_t)(i % 50) * 1000 + 1);
        usleep(200);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        usleep(100);
        pthread_rwlock_unlock(&rwlock);
        if (i % 3)
            free(kept);
        if (i % 25 == 0)
            usleep(500000);
    }
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[6];
    while (argc > 1 && access(argv[1], F_OK))
        usleep(10000);
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    while (argc > 2 && access(argv[2], F_OK))
        usleep(10000);
    return 0;
}
'''


class Servers(Pushing):
    def of_files(self, named=NAMES.get, labels=lambda labels: labels, kinds=tuple(NAMES), frame=None, without=()):
        """{(kind, type, labels): sum} over the files, as a server counts them."""
        out = collections.Counter()
        for kind in kinds:
            for file in self.files(kind):
                if os.path.basename(file.path) in without:
                    continue
                for sample in file.samples:
                    if frame and frame not in sample.names:
                        continue
                    for name, value in sample.values.items():
                        out[named(kind), name, labels(sample.labels)] += value
        return {k: v for k, v in out.items() if v}

    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.scratch.name, 'locks')
        subprocess.run(['cc', '-g', '-pthread', '-x', 'c', '-', '-o', self.program], input=LOCKS, text=True, check=True)

    def start_locks(self, *more, files=()):
        options = 'out=%s,interval=1s,heap_rate=4k,block_rate=1ns' % self.dir
        return subprocess.Popen([os.path.abspath(DELTAPROF), 'run', '-o', options, *more, '--', self.program, *files],
                                env=self.environment(OTEL_SERVICE_NAME='shop'))

    def run_locks(self, *more):
        self.assertEqual(self.start_locks(*more).wait(200), 0)

    def eventually(self, get, expected):
        """A database may take a moment until it finds what it accepted."""
        until = time.monotonic() + 60
        while get() != expected and time.monotonic() < until:
            time.sleep(0.5)
        self.assertEqual(get(), expected)
        self.assertGreater(len(expected), 4)

    def push_beside(self, url):
        self.run_locks('-o', 'push=' + url)
        self.wait_until(lambda: not pushers(self.dir))

    def push_through_restarts(self, server, url, number, **how):
        """The server is ended and started again while files appear and are sent. A file in doubt may be in the server or not."""
        pusher = subprocess.Popen(self.command(url, '--service', 'shop', '--timeout', '20s'), stderr=subprocess.PIPE, text=True, env=self.environment())
        program = self.start_locks()
        for _ in range(3):
            time.sleep(1)
            server.kill(number)
            server.start()
        self.assertEqual(program.wait(200), 0)
        pusher.send_signal(signal.SIGTERM)
        said = pusher.communicate(timeout=60)[1]
        said += self.push(url, '--service', 'shop', status=None)
        self.assertNotIn('refused by', said)
        doubtful = [os.path.basename(name) for name in re.findall(r'(\S+\.pb\.gz): perhaps delivered', said)]
        possible = [self.of_files(without=some, **how) for n in range(len(doubtful) + 1) for some in itertools.combinations(doubtful, n)]
        self.wait_until(lambda: server.sums('shop') in possible)

    @unittest.skipUnless(Pyroscope.binary(), 'no Pyroscope')
    def test_pyroscope(self):
        with Pyroscope(self.scratch.name + '/server') as server:
            self.push_beside(server.url('pyroscope'))
            self.eventually(lambda: server.sums('shop'), self.of_files())

    @unittest.skipUnless(Pyroscope.binary(), 'no Pyroscope')
    def test_pyroscope_that_is_started_again(self):
        with Pyroscope(self.scratch.name + '/server') as server:
            self.push_through_restarts(server, server.url('pyroscope'), signal.SIGKILL)

    @unittest.skipUnless(Parca.binary(), 'no Parca')
    def test_parca(self):
        with Parca(self.scratch.name + '/server') as server:
            self.push_beside(server.url('parca'))
            self.eventually(lambda: server.sums('shop'), self.of_files(labels=lambda _: ()))

    @unittest.skipUnless(Parca.binary(), 'no Parca')
    def test_parca_that_is_started_again(self):
        with Parca(self.scratch.name + '/server') as server:
            self.push_through_restarts(server, server.url('parca'), signal.SIGTERM, labels=lambda _: ())

    @unittest.skipUnless(Parca.binary(), 'no Parca')
    def test_parca_scrapes_as_the_example_says(self):
        """What `work` did, which began after the first scrape: allocations, and waits for the locks that the example names."""
        with open(EXAMPLES + '/deploy/parca.yaml') as f:
            jobs = yaml.safe_load(f)['scrape_configs']
        [port] = free_ports(1)
        for job in jobs:
            self.assertEqual(job['static_configs'], [{'targets': ['127.0.0.1:6060']}])
            job.update(static_configs=[{'targets': ['127.0.0.1:%d' % port]}], scrape_interval='1s')
        Parca.scrape_configs = jobs
        begin, end = (os.path.join(self.scratch.name, name) for name in ('begin', 'end'))
        with self.start_locks('-o', 'listen=127.0.0.1:%d' % port, files=(begin, end)) as program, Parca(self.scratch.name + '/server') as server:
            try:
                self.wait_until(lambda: server.scraped() == {job['job_name'] for job in jobs})
                with open(begin, 'w'):
                    pass
                expected = {}

                def done():
                    got = {k: v for k, v in server.sums_of('work').items() if k[1] in ('alloc_space', 'alloc_objects', 'contentions', 'delay')}
                    files = self.of_files(labels=lambda labels: dict(labels).get('lock', ''), frame='work', kinds=SCRAPED)
                    expected.clear()
                    for (kind, name, lock), value in files.items():
                        if name.startswith('alloc') or lock in jobs[0]['params']['lock']:
                            expected[kind, name] = expected.get((kind, name), 0) + value
                    return got == expected and len(got) == 6
                self.wait_until(done)
            finally:
                with open(end, 'w'):
                    pass

    @unittest.skipUnless(Collector.binary(), 'no collector')
    def test_collector(self):
        with Collector(self.scratch.name + '/server') as server:
            self.run_locks('-o', 'events=on,push=' + server.url('otlp'))
            self.wait_until(lambda: not pushers(self.dir))
            self.eventually(lambda: server.sums('shop'), self.of_files(str, kinds=(*NAMES, 'events')))

    @unittest.skipUnless(Collector.binary(), 'no collector')
    def test_collector_takes_plain_pprof(self):
        with self.collector_of_pprof({'pprof': {'server': {}}}) as server:
            self.run_locks('-o', 'events=on,push=' + server.url('pprof'))
            self.wait_until(lambda: not pushers(self.dir))
            files = collections.Counter()
            for (_, name, labels), value in self.of_files(str, kinds=(*NAMES, 'events')).items():
                files[name, labels] += value
            self.eventually(server.sums_of_plain, files)

    @unittest.skipUnless(Collector.binary(), 'no collector')
    def test_collector_scrapes_as_the_example_says(self):
        with open(EXAMPLES + '/deploy/otel-collector.yaml') as f:
            receivers = yaml.safe_load(f)['receivers']
        [port] = free_ports(1)
        for receiver in receivers.values():
            self.assertIn('//127.0.0.1:6060/', receiver['remote']['endpoint'])
            receiver['remote'].update(endpoint=receiver['remote']['endpoint'].replace(':6060/', ':%d/' % port), collection_interval='1s')
        begin, end = (os.path.join(self.scratch.name, name) for name in ('begin', 'end'))
        program = self.start_locks('-o', 'listen=127.0.0.1:%d' % port, files=(begin, end))
        try:
            with self.collector_of_pprof(receivers) as server:
                self.wait_until(lambda: len({otlp.type_of(m, p)[0] for m in server.messages() for p in otlp.profiles(m)}) == 6)  # each cursor has begun
                with open(begin, 'w'):
                    pass

                def done():
                    files = collections.Counter()
                    for (_, name, labels), value in self.of_files(frame='work', kinds=SCRAPED).items():
                        files[name, labels] += value
                    got = server.sums_of_plain(frame='work')
                    flows = [{k: v for k, v in sums.items() if not k[0].startswith('inuse')} for sums in (got, files)]
                    return flows[0] == flows[1] and len(flows[0]) > 4
                self.wait_until(done)
        finally:
            for name in begin, end:
                with open(name, 'w'):
                    pass
            program.wait(200)

    def collector_of_pprof(self, receivers):
        server = Collector(self.scratch.name + '/server', receivers)
        try:
            server.start()
        except RuntimeError as error:
            server.close()
            if 'unknown type: "pprof"' in str(error):
                self.skipTest('this collector has no receiver of pprof')
            raise
        return contextlib.closing(server)


if __name__ == '__main__':
    unittest.main()
