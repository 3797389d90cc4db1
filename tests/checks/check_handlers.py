# SPDX-License-Identifier: MIT
"""What runs in a signal handler, in a hook, in `_exit` or around a fork calls nothing that allocates, waits for a lock,
uses stdio, enters the loader or reads the environment: this walks the calls of both linked libraries.

    check_handlers.py CC CORE.so PRELOAD.so INCLUDE

A function counts as called where another one calls it, jumps to it or takes its address. A call through a pointer must be
written down in POINTERS. A function of libc must be in SAFE. The walk stops at the functions in DOORS, each for the
reason that stands beside it.
"""
import os
import platform
import re
import subprocess
import sys
import tempfile
import unittest

CC = sys.argv[1:-3]
CORE, PRELOAD, INCLUDE = sys.argv[-3:]

# Functions and variables of libc that are safe in a signal handler: by POSIX, or because glibc's do no more than make a
# system call or compute.
SAFE = set('''
bcmp memchr memcmp memcpy memmove memset stpcpy stpncpy strchr strchrnul strcmp strcpy strcspn strlen strncmp strncpy strnlen
strrchr strspn strstr strerrorname_np __memcpy_chk __strcpy_chk __stack_chk_fail __errno_location malloc_usable_size
__libc_single_threaded __libc_stack_end _dl_find_object getauxval getpid getppid geteuid gettid sched_getcpu sched_yield
syscall uname access chdir close fcntl64 fstat64 fstatat64 isatty linkat lseek64 madvise mincore mkdir mmap64 mremap munmap open64 openat64 poll
pread64 read readlink renameat2 stat64 unlink unlinkat write
pthread_getspecific pthread_self pthread_setspecific pthread_sigmask pthread_testcancel raise sigaction sigaddset sigdelset sigemptyset sigfillset
sigismember __memset_chk __memmove_chk __stpncpy_chk __strncpy_chk __read_chk __pread64_chk __readlink_chk __poll_chk __open64_2
__openat64_2
'''.split())  # the key is one of the first 32, which live in the thread itself

# Ours, but not entered.
MAY_WAIT = 'only in a report or a tick that may wait; one in a handler may not (DP_WRITE_NO_WAIT)'
ONE_THREAD = 'only in a process with one thread, at the outer edge of a sampled malloc'
ORDINARY = 'before a call of the program that is none for a handler and where the program may wait'
DOORS = {
    'dp_symbols_find': MAY_WAIT,
    'dp_symbols_close': MAY_WAIT,
    'dp_symbols_load': MAY_WAIT,
    'dp_gzip_load': MAY_WAIT,
    'dp_waits_worst': MAY_WAIT,
    'dp_resident_jemalloc_read': MAY_WAIT,
    'dp_symbols_loader_sync': MAY_WAIT,
    'dp_report_find_published_trace': MAY_WAIT,
    'dp_unwind_load_module': MAY_WAIT,
    'dp_agent_start': ONE_THREAD,
    'dp_agent_helper_run': 'clones a prepared thread; in a process with one thread, as dp_agent_start',
    'dp_commands_run': 'only in a thread of its own',
    'dp_http_listen_start': ONE_THREAD,
    'deltaprof_announce_hooks': 'in the constructor',
    'deltaprof_before_handlers': ORDINARY,
    'deltaprof_start_preloaded': 'in the constructor',
    'deltaprof_heap_register': 'where a runtime starts',
    'deltaprof_frames_provide': 'where a runtime starts',
    'deltaprof_python_wanted': 'where a runtime starts',
    'deltaprof_python_attach': 'where a runtime starts',
    'deltaprof_say': 'where a runtime starts',
    'deltaprof_say_info': 'where a runtime starts',
    'deltaprof_inside_wanted': 'where a runtime starts',
    'deltaprof_size_classes': 'where a runtime starts',
    'deltaprof_jemalloc': 'where a runtime starts',
    'deltaprof_before_thread_create': ORDINARY,
    'deltaprof_before_thread_exit': ORDINARY,
    'dp_real_look_up': ORDINARY,
    'deltaprof_before_seccomp': ORDINARY,
    'deltaprof_before_tsc_trap': ORDINARY,
    'deltaprof_stop_agent': ORDINARY,
    'deltaprof_restrict_begin': ORDINARY,
    'deltaprof_restrict_end': ORDINARY,
    'deltaprof_resume': ORDINARY,
    'deltaprof_emit': 'before daemon()',
}

