# SPDX-License-Identifier: MIT
"""What can be seen by reading the tree: licence lines, one top level, includes that obey the arrows, no loose ends.
`check_tree.py TOP arrows` prints how many rooms and arrows there are, and which of them are in a circle."""
import os
import re
import shutil
import subprocess
import sys
import unittest
from collections import Counter

TOP = sys.argv[1]
SHARED = {  # a room and what it may include beside itself and the public headers
    'base': [],
    'config': ['base', 'profile', 'tmpfs'],
    'view': [],
    'binary': [],
    'pprof': ['base'],
    'profile': ['base'],
    'tmpfs': ['base', 'profile'],
    'endpoint': ['base', 'config', 'pprof', 'profile', 'view'],
}
# Outside hooks, rooms of the host may include all that stands before them in this table. A subject (heap, locks) has two
# halves: its hook half stands here, the rest of it in REPORT_HALF.
HOST = {
    'shared': ['base', 'config', 'tmpfs', 'profile'],
    'objects': ['base', 'shared'],
    'unwind': ['base', 'config', 'shared', 'objects'],
    'thread': ['base', 'profile'],
    'table': ['base', 'tmpfs', 'profile', 'shared', 'objects', 'unwind', 'thread'],
    'heap': ['base', 'config', 'tmpfs', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table'],
    'locks': ['base', 'config', 'tmpfs', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table'],
    'cpu': ['base', 'config', 'tmpfs', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table'],
    'wall': ['base', 'config', 'tmpfs', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table', 'locks', 'cpu'],
    'symbols': ['base', 'config', 'pprof', 'objects'],
    'resident': ['base', 'profile', 'table', 'heap'],
    'report': ['base', 'config', 'tmpfs', 'pprof', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table', 'symbols', 'resident'],
    'records': ['base', 'config', 'pprof', 'profile', 'objects', 'unwind', 'thread', 'symbols', 'report'],
    'agent': ['base', 'config', 'tmpfs', 'pprof', 'profile', 'shared', 'unwind', 'thread', 'table', 'heap', 'locks', 'cpu', 'wall', 'symbols', 'report'],
    'http': ['base', 'config', 'pprof', 'profile', 'view', 'endpoint', 'thread', 'table', 'heap', 'locks', 'cpu', 'report', 'agent'],
    'api': ['base', 'config', 'tmpfs', 'binary', 'pprof', 'profile', 'shared', 'objects', 'unwind', 'thread', 'table', 'heap', 'locks', 'cpu', 'wall', 'symbols', 'resident', 'report', 'records',
            'agent', 'endpoint', 'http'],
}
REPORT_HALF = {
    'heap': HOST['heap'] + ['pprof', 'symbols', 'resident', 'report'],
    'locks': HOST['locks'] + ['pprof', 'symbols', 'report'],
    'cpu': HOST['cpu'] + ['pprof', 'symbols', 'report'],
    'wall': HOST['wall'] + ['pprof', 'symbols', 'report'],
}
TOOL = {
    'model': ['base', 'pprof', 'profile'],
    'query': ['base', 'pprof', 'profile', 'model'],
    'leaks': ['base', 'pprof', 'profile', 'model', 'query'],
    'pack': ['base', 'pprof', 'profile', 'model', 'query'],
    'rss': ['base', 'config', 'pprof', 'profile', 'model', 'query'],
    'pgo': ['base', 'pprof', 'profile', 'model', 'query'],
    'formats': ['base', 'pprof', 'profile', 'model', 'query'],
    'push': ['base', 'pprof', 'profile', 'model', 'query', 'formats'],
    'recover': ['base', 'tmpfs', 'pprof', 'profile', 'query'],
    'summary': ['base', 'pprof', 'profile', 'model', 'query', 'leaks', 'rss'],
    'run': ['base', 'tmpfs', 'binary', 'config', 'query', 'recover'],
    'serve': ['base', 'tmpfs', 'config', 'pprof', 'profile', 'view', 'endpoint', 'model', 'query', 'recover'],
    'cli': ['base', 'tmpfs', 'binary', 'config', 'pprof', 'profile', 'view', 'model', 'query', 'leaks', 'pack', 'rss', 'pgo', 'formats', 'recover', 'summary', 'run', 'serve'],
}
WINGS = {'host': HOST, 'tool': TOOL}
# A shared name begins with dp_ and its room. Rooms of several subjects, each a file or two, may name the subject instead. The longest
# subject that a name begins with tells its room: dp_lock_rows_scan is in host/locks, dp_lock_lock in base.
SUBJECTS = {
    'base': 'beacon clock cpu_has elf epoch futex glob hash io libc lock log mem module page pipe process quiet relay stat stats symbol_line symbol_ranges symbolize_ops tallies tally task '
            'text vma',
    'config': 'address lock_kinds python_mode symbolize types unwind_mode',
    'pprof': 'decode encode gzip index stamp strings wire',
    'profile': 'kind lock_kind',
    'tmpfs': 'control tables',
    'endpoint': 'openmetrics http_access http_reply http_request http_server http_socket',
    'modules': 'demangle elffile elfsymbols http_survive http_upload http_uploads session',
    'host/objects': 'frame frames function functions id loaded loader object own_stack reach',
    'host/unwind': 'bare_code cfi instruction interrupted known libunwind native_stack provided recent_place recent_stack recent_stacks registered rule sibling stack stack_cache unwinder walk',
    'host/table': 'counts events label labels record timed_event trace trace_context',
    'host/locks': 'at_pipe captures chain closed contended ended_reader futex_class futex_lock_of futex_next futex_set_verdict futex_verdict holder last_unlock lock_frame_called lock_seen '
                  'lock_frames lock_learn lock_rows pairing wait waiter waiters waiting waits',
    'host/thread': 'tids',
    'host/cpu': 'address_baseline address_delivered address_delta address_deltas address_rows',
    'host/report': 'baseline columns consumer delta dump_memory emission emit fold kind_source kind_state line_function line_functions '
                   'location locations profile_info row rows totals window_edge write_flags',
    'host/api': 'commands core outside record_fork_child record_fork_parent record_fork_prepare record_init record_tune',
}
# Numbers that look like a page, and are none: a part of the line, and what it is.
NO_PAGES = {
    r'\bchar \w+\[4096\]': 'a buffer',
    r'_BYTES +=? ?4096|_MAX +=? ?4096|\w+_BITS +=? ?4096u?|N_CLASSES = 4096|LISTS = 4096|\b(ROWS|WORDS|KNOWN) = 4096|_SLOTS 4096|_EVENTS +4096|'
    r'_SETS +4096': 'a limit, or a number of entries',
    r'i < 4096; i\+\+|len\(_\w+\) [<>]=? 4096': 'the same',
    r'\* 4096;|wrapping_mul\(4096\)': 'the step of a hash',
    r'<< 12 \||>> 12 \||c >> 12|0xfff\) \* 8': 'bits of a rule, of an instruction, of a character',
    r'~\(uintptr_t\)4095\) \+ \(uintptr_t\)\(\(int64_t\)\(pages': 'what the instruction ADRP calls a page',
    r'address << 12 \| class': 'a key',
    r'DP_WRITE_OWN = 1 << 12': 'a flag',
    r'define DELTAPROF_PAGE_BYTES 4096u': 'of addresses, where sampled blocks begin',
}
TOP_LEVEL = {'include', 'src', 'runtime_hooks', 'tests', 'examples', 'meson.build', 'README.md', 'LICENSE', 'meson_options.txt'}
MOST_LINES, MOST_FILES = 500, 40  # of a file, in a room
OPEN_ENDS = re.compile('|'.join(['TO' + 'DO', 'FIX' + 'ME', '(?<!X)XX' + 'X(?!X)', r'\bHA' + r'CK\b', r'/wo' + 'rk/', r'\.\./sha' + 'red',
                                 r'(DESIGN|STYLE|PPROF|CONFORMANCE|INTERPOSING)' + r'\.md']))


def tracked():
    if shutil.which('git'):
        git = subprocess.run(['git', '-C', TOP, 'ls-files'], text=True, capture_output=True)
        if git.returncode == 0 and git.stdout:
            return git.stdout.split('\n')[:-1]
    everything = [os.path.relpath(os.path.join(d, f), TOP) for d, _, names in os.walk(TOP) for f in names]
    return [f for f in everything if not re.match(r'(build[^/]*|\.git)/', f) and '__pycache__' not in f]


FILES = [f for f in tracked() if os.path.isfile(os.path.join(TOP, f))]


def text(name):
    with open(os.path.join(TOP, name), encoding='utf-8', errors='replace') as f:
        return f.read()


def room_of(name):
    """The room of a file in src, given from src on: base, host/table, tool/cli."""
    parts = name.split('/')
    return '/'.join(parts[:2] if parts[0] in WINGS else parts[:1])


def allowed(room, table=None):
    """The rooms whose headers the files of a room may include."""
    wing, _, name = room.rpartition('/')
    if not wing:
        return {room, *SHARED[room]}
    return {room, *(r if r in SHARED else f'{wing}/{r}' for r in (table or WINGS[wing])[name])}


def hook_half(room):
    """The sources of the hook half of a subject."""
    listed = re.search(rf'^{room}_hook_sources = files\((.*?)^\)', text(f'src/host/{room}/meson.build'), re.M | re.S)
    return [f'src/host/{room}/{f}' for f in re.findall(r"'(\w+\.c)'", listed.group(1))]


def closure(name, seen):
    """All files of src that a file includes, through others too."""
    for quote, path in includes(name):
        if quote == '"' and 'src/' + path not in seen:
            seen.add('src/' + path)
            closure('src/' + path, seen)
    return seen


def shared_names(header):
    """The functions, types and variables that a header of src declares."""
    code = re.sub(r'/\*.*?\*/', ' ', text(header), flags=re.S)
    names = set(re.findall(r'^\w[^\n;{}=]*?\b(dp_\w+)\s*\(', code, re.M)) | set(re.findall(r'^(?:struct|enum|union) (dp_\w+) \{', code, re.M))
    names |= set(re.findall(r'^extern [^;({]*[ *](dp_\w+)(?: DP_\w+|\[\w+\])*;', code, re.M))
    return names | set(re.findall(r'^typedef [^;]*\(\*(dp_\w+)\)', code, re.M))


def includes(name):
    return re.findall(r'^\s*#\s*include\s*([<"])([^">]+)[">]', text(name), re.M)


# Verbs without an object say too little, in static functions too: `put` fills a slot, `say` prints a line, `keep` adds a row.
VAGUE = re.compile(r'(put|take|say|keep|give|look|note|tell|hold|forget|leave|meet|forgive|carve|give_back|leave_out|stand_aside)s?')


class Tree(unittest.TestCase):
    def test_the_top_level_is_a_short_list_of_rooms(self):
        names = {f.split('/')[0] for f in FILES}
        self.assertEqual({n for n in names if n[0] != '.'} - TOP_LEVEL, set())

    def test_pages_have_the_size_that_the_kernel_gives_them(self):
        page = re.compile(r'\b(4096|4095|0x1000|0xfff)(u?l?)\b|PAGE_?SIZE|AT_PAGESZ|(<<|>>) ?12\b|\b4u? << 10\b|\b1u?l? << 12\b')
        allowed = [re.compile(a) for a in NO_PAGES]
        found = {f'{f}: {line.strip()}' for f in FILES if re.match(r'(src|runtime_hooks|include)/.*\.(c|h|cc|rs|py|in|build)$', f)
                 for line in text(f).split('\n') if page.search(line) and not any(a.search(line) for a in allowed)}
        self.assertEqual(found, {
            'src/base/mem.h: #define DP_PAGE_LEAST 4096', 'src/base/mem.h: return getauxval(AT_PAGESZ);',
            'runtime_hooks/preload/map.c: return n && (uintptr_t)start % getauxval(AT_PAGESZ) == 0;',  # includes no room of src
            'src/host/resident/jemalloc.c: #define ALL_ARENAS "stats.arenas.4096."',  # a name of jemalloc's
            'src/tool/query/files.c: size_t least = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);',
        })

    def test_nothing_that_is_built_is_in_the_tree(self):
        self.assertEqual([f for f in FILES if re.search(r'__pycache__|\.(pyc|o|a|so|orig|rej)$', f)], [])

    def test_every_source_begins_with_its_licence_and_says_what_it_is(self):
        for name in FILES:
            if not re.search(r'\.(c|h|cc|py|sh)$', name):
                continue
            head = text(name)[:400]
            with self.subTest(name):
                self.assertTrue('SPDX-License-Identifier: MIT' in head.split('\n\n')[0], 'no licence line')
                if name.endswith('.h'):
                    self.assertTrue(re.search(r'(?m)^#pragma once$|X-macro', text(name)), 'no #pragma once')

    def test_includes_obey_the_arrows(self):
        wrong = []
        for name in FILES:
            if not re.search(r'\.(c|h)$', name):
                continue
            parts = name.split('/')
            ours = [path for quote, path in includes(name) if quote == '"']
            if parts[:2] == ['src', 'modules']:
                seams = [i for i in ours if not i.startswith(('base/', 'modules/'))]
                wrong += [(name, i) for i in seams[1:]]  # beside the base, the header of the seam that it fills
            elif parts[0] == 'src' and parts[1] != 'base':
                room = room_of(name[4:])
                table = REPORT_HALF if parts[1] == 'host' and parts[2] in REPORT_HALF else None
                wrong += [(name, i) for i in ours if room_of(i) not in allowed(room, table)]
            elif parts[0] == 'src':
                wrong += [(name, i) for i in ours if not i.startswith('base/')]
            elif parts[0] in ('runtime_hooks', 'examples'):
                wrong += [(name, i) for i in ours if '/' in i]
            elif parts[0] == 'include':
                wrong += [(name, i) for i in ours]
        self.assertEqual(wrong, [])

    def test_the_hook_half_of_a_subject_includes_nothing_of_its_report_half(self):
        for room in REPORT_HALF:
            sources = hook_half(room)
            above = {os.path.splitext(f)[0] for f in FILES if re.match(rf'src/host/{room}/\w+\.c$', f)} - {os.path.splitext(f)[0] for f in sources}
            self.assertTrue(sources and above, room)
            for name in sources:
                found = closure(name, set())
                self.assertEqual([f for f in found if room_of(f[4:]) not in allowed('host/' + room) or os.path.splitext(f)[0] in above], [], name)

    def test_a_shared_name_begins_with_its_room(self):
        rooms = {room_of(f[4:]) for f in FILES if re.match(r'src/.*\.h$', f)}
        homes = {f'dp_{room.split("/")[-1]}_': {room} for room in rooms}
        for room, subjects in SUBJECTS.items():
            for subject in subjects.split():
                homes.setdefault(f'dp_{subject}_', set()).add(room)
        self.assertEqual({p: r for p, r in homes.items() if len(r) > 1}, {})
        wrong, used = [], set()
        for header in (f for f in FILES if re.match(r'src/.*\.h$', f)):
            for name in shared_names(header):
                home = max((p for p in homes if (name + '_').startswith(p)), key=len, default=None)
                used.add(home)
                if home is None or room_of(header[4:]) not in homes[home]:
                    wrong.append(f'{header}: {name}')
        self.assertEqual(sorted(wrong), [])
        self.assertEqual(sorted(f'dp_{s}_' for subjects in SUBJECTS.values() for s in subjects.split() if f'dp_{s}_' not in used), [])

    def test_static_functions_say_what_they_do(self):
        names = {f'{f}: {n}' for f in FILES if re.match(r'(src|runtime_hooks)/.*\.[ch]$', f)
                 for n in re.findall(r'^(?:DP_\w+ )?static [^\n;={]*?\b(\w+)\(', text(f), re.M) if VAGUE.fullmatch(n)}
        self.assertEqual(names, set())

    def test_no_wing_includes_the_other(self):
        tool = [(f, i) for f in FILES if re.match(r'src/tool/.*\.[ch]$', f) for _, i in includes(f) if i.startswith('host/')]
        host = [(f, i) for f in FILES if re.match(r'src/host/.*\.[ch]$', f) for _, i in includes(f) if i.startswith('tool/')]
        self.assertEqual(tool + host, [])

    def test_a_program_with_more_rights_than_its_user_takes_no_orders_from_the_environment(self):
        names = [f for f in FILES if f.endswith('.c') and re.match(r'src/(?!tool/(?!formats/))|runtime_hooks/', f)]
        self.assertEqual([f for f in names if re.search(r'(?<![a-z_])getenv\(|\benviron\b', text(f))], [])

    def test_atomics_go_through_one_header(self):
        # What the public headers declare is plain memory, because C++ reads them: only that may be named otherwise.
        other = re.compile(r'stdatomic\.h|\b(__atomic_|__sync_|atomic_(load|store|fetch|compare|exchange))\w*\s*\((?!&deltaprof_)')
        for name in FILES:
            if re.match(r'src/.*\.[ch]$', name) and name != 'src/base/atomic.h':
                for i, line in enumerate(text(name).split('\n'), 1):
                    self.assertIsNone(other.search(line), f'{name}:{i}: {line.strip()}')

    def test_files_and_rooms_can_be_taken_in_at_one_reading(self):
        sources = [f for f in FILES if re.match(r'(src|runtime_hooks)/.*\.[ch]$', f)]
        tests = [f for f in FILES if re.match(r'tests/.*\.(c|h|py)$', f)]
        for name in sources + tests:
            n = text(name).count('\n')
            self.assertLessEqual(n, MOST_LINES, f'{name} has {n} lines, more than {MOST_LINES}: look again whether it is one subject')
        rooms = [f for f in FILES if re.match(r'(src|runtime_hooks|tests)/(?!fuzz/corpus)', f) and os.path.basename(f) != 'meson.build']
        for room, n in Counter(map(os.path.dirname, rooms)).items():
            most = 2 * MOST_FILES if os.path.basename(room) in REPORT_HALF else MOST_FILES  # of two halves
            self.assertLessEqual(n, most, f'{room}/ has {n} files beside meson.build; a room has no more than {most}')

    def test_predicates_return_bool(self):
        predicate = re.compile(r'^(?=\w)[^\n;{]*?\b(\w+)[ *]+(\w+_(?:is|are|has|may|can|was)_\w+)\(', re.M)
        found = [(name, *p) for name in FILES if re.match(r'(src|include|runtime_hooks)/.*\.[ch]$', name) for p in predicate.findall(text(name))]
        self.assertGreater(len(found), 50)
        self.assertEqual([f for f in found if f[1] != 'bool'], [])

    def test_the_readme_names_every_room(self):
        rooms = {part for f in FILES if re.match(r'src/[^/]+/', f) for part in room_of(f[4:]).split('/') if part != 'meson.build'}
        rows = text('README.md').split('| in `src` |')[1].split('\n\n')[0].split('\n')[2:]
        self.assertEqual(rooms, {room for row in rows for room in re.findall(r'`(\w+)`', row.split('|')[1])})

    def test_unit_tests_stand_in_the_room_that_they_test(self):
        rooms = {os.path.dirname(f).split('/', 1)[1] for f in FILES if re.match(r'(src|runtime_hooks)/.*/', f)}
        found = {os.path.dirname(f)[len('tests/unit/'):] for f in FILES if re.match(r'tests/unit/.*/', f)}
        self.assertGreater(len(found), 15)
        self.assertEqual(found - rooms, set())

    def test_lists_of_kinds_agree_with_the_public_header(self):
        header = re.search(r'enum deltaprof_kind \{(.*?)\};', text('include/deltaprof/deltaprof.h'), re.S)[1]
        kinds = [name.lower() for name, _ in sorted(re.findall(r'DELTAPROF_(\w+) = (\d+)', header), key=lambda k: int(k[1]))]
        self.assertEqual([int(n) for n in re.findall(r'= (\d+)', header)], list(range(len(kinds))))
        table = re.findall(r'^    X\((\w+), (\w+)\)', text('src/profile/kinds.h'), re.M)
        self.assertEqual([(k.upper(), k) for k in kinds], table)
        rust = re.search(r'pub enum Kind \{(.*?)\}', text('runtime_hooks/rust/src/lib.rs'), re.S)[1]
        self.assertEqual([n.lower() for n in re.findall(r'\w+', re.sub(r'= \d+|//.*', '', rust))], kinds)

    def test_no_loose_ends(self):
        for name in FILES:
            if name == 'LICENSE' or name.startswith('tests/fuzz/corpus'):
                continue
            if '\0' in text(name):
                continue  # a picture, in which three letters may stand by chance
            for i, line in enumerate(text(name).split('\n'), 1):
                self.assertIsNone(OPEN_ENDS.search(line), f'{name}:{i}: {line.strip()[:100]}')


def print_arrows():
    """The rooms of src, the pairs of rooms of which one includes the other, and the circles. A subject of the host is two rooms, its halves."""
    hooks = {os.path.splitext(f)[0] for room in REPORT_HALF for f in hook_half(room)}
    sources = [f for f in FILES if re.match(r'src/.*/.*\.[ch]$', f)]

    def half_of(name):
        room = room_of(name[4:])
        stem = os.path.splitext(name)[0]
        reports = room.split('/')[-1] in REPORT_HALF and stem not in hooks and stem + '.c' in sources
        return room + (' (reports)' if reports else '')

    arrows = Counter((half_of(f), half_of('src/' + i)) for f in sources for quote, i in includes(f) if quote == '"' and 'src/' + i in sources)
    between = {a: n for a, n in arrows.items() if a[0] != a[1]}
    below = {a: {b for x, b in between if x == a} for a in map(half_of, sources)}
    left = dict(below)
    while free := [a for a, others in left.items() if not others & set(left)]:  # rooms that include none of those that are left
        for a in free:
            del left[a]
    print(f'{len(below)} rooms, {len(between)} arrows, {sum(between.values())} includes between rooms; in circles: {sorted(left) or "none"}')


if __name__ == '__main__':
    if sys.argv[2:] == ['arrows']:
        print_arrows()
    else:
        unittest.main(argv=sys.argv[:1])
