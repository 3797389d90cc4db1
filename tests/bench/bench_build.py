# SPDX-License-Identifier: MIT
"""What a build, and other short programs, cost under `deltaprof run`: every process that ends writes its profiles, and
names functions in large libraries. Processor time of all processes and elapsed time, with and without names. Arguments:
words of the names of the projects to run."""
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from alternate import BUILD, ROUNDS

DELTAPROF = os.path.join(BUILD, 'src/tool/cli/deltaprof')
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_FILE = '''#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
struct node { struct node *next; int value; char name[32]; };
int run_%d(int n)
{
    struct node *first = NULL;
    int sum = 0;
    for (int i = 0; i < n; i++) {
        struct node *node = malloc(sizeof *node);
        snprintf(node->name, sizeof node->name, "%%d", node->value = i);
        node->next = first;
        first = node;
    }
    for (struct node *next; first; first = next) {
        next = first->next;
        sum += first->value + (int)strlen(first->name);
        free(first);
    }
    return sum;
}
'''
MAKEFILE = '''objects = $(patsubst %.c,objects/%.o,$(wildcard *.c))
all: $(objects)
objects/%.o: %.c
\t@mkdir -p objects
\t$(CC) -c -O1 -o $@ $<
'''
RUST_MAIN = '''mod count;
fn main() {
    let text: String = std::env::args().collect::<Vec<_>>().join(" ");
    for (word, n) in count::words(&text) { println!("{word}: {n:?}"); }
}
'''
RUST_COUNT = '''use std::collections::{BTreeMap, HashMap};
#[derive(Debug, Clone, PartialEq)]
pub enum Kind { Word(String), Number(i64) }
pub fn words(text: &str) -> BTreeMap<String, Vec<Kind>> {
    let mut all = HashMap::new();
    for word in text.split_whitespace() {
        let kind = word.parse().map(Kind::Number).unwrap_or_else(|_| Kind::Word(word.to_string()));
        all.entry(word.to_lowercase()).or_insert_with(Vec::new).push(kind);
    }
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
    sorted.into_iter().collect()
}
'''


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)


def projects(where):
    """{name: (command, directory, what is removed before each run)}"""
    for i in range(6):
        write(f'{where}/c/file{i}.c', C_FILE % i)
    for i in range(100):
        write(f'{where}/make/file{i}.c', C_FILE % i)
    write(f'{where}/make/Makefile', MAKEFILE)
    write(f'{where}/rust/Cargo.toml', '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n')
    write(f'{where}/rust/src/main.rs', RUST_MAIN)
    write(f'{where}/rust/src/count.rs', RUST_COUNT)
    all_of_them = {
        'cc of 6 files': (['cc', '-c', '-O2', '-g', *[f'file{i}.c' for i in range(6)]], where + '/c', None),
        'git log --stat': (['git', '--no-pager', 'log', '--stat', '-100'], SOURCE, None),
        'sh of 1,000 commands': (['sh', '-c', 'for i in $(seq 1000); do /bin/true; done'], where, None),
        'make -j2 of 100 files': (['make', '-s', '-j2'], where + '/make', where + '/make/objects'),
        'python3 -c pass': (['/usr/bin/python3', '-c', 'pass'], where, None),
    }
    if shutil.which('cargo'):
        all_of_them['cargo build'] = (['cargo', 'build', '-q', '--offline'], where + '/rust', where + '/rust/target')
    return all_of_them


def once(command, directory, conf, out):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(([DELTAPROF, 'run', '-o', f'out={out},{conf}', '--'] if conf else []) + command, cwd=directory, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime), 1e3 * (time.monotonic() - begin)


with tempfile.TemporaryDirectory(prefix='deltaprof-bench-') as where:
    confs = {'without us': None, 'symbolize=none': 'symbolize=none', 'with names': 'symbolize=functions'}
    for name, (command, directory, removed) in projects(where).items():
        if not any(word in name for word in sys.argv[1:] or ['']):
            continue
        times = {c: [] for c in confs}
        for turn in range(ROUNDS):
            for c, conf in confs.items():
                if removed:
                    shutil.rmtree(removed, ignore_errors=True)
                out = os.path.join(where, 'profiles')
                times[c].append(once(command, directory, conf, out))
                shutil.rmtree(out, ignore_errors=True)
        for c, values in times.items():
            cpu, elapsed = zip(*values)
            print(f'{name} {c}: {statistics.median(cpu):.1f} ms of processor time ({min(cpu):.1f} to {max(cpu):.1f}), '
                  f'{statistics.median(elapsed):.1f} ms elapsed', flush=True)
sys.exit(0)
