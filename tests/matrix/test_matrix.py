# SPDX-License-Identifier: MIT
"""Programs x allocators x modes: a program's output and exit status are the same with and without deltaprof.

    test_matrix.py           small programs, two allocators, three modes (part of the tests)
    test_matrix.py long      all programs, allocators and modes: minutes
    test_matrix.py WORD...   of the long form, the cells whose names have all the words: `python mimalloc exact`

A cell compares a run with deltaprof and one without it, both under the same allocator; an allocator under which a program
does not run alone is left out. The files that deltaprof wrote must be valid profiles.
"""
import glob
import os
import subprocess
import sys
import time

import check_profile
import reader
from harness import BUILD, HOOKS, difference, new_directory, run, scratch

MATRIX = os.path.join(BUILD, 'tests/matrix')
HERE = os.path.dirname(os.path.abspath(__file__))
MODES = {
    'off': 'heap_rate=0,mutex_rate=0,block_rate=0',
    'sampled': 'interval=1s',
    'exact': 'heap_rate=1,mutex_rate=0,block_rate=0,interval=1s',
    'all': 'heap_rate=1,mutex_rate=1,block_rate=1ns,interval=50ms,listen=unix:{out}/socket',
}
PYTHON = '''
import hashlib, json, subprocess, threading, zlib
def work(i, to):
    rows = [{'key': str(n), 'value': [n] * 5} for n in range(3000)]
    to[i] = hashlib.sha256(zlib.compress(json.dumps(rows).encode())).hexdigest()
results = {}
threads = [threading.Thread(target=work, args=(i, results)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(results.items()), subprocess.run(['echo', 'a child'], capture_output=True, text=True).stdout)
'''
NODE = '''
const { Worker, isMainThread, parentPort } = require('worker_threads'), zlib = require('zlib');
const work = () => zlib.deflateSync(JSON.stringify([...Array(20000).keys()])).length;
if (isMainThread) {
    let left = 3, sum = work();
    for (let i = 0; i < 3; i++)
        new Worker(__filename).on('message', n => { sum += n; if (--left == 0) console.log(sum, require('child_process').execSync('echo a child').toString()); });
} else parentPort.postMessage(work());
'''
SQL = '''CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t SELECT i, 'row ' || i * 7919 % 100003 FROM n;
CREATE INDEX u ON t(b); SELECT count(*), max(b), sum(length(b)) FROM t;'''
C = '''#include <stdio.h>
#include <stdlib.h>
int main(void) { for (int i = 0; i < 10; i++) printf("%d\\n", rand()); }
'''


def there(*paths):
    return all(os.path.exists(path) for path in paths)


def victim(name):
    return os.path.join(MATRIX, 'matrix_' + name)


def written(name, text):
    path = os.path.join(scratch.name, name)
    with open(path, 'w') as f:
        f.write(text)
    return path


def small():
    plugin = os.path.join(HOOKS, 'libplugin.so')
    programs = {name: [victim(name)] for name in ('fibers', 'prefork', 'drops')}
    programs['iterate'] = [victim('iterate'), plugin]
    if there(victim('docker')):
        for name in 'prefork', 'drops', 'iterate':
            programs['docker ' + name] = [victim('docker'), *programs[name]]
    return programs


def large():
    programs = small()
    source, script = written('source.c', C), written('script.js', NODE)
    for name, path, words in (('sqlite', '/usr/bin/sqlite3', [':memory:', SQL]), ('python', '/usr/bin/python3', ['-c', PYTHON]),
                              ('gcc', '/usr/bin/gcc', ['-O2', '-g', '-S', '-o', '-', source]), ('node', '/usr/bin/node', [script]),
                              ('shell', '/bin/sh', ['-c', 'for i in 1 2 3 4 5 6 7 8 9; do seq $i | sort -rn | head -1; done; ls / | wc -l'])):
        if there(path):
            programs[name] = [path, *words]
    go = os.path.join(scratch.name, 'cgo')
    if subprocess.run(['sh', '-c', f'cd {scratch.name} && go build -o {go} {HERE}/cgo.go'], capture_output=True).returncode == 0:
        programs['cgo'] = [go]
    for name in 'python', 'node', 'cgo', 'gcc':
        if name in programs and there(victim('docker')):
            programs['docker ' + name] = [victim('docker'), *programs[name]]
    return programs


def allocators(long):
    found = {'glibc': [], 'locked': [os.path.join(MATRIX, 'liblocked.so')]}
    for name, pattern in (('jemalloc', 'libjemalloc.so.2'), ('tcmalloc', 'libtcmalloc_minimal.so.4'), ('mimalloc', 'libmimalloc.so*')):
        paths = sorted(glob.glob('/usr/lib/*/' + pattern))
        if long and paths:
            found[name] = paths[:1]
    return found


def check(path):
    """What is wrong with a profile; '' if nothing. makecontext(3) sets the return address of a coroutine's first function:
    there is no call before that address."""
    try:
        check_profile.check(path)
    except check_profile.Broken as failure:
        wrong = [line for line in str(failure).splitlines() if not ('libc.so' in line and 'is not the last byte of a call' in line)]
        return '\n'.join(wrong)
    return ''


def judge(argv, behind, mode, without):
    """What is wrong with a cell; '' if nothing."""
    out = new_directory()
    try:
        r = run(argv, MODES[mode].format(out=out), behind=behind, timeout=120, out=out)
    except subprocess.TimeoutExpired as failure:
        return f'it hangs: {failure.stdout}'
    said = [line for line in r.stderr.splitlines() if line.startswith('deltaprof[')]
    stderr = '\n'.join(line for line in r.stderr.splitlines() if not line.startswith('deltaprof['))
    if r.status != without.status:
        return f'status {r.status} for {without.status}; {r.stdout[-200:]} {r.stderr[-300:]}'
    if r.stdout != without.stdout or stderr != without.stderr.strip('\n'):
        return difference(without.stdout + without.stderr, r.stdout + stderr) + ' '.join(said[:3])
    if mode == 'off' and said:
        return f'off, it says {said[:3]}'
    for kind in ('heap', 'mutex', 'block'):
        for path in reader.files(out, kind)[:4]:
            wrong = check(path)
            if wrong:
                return wrong
    return ''


def main(words):
    long = bool(words)
    words = [] if words == ['long'] else words
    programs, modes = (large(), list(MODES)) if long else (small(), ['off', 'sampled', 'all'])
    n_good = n_bad = 0
    for program, argv in programs.items():
        for allocator, behind in allocators(long).items():
            names = [(mode, f'{program} {allocator} {mode}') for mode in modes]
            names = [(mode, name) for mode, name in names if all(word in name.split() for word in words)]
            if not names:
                continue
            try:
                without = run(argv, preload=False, behind=behind, timeout=120)
            except subprocess.TimeoutExpired:
                without = None
            if not without or without.status:
                print('left out:', program, 'does not run under', allocator, 'alone', without and (without.status, without.stderr[-200:]))
                continue
            for mode, name in names:
                began = time.monotonic()
                wrong = judge(argv, behind, mode, without)
                n_good, n_bad = n_good + (not wrong), n_bad + bool(wrong)
                print('FAIL' if wrong else 'ok  ', name, f'({time.monotonic() - began:.1f} s)', wrong, flush=True)
    print(f'{n_good} passed, {n_bad} failed')
    sys.exit(n_bad != 0 or not n_good)


main(sys.argv[1:])
