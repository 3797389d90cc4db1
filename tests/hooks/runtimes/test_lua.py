# SPDX-License-Identifier: MIT
"""Lua's functions are in the profiles by file and line, and Lua's memory is the heap `lua`, for scripts that require
the module, and for a C program that embeds Lua.
"""
import collections
import os

import check_profile
import reader
from harness import BUILD, main, need, new_directory, profiles, run, skip, victim

need('lua5.4')
HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, 'victim_lua.lua')
MODULE = {'LUA_CPATH': BUILD + '/runtime_hooks/lua/?.so'}
DEPTH = 128


def lua(*argv, conf='heap_rate=1', **kwargs):
    return run(['lua5.4', *argv], conf, extra=MODULE, **kwargs)


with open(SCRIPT) as script:
    GROW = f'{SCRIPT}:' + str(next(i for i, line in enumerate(script, 1) if 'string.rep("x"' in line))


def lines(sample):
    return tuple(f'{f.file}:{f.line}' for f in sample.frames if f.file)


def expected(text):
    """{stack of the caller of grow: [objects, bytes, in use]}, cut to `depth` as in profiles."""
    result = collections.defaultdict(lambda: [0, 0, 0])
    for note in text.splitlines():
        size, *stack = note.split(' ')
        row = result[tuple(stack)]
        row[0] += 2
        row[1] += 2 * int(size) + 25
        row[2] += int(size) + 25
    return dict(result)


def measured(loaded):
    result = collections.defaultdict(lambda: [0, 0, 0])
    for p in loaded:
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            stack = lines(s)
            if stack[:1] == (GROW,) and objects and size / objects >= 100000:
                assert dict(s.labels).get('heap') == 'lua', s
                row = result[stack[1:]]
                row[0] += objects
                row[1] += size
                row[2] += s.values['inuse_space']
    return dict(result)


def compare(want, got, still_there):
    """The deep recursion is cut by `depth`."""
    deep = [stack for stack in want if len(stack) > DEPTH]
    assert len(deep) == 1
    for stack in [stack for stack in got if stack[:50] == deep[0][:50]]:
        assert deep[0][:len(stack)] == stack
        got[deep[0]] = [a + b for a, b in zip(got.get(deep[0], [0, 0, 0]), got.pop(stack))]
    if not still_there:
        want = {stack: [row[0], row[1], 0] for stack, row in want.items()}
    wrong = [(stack, row, got.get(stack)) for stack, row in want.items() if got.get(stack) != row]
    assert not wrong, wrong[0]
    assert got == want, [stack for stack in got if stack not in want][0]


def that_every_line_has_its_allocations_while_malloc_is_profiled_too():
    """No block counts twice: memory that Lua takes from malloc is in no other heap. lua_close frees everything."""
    r = lua(SCRIPT, conf=f'heap_rate=1,interval=0,depth={DEPTH}')
    assert r.status == 0 and not r.stderr, r.stderr
    loaded = profiles(r)
    compare(expected(r.stdout), measured(loaded), still_there=False)
    inuse = sum(s.values['inuse_objects'] for s in loaded[-1].samples if dict(s.labels).get('heap') == 'lua')
    assert inuse == 0, inuse


def that_a_script_starts_and_writes_without_a_preload():
    path = new_directory() + '/heap.pb.gz'
    r = lua(SCRIPT, f'heap_rate=1,depth={DEPTH},interval=0,out=none', path, preload=False)
    assert r.status == 0 and not r.stderr, r.stderr
    check_profile.check(path)
    compare(expected(r.stdout), measured([reader.load(path)]), still_there=True)


def that_functions_have_the_names_of_lua_s_tracebacks():
    r = lua(SCRIPT)
    names = {f.function for p in profiles(r) for s in p.samples for f in s.frames if f.file}
    assert {'main chunk', 'grow', 'recursion', 'nested', '__index', '__lt', 'for iterator'} <= names, names
    assert [n for n in names if n.startswith('function ') and n[-1].isdigit()], names  # a coroutine's first function
    assert '' not in names and None not in names, names


def that_a_finalizer_is_named_once():
    script = new_directory() + '/finalizer.lua'
    with open(script, 'w') as f:
        f.write('local function grow() return {{}, {}} end\n'
                'setmetatable({}, {__gc = function() kept = grow() end})\n'
                'collectgarbage()\n')
    r = lua('-l', 'deltaprof', script)
    names = {f.function for p in profiles(r) for s in p.samples for f in s.frames if f.file}
    assert '__gc' in names and '____gc' not in names, names


