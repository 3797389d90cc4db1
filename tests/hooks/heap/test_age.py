# SPDX-License-Identifier: MIT
"""The ages of blocks in use, and the lifetimes of freed blocks: `age=on` in files, ?age=1 of the endpoint."""
import http.client
import json
import os
import subprocess
import time

import check_profile
from harness import (BUILD, environment, free_port, main, new_directory, reader, three_tries, unless_busy, victim,
                     wait_for_server, wait_until)


class Victim:
    def __init__(self, conf):
        self.out, self.port, self.began_s = new_directory(), free_port(), time.monotonic()
        self.process = subprocess.Popen([victim('age')], env=environment(f'{conf},interval=1h,listen=127.0.0.1:{self.port}', self.out),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        wait_for_server(self.port, self.process)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def get(self, page):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
        c.request('GET', '/debug/pprof/' + page)
        r = c.getresponse()
        return r.status, r.read()

    def rows(self, page='heap?age=1'):
        status, body = self.get(page)
        assert status == 200, body
        return [(s.names[0], dict(s.labels).get('age'), list(s.values.values())) for s in reader.load(body).samples if s.names]

    def free_lent(self):
        self.process.stdin.write('x')
        self.process.stdin.flush()
        return [int(x) for x in self.process.stdout.readline().split()]

    def end(self):
        self.process.communicate('x', timeout=60)
        assert self.process.returncode == 0


def in_use(rows, function):
    """age -> (objects, bytes); a row without both has none in use."""
    ages = {age for name, age, v in rows if name == function and any(v[2:4])}
    return {age: tuple(map(sum, zip(*(v[2:4] for name, of, v in rows if name == function and of == age)))) for age in ages}


def lives(rows, function):
    return [sum(x) for x in zip(*(v[4:7] for name, age, v in rows if name == function))]


@three_tries
def that_the_ages_sum_to_the_whole_and_blocks_grow_older():
    with Victim('heap_rate=1,age=on') as v:
        wait_until(lambda: (100, 200000) in in_use(v.rows(), 'lends').values())  # the victim's last allocations
        rows = v.rows()
        unless_busy(time.monotonic() < v.began_s + 10, 'all blocks may be older than 10 s')
        assert in_use(rows, 'lends') == {'<10s': (100, 200000)}, rows
        assert all(age is None or not any(values[:2]) for _, age, values in rows), rows
        assert in_use(rows, 'keeps') == {'<10s': (100, 100000)}, rows
        v.free_lent()
        rows = v.rows()
        ages = in_use(rows, 'keeps')
        assert [sum(x) for x in zip(*ages.values())] == [200, 200000], ages
        assert len(ages) == 1 or ages['<10s'] == (100, 100000), ages
        whole = v.rows('heap?age=0')
        assert all(age is None and len(values) == 4 for _, age, values in whole), whole
        assert in_use(whole, 'keeps') == {None: (200, 200000)}, whole
        v.end()


def that_the_lifetimes_of_freed_blocks_are_known():
    with Victim('heap_rate=1,age=on') as v:
        assert lives(v.rows(), 'borrows')[0] == 100
        assert lives(v.rows(), 'lends') == [0, 0, 0]
        least, most = v.free_lent()
        freed, temporary, us = lives(v.rows(), 'lends')
        assert freed == 100 and temporary in (0, 100) and (temporary == 0 or least < 100 * 10**6), (freed, temporary)
        assert least - 100 * 1000 <= 1000 * us <= most + 100 * 1000, (least, us, most)
        v.get('delta_heap?cursor=a&age=1')
        assert lives(v.rows('delta_heap?cursor=a&age=1'), 'lends') in ([], [0, 0, 0])
        v.end()
        for path in reader.files(v.out):
            check_profile.check(path)
        assert reader.files(v.out)
        top = subprocess.run([os.path.join(BUILD, 'src/tool/cli/deltaprof'), 'top', '--json', '--type', 'alloc_space', '--columns',
                              'lifetime,temporary,freed_objects', v.out], stdout=subprocess.PIPE, check=True, timeout=60)
        row, = [r for r in json.loads(top.stdout)['rows'] if r['name'] == 'lends']
        assert (row['freed_objects'], row['temporary']) == (100, temporary / 100), row
        assert least / 100 - 1000 <= row['lifetime'] <= most / 100 + 1000, (row, least, most)


def that_the_endpoint_gives_ages_without_age_on():
    with Victim('heap_rate=2') as v:
        ages = wait_until(lambda: in_use(v.rows(), 'keeps'))
        assert len(ages) == 1 and None not in ages, ages
        assert all(len(values) == 4 for _, _, values in v.rows()), 'lifetimes are for age=on'
        v.free_lent()
        v.end()


def that_ages_are_refused_where_births_are_not_known():
    with Victim('heap_rate=1') as v:
        status, body = v.get('heap?age=1')
        assert status == 400 and b'age=on' in body, body
        status, body = v.get('heap?age=yes')
        assert status == 400 and body.startswith(b'age: 1, '), body
        v.free_lent()
        v.end()


main(globals())