# Where pointers lead to that are called, by the name of the function that calls. Compilers differ in what they inline, so
# a whole file shares a line. In the preload object every pointer is the real function behind a hook.
SOURCES = [f'heap_source.c:{f}' for f in 'period prepare add_more skip commit restart free_more free_delivered add_values'.split()] + [
    f'lock_source.c:{f}' for f in 'leaf block_prepare mutex_summary block_summary chain_summary is_filtered mutex_lock_of block_lock_of chain_lock_of'.split()] + [
    'dp_lock_rows_scan', 'lock_source.c:tower', 'wall_source.c:settle', 'wall_source.c:state', 'wall_source.c:is_idle', 'dp_wait_count_under_way', 'dp_heap_inherited_read']
POINTERS = {
    r'dp_emit|emit\.c:\w+|event_profile\.c:\w+|dp_report_events_write': [
        'table_source.c:stack', 'table_source.c:ahead', 'table_source.c:labels', *SOURCES],
    r'dp_encode_\w+|encode\w*\.c:\w+': ['dp_gzip_write', 'dp_agent_file_write'],
    r'dp_delta_scan|dp_delta_visit|delta\.c:\w+': ['delta.c:count', 'delta.c:add_row', *SOURCES],
    r'lock_source\.c:\w+|dp_consumer_\w+|profile\.c:\w+|dp_kind_source_\w+|dp_report_table_\w+|table_source\.c:\w+': SOURCES,
    r'dp_gzip_\w+|gzip\.c:\w+': ['dp_agent_file_write'],  # and the gzip module: its library takes the memory that it is given
    r'dp_log\w*|log\.c:\w+': [],  # the program's callback, which is not called in a handler (dp_log_bypass)
    r'dp_stack_cache_verify|stack_cache\.c:\w+': [],  # one of two functions that stand beside it
    r'dp_waiting_end|waiting\.c:\w+': ['threads.c:receive_wait'],
    r'dp_cpu_add_synthetic|timers\.c:\w+|handler\.c:\w+|dp_cpu_handle': ['threads.c:receive_sample'],
    r'dp_cpu_proc_threads|proc\.c:\w+': ['watch.c:enter_thread'],
    r'dp_io_each_name|dp_task_list|io\.c:\w+|task\.c:\w+': [
        'profile_file.c:look_at_name', 'sweep.c:look_at_name', 'task.c:pass_number', 'proc.c:add_thread'],
    r'dp_heap_peak_\w+|peak\.c:\w+': ['peaks.c:note_peak'],
    r'dp_agent_peaks_\w+|peaks\.c:\w+': ['agent.c:wake'],
    r'dp_clock_read|dp_clock_moment|clock\.c:\w+': ['clock.c:look_up', 'clock.c:ask_kernel'],  # and the function of the kernel's object
    r'thread\.c:thread_ends': ['dp_waiting_thread_ends'],
    r'dp_record_fork_\w+|record\.c:\w+': ['dp_heap_inherited_begin'],
    r'dp_shared_open_gate': ['record.c:open_gate'],
    r'dp_onstack_call': [],  # the callers take the address
    r'shared_signal\.c:\w+': [],  # libc's handler of its signal, called as libc asked for
    r'tick_signal\.c:on_shared': [],  # the program's own handler
    r'dp_agent_request_action|dp_agent_signals_action|dp_agent_signals_stack|deltaprof_sigaction|deltaprof_sigaltstack': [],  # the real functions
    r'dp_provided_merge|provided\.c:\w+': [],  # a runtime's provider, which frames.h binds to a hook's rules
    r'dp_libunwind_walk|libunwind\.c:\w+': [],  # libunwind, which allocates nothing with accessors of ours
}

# What runs in a handler, around a fork or at the end of a thread beside what the headers and the preload object export.
ENTRIES = ['signals.c:on_fatal', 'signals.c:on_crash', 'tick_signal.c:on_default', 'tick_signal.c:on_shared', 'fork_handlers.c:fork_prepare',
           'fork_handlers.c:fork_parent', 'fork_handlers.c:fork_child', 'thread.c:thread_ends', 'shared_signal.c:on_signal', 'timers.c:key_ends',
           'dp_cpu_settle', 'dp_cpu_cancelled']