def that_libraries_in_c_count_for_the_line_that_calls_them():
    """The strings that cjson and lpeg make, also in coroutines, are blocks of Lua; cjson's buffers are blocks of malloc."""
    script = new_directory() + '/libraries.lua'
    with open(script, 'w') as f:
        f.write("""local cjson, lpeg = require "cjson", require "lpeg"
local big, all, kept = string.rep("x", 200000), lpeg.C(lpeg.P("x") ^ 0), {}
local function encode() kept[#kept + 1] = cjson.encode(big) end
local function decode(text) kept[#kept + 1] = cjson.decode(text) end
local function match() kept[#kept + 1] = all:match(big) end
for i = 1, 7 do coroutine.wrap(encode)() end
for i = 1, 3 do decode(kept[1]) end
for i = 1, 5 do coroutine.wrap(match)() end
""")
    r = run(['lua5.4', '-l', 'deltaprof', script], 'heap_rate=1,interval=0,memory=512M',
            extra={'LUA_CPATH': BUILD + '/runtime_hooks/lua/?.so;;'})
    assert r.status == 0 and not r.stderr, r.stderr
    got = collections.defaultdict(lambda: [0, 0])
    for p in profiles(r):
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            if lines(s) and dict(s.labels).get('heap') == 'lua' and objects and size / objects >= 100000:
                row = got[lines(s)[0].split(':')[-1]]
                row[0] += objects
                row[1] += size
    got.pop('2')  # string.rep
    assert got == {'3': [7, 7 * 200027], '4': [3, 3 * 200025], '5': [5, 5 * 200025]}, dict(got)


def that_each_of_many_coroutines_has_its_frames():
    """Ten thousand live at once. Some run inside another one, and C functions allocate that have a coroutine as argument."""
    script = new_directory() + '/many.lua'
    with open(script, 'w') as f:
        f.write("""local kept, all, long = {}, {}, string.rep("z", 100000)
local function inside(i)
  coroutine.yield()
  kept[i] = string.rep("x", 100000)
  return #kept
end
local function around(i)
  local co = coroutine.create(inside)
  coroutine.resume(co, i)
  coroutine.yield()
  coroutine.resume(co)
  kept[i] = string.rep("y", 100000, coroutine.status(co) == "dead" and "-" or "")
  kept[i] = nil
end
local function as_argument(co)
  local text = debug.traceback(co, long)
  return #text
end
for i = 1, 5000 do
  all[i] = coroutine.create(i % 2 == 0 and around or inside)
  coroutine.resume(all[i], i)
end
for i = 1, 5000 do
  if i % 3 == 0 then as_argument(all[i]) end
  coroutine.resume(all[i])
  kept[i] = nil
end
""")
    r = lua('-l', 'deltaprof', script, conf='heap_rate=1,interval=0,memory=512M')
    assert r.status == 0 and not r.stderr, r.stderr
    got = collections.Counter()
    for p in profiles(r):
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            if objects and size / objects >= 100000:
                got[tuple(line.split(':')[-1] for line in lines(s))] += objects
    want = {('4', '25'): 2 * 2500, ('4', '11', '25'): 2 * 2500, ('12', '25'): 2 * 2500, ('16', '24'): 3 * 1666, ('1',): 2}
    assert got == want, got


def that_sampled_sums_are_near_the_exact_ones():
    r = lua(SCRIPT, conf='heap_rate=4k')
    assert r.status == 0 and not r.stderr, r.stderr
    assert [s for p in profiles(r) for s in p.samples if 'grow' in s.names]


def that_labels_stay_with_their_coroutine():
    script = """
local deltaprof = require "deltaprof"
local kept = {}
local function grow(n) kept[#kept + 1] = string.rep("x", n) end
local function task(name, n)
  deltaprof.label_push("endpoint", name)
  coroutine.yield()
  grow(n)
  local inner = coroutine.wrap(function()
    grow(n + 200000)                         -- no labels of its own: those of its resumer
    deltaprof.label_push("step", "inner")
    coroutine.yield()
    grow(n + 300000)
  end)
  inner()
  grow(n)
  inner()
  deltaprof.label_pop()
  grow(n + 500000)
end
local a, b = coroutine.wrap(task), coroutine.wrap(task)
a("/a", 1000000)
b("/b", 2000000)
grow(3000000)
a()
grow(3000000)
b()
deltaprof.label_pop()                        -- without a push: nothing
"""
    r = lua('-e', script)
    assert r.status == 0 and not r.stderr, r.stderr
    got = collections.Counter()
    for p in profiles(r):
        for s in p.samples:
            objects, size = s.values['alloc_objects'], s.values['alloc_space']
            if 'grow' in s.names and objects and size / objects >= 1000000:
                labels = tuple(sorted((k, v) for k, v in s.labels if k != 'heap'))
                got[size // objects // 100000, labels] += objects
    want = {}
    for name, n in (('/a', 10), ('/b', 20)):
        endpoint = (('endpoint', name),)
        want.update({(n, endpoint): 4, (n + 2, endpoint): 2, (n + 3, endpoint + (('step', 'inner'),)): 2, (n + 5, ()): 2})
    want[30, ()] = 4
    assert got == want, got


def that_a_trace_context_stays_with_its_coroutine():
    script = """
local deltaprof = require "deltaprof"
local kept = {}
local function grow(n) kept[#kept + 1] = string.rep("x", n) end
local function header(n) return string.format("00-%s-%s-01", string.rep(string.format("%02x", n), 16), string.rep(string.format("%02X", n), 8)) end
local function task(id)
  deltaprof.trace_set(header(id))
  coroutine.yield()
  grow(id * 1000000)
  local inner = coroutine.wrap(function()
    grow(id * 1000000 + 200000)              -- no trace of its own: that of its resumer
    deltaprof.trace_set(header(id + 100))
    coroutine.yield()
    grow(id * 1000000 + 300000)
    deltaprof.trace_set()                    -- that of its resumer again
    grow(id * 1000000 + 400000)
  end)
  inner()
  grow(id * 1000000)
  inner()
  deltaprof.trace_set(nil)
  grow(id * 1000000 + 500000)
end
local a, b = coroutine.wrap(task), coroutine.wrap(task)
grow(3000000)
a(1)
b(2)
grow(3000000)
a()
grow(3000000)
b()
for _, bad in ipairs { "", "00-11-22-01", header(5):gsub("5", "g"), header(0), header(6):sub(1, 50) } do
  deltaprof.trace_set(bad)
  grow(4000000)
end
"""
    r = run(['lua5.4', '-e', script], 'heap_rate=1,events=on,interval=0', extra=MODULE)
    assert r.status == 0 and not r.stderr, r.stderr
    got = collections.Counter()
    for p in profiles(r, kind='events'):
        for s in p.samples:
            size, labels = s.values['alloc_space'], dict(s.labels)
            if 'grow' in s.names and size >= 1000000 and labels.get('heap') == 'lua':
                got[size // 100000, labels.get('trace_id', '')[:2], labels.get('span_id', '')[-2:]] += 1
    want = {}
    for id in 1, 2:
        own, inner = '%02x' % id, '%02x' % (id + 100)
        want.update({(10 * id, own, own): 2, (10 * id + 2, own, own): 1, (10 * id + 3, inner, inner): 1,
                     (10 * id + 4, own, own): 1, (10 * id + 5, '', ''): 1})
    want[30, '', ''] = 3
    want[40, '', ''] = 5
    assert got == {key: 2 * n for key, n in want.items()}, got  # string.rep allocates twice


def that_a_program_that_embeds_lua_attaches_its_states():
    """States that several threads use in turn; coroutines that C resumes; a state that calls another; closed states."""
    if not os.path.exists(victim('lua_host')):
        skip('no liblua5.4-dev')
    path = new_directory() + '/heap.pb.gz'
    for options in ({'preload': False}, {'preload': True}):
        r = run([victim('lua_host'), path], 'heap_rate=1', **options)
        assert r.status == 0 and not r.stderr, r.stderr
        got = collections.Counter()
        for s in reader.load(path).samples:
            if 'grow' in s.names and s.values['alloc_space'] >= 100000 * s.values['alloc_objects'] > 0:
                assert dict(s.labels).get('heap') == 'lua', s
                got[' '.join(lines(s)[1:])] += s.values['alloc_objects']
        want = collections.Counter()
        for note in r.stdout.splitlines():
            n, stack = note.split(' ', 1)
            want[stack] += int(n)
        assert got == want, (got, want)


def that_errors_are_results():
    program = """
local d = require "deltaprof"
print(d.version:match("^%d+%.%d+%.%d+$") ~= nil, d.start("nonsense=1"))
print(select("#", d.stop()), pcall(d.write, "other", "/x"))
print(d.write("heap", "/nowhere/at/all"))
print(pcall(d.label_push))
"""
    r = run(['lua5.4', '-e', program], preload=False, extra=MODULE)
    out = r.stdout.splitlines()
    assert r.status == 0 and out[0].startswith('true\tnil\tInvalid argument\t22'), (r.stdout, r.stderr)
    assert "invalid option 'other'" in out[1] and out[2] == 'nil\tNo such file or directory\t2', out
    assert out[3].startswith('false\t'), out
    assert len(r.stderr.splitlines()) == 1 and 'nonsense' in r.stderr, r.stderr

    program = """
local d = require "deltaprof"
d.start("heap_rate=1,interval=0,out=none")
local kept = load("local t = {}\\n" .. ("t[#t + 1] = {#t}\\n"):rep(3000) .. "return t")()
print(d.write("heap", "/dev/full"))
"""
    r = run(['lua5.4', '-e', program], preload=False, extra=MODULE)
    assert r.status == 0 and r.stdout == 'nil\tNo space left on device\t28\n', (r.stdout, r.stderr)


main(globals())