# Functions that are called through a pointer which the walk does not see: hooks of an allocator inside the program and of
# Python's allocators, Python's frames, its handler of a fork in the child, the personality routine of the hooks, the end of
# main. The functions for labels are declared in deltaprof.h, but a signal handler may call them.
ENTRIES += ['inside_jemalloc.c:on_alloc', 'inside_jemalloc.c:on_expand', 'inside_jemalloc.c:on_free', 'inside_tcmalloc.c:on_alloc',
            'inside_tcmalloc.c:on_free', 'heap.c:hook_malloc', 'heap.c:hook_calloc', 'heap.c:hook_realloc', 'heap.c:hook_free',
            'dp_python_frames', 'dp_python_labels_of', 'dp_python_trace_of', 'dp_python_line_of', 'fork.c:in_child', 'guard.c:unwound',
            'process.c:main_ends', 'deltaprof_label_push', 'deltaprof_label_pop', 'deltaprof_labels_swap', 'deltaprof_trace_set']


def run(*command):
    return subprocess.run(command, check=True, text=True, capture_output=True).stdout


class Library:
    """calls: by address of a function, the addresses and names that it refers to, and whether it calls a pointer."""

    def __init__(self, path):
        self.path, self.calls, self.names, self.files, self.exported = path, {}, {}, {}, {}
        self.read_symbols()
        self.read_code()

    def read_symbols(self):
        file = ''
        for line in run('readelf', '-sW', '--', self.path).splitlines():
            fields = line.split()
            if len(fields) < 7 or not fields[0][:-1].isdigit():
                continue
            kind, binding, section, name = fields[3], fields[4], fields[6], fields[7] if len(fields) > 7 else ''
            if kind == 'FILE':
                file = name
            if kind in ('FUNC', 'IFUNC') and section != 'UND':
                address, name = int(fields[1], 16), name.split('@')[0]
                self.names[address] = name
                self.files.setdefault(address, file if binding == 'LOCAL' else '')
                if binding != 'LOCAL':
                    self.exported[name] = address

    def read_code(self):
        here, before = None, []
        for line in run('objdump', '-d', '--no-show-raw-insn', '--', self.path).splitlines():
            if head := re.match(r'([0-9a-f]+) <(.*)>:$', line):
                here = int(head[1], 16)
                self.names.setdefault(here, head[2])
                self.calls[here] = {'to': set(), 'pointer': False}
            elif here is not None and '\t' in line:
                code = line.split('\t', 1)[1]
                for address, name in re.findall(r'([0-9a-f]+) <([^>]*)>', code):
                    plt = re.match(r'([^@]+)@plt$', name)
                    if plt:
                        self.calls[here]['to'].add(plt[1])
                    elif int(address, 16) in self.names and int(address, 16) != here:
                        self.calls[here]['to'].add(int(address, 16))
                    elif '@GLIBC' in name:
                        self.calls[here]['to'].add(name.split('@')[0])
                # A switch loads an offset from its table before it jumps.
                switch = any(c.startswith('movslq') for c in before)
                if re.match(r'(bnd )?call +\*', code) or (re.match(r'(bnd |notrack )?jmp +\*', code) and not switch):
                    self.calls[here]['pointer'] = True
                before = before[-5:] + [code]


def walk(libraries, entries, pointers, doors=DOORS, safe=SAFE):
    """entries: (library, address). Returns what is wrong, a line each, with the way there."""
    wrong, came, pending = [], {}, []

    def title(at):
        library, address = at
        file = library.files.get(address, '')
        return (file + ':' if file else '') + re.sub(r'\.(part|constprop|isra|cold).*', '', library.names[address])

    def way(at):
        steps = []
        while at:
            steps.append(title(at))
            at = came[at]
        return ' <- '.join(steps)

    def enter(at, by):
        if at not in came and title(at) not in doors:
            came[at] = by
            pending.append(at)

    for entry in entries:
        enter(entry, None)
    while pending:
        at = pending.pop(0)
        library, address = at
        of = library.calls.get(address)
        if not of:
            continue
        targets = set(of['to'])
        if of['pointer']:
            known = [to for name, to in pointers.items() if re.fullmatch(name, title(at))]
            if known:
                targets |= set(known[0])
            elif library.path != PRELOAD:
                wrong.append('an unknown pointer is called: ' + way(at))
        for target in targets:
            if isinstance(target, int):
                enter((library, target), at)
                continue
            found = [(l, a) for l in libraries for a, name in l.names.items()
                     if target in (name, l.files.get(a, '') + ':' + name) and a in l.calls and not name.endswith('@plt')]
            for other in found:
                enter(other, at)
            if not found and target not in safe and not target.startswith('__asan'):
                wrong.append(f'{target} is called: ' + way(at))
    return wrong, {title(at) for at in came}


class Handlers(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if platform.machine() != 'x86_64':
            self.skipTest('the disassembly of x86_64 is read')

    def test_nothing_unsafe_is_called(self):
        core, preload = Library(CORE), Library(PRELOAD)
        declared = set()
        for name in ('thread', 'heap', 'locks', 'frames', 'interpose'):  # what hooks.h includes
            with open(f'{INCLUDE}/deltaprof/{name}.h') as f:
                declared |= set(re.findall(r'\b(deltaprof_\w+)\(', f.read()))
        by_title = {(l.files[a] + ':' if l.files.get(a) else '') + n: (l, a)
                    for l in (core, preload) for a, n in l.names.items() if a in l.calls}
        if 'signals.c' not in core.files.values():
            self.skipTest('link-time optimization left no names of files')
        entries = [(core, core.exported[n]) for n in sorted(declared & set(core.exported))]
        entries += [by_title[n] for n in ENTRIES]
        entries += [(preload, a) for n, a in sorted(preload.exported.items())]
        wrong, reached = walk([core, preload], entries, POINTERS)
        self.assertEqual(wrong, [])
        self.assertEqual([d for d in DOORS if d not in (*core.names.values(), *preload.names.values())], [])
        # The walk is not blind: what it must see on its way is there.
        for name in ('dp_agent_tick_last', 'tick.c:write_last', 'dp_agent_file_write', 'dp_symbols_cached', 'dp_unwind_walk'):
            self.assertIn(name, reached)

    def test_a_bad_call_is_found(self):
        source = '''
            #include <stdlib.h>
            #include <stdio.h>
            #include <pthread.h>
            #include <dlfcn.h>
            static pthread_mutex_t mutex;
            void *volatile kept;
            __attribute__((noinline)) static void deep(int n) { kept = malloc(n); }
            __attribute__((noinline)) static void step(int n) { deep(n); kept = 0; }
            void bad_malloc(int n) { step(n); kept = 0; }
            void bad_lock(void) { pthread_mutex_lock(&mutex); kept = 0; }
            void bad_stdio(void) { puts("x"); kept = 0; }
            void bad_loader(void) { kept = dlsym(0, "x"); }
            static void taken(void) { kept = getenv("X"); }
            void bad_address(void (**to)(void)) { *to = taken; }
            void bad_pointer(void (*fn)(void)) { fn(); kept = 0; }
            void bad_tail(void (*fn)(void)) { kept = 0; fn(); }
            void good(int n) { kept = &mutex; }
        '''
        with tempfile.TemporaryDirectory() as where:
            path = os.path.join(where, 'bad')
            with open(path + '.c', 'w') as f:
                f.write(source)
            subprocess.run([*CC, '-O2', '-fPIC', '-shared', '-o', path + '.so', path + '.c', '-ldl', '-lpthread'], check=True)
            bad = Library(path + '.so')
        for name, words in (('malloc', 'malloc is called: bad.c:deep <- bad.c:step <- bad_malloc'), ('lock', 'pthread_mutex_lock is'),
                            ('stdio', 'puts is'), ('loader', 'dlsym is'), ('address', 'getenv is called: bad.c:taken <- bad_address'),
                            ('pointer', 'an unknown pointer'), ('tail', 'an unknown pointer')):
            wrong, _ = walk([bad], [(bad, bad.exported['bad_' + name])], {})
            self.assertTrue(len(wrong) == 1 and wrong[0].startswith(words), (name, wrong))
        self.assertEqual(walk([bad], [(bad, bad.exported['good'])], {})[0], [])



if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
