/* SPDX-License-Identifier: MIT */
/*
 * Runs LuaJIT states inside each other: compiled Lua calls C, which runs another state, and so on, along a random call
 * graph. Prints how many blocks were allocated on each path through the graph: "function path count", where a path is
 * the numbers of the `dive` functions, the outermost first. usage: victim_luajit SEED STEPS
 *
 * Before each dive the stack below is filled with copies of what lies above, return addresses and whole frames of the
 * interpreter, so that compiled code finds them in its frame.
 */
#include <assert.h>
#include <lauxlib.h>
#include <link.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

enum { LEVELS = 6, DIVES = 5, PATHS = 1 << 13, FUNCTIONS = 3 };

#define NOINLINE __attribute__((noinline))
#define VISIBLE  __attribute__((visibility("default"), noinline))

static lua_State *states[LEVELS];
static int level, path[LEVELS];
static uint64_t seed;
static long steps_left, counts[PATHS][FUNCTIONS];
static void *volatile kept[64];

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

enum { IN_STEP, IN_LUA, IN_HANDLER };
static const char *const names[FUNCTIONS] = {"make_in_step", "make_in_lua", "make_in_handler"};

static void count(int function)
{
    int key = 0;
    for (int i = 0; i < level; i++)
        key = key * (DIVES + 1) + 1 + path[i];
    counts[key][function]++;
}

NOINLINE static void make_in_step(void)
{
    unsigned i = below(64);
    free(kept[i]);
    kept[i] = malloc(1 + below(500));
    count(IN_STEP);
}

NOINLINE static void *make_in_lua(void *unused, void *block, size_t old_bytes, size_t n_bytes)
{
    (void)unused, (void)old_bytes;
    if (!n_bytes) {
        free(block);
        return NULL;
    }
    count(IN_LUA);
    void *made = realloc(block, n_bytes);
    __asm__ volatile("" ::: "memory");
    return made;
}

static struct dl_phdr_info files[64];
static int n_files;

static int note_file(struct dl_phdr_info *info, size_t n_bytes, void *unused)
{
    (void)n_bytes, (void)unused;
    assert(n_files < 64);
    files[n_files++] = *info;
    return 0;
}

/* Whether an address lies in a file's code or data, and so not in code that was compiled at run time. */
static bool in_file(uintptr_t at)
{
    for (int i = 0; i < n_files; i++)
        for (int k = 0; k < files[i].dlpi_phnum; k++) {
            const ElfW(Phdr) *segment = &files[i].dlpi_phdr[k];
            if (segment->p_type == PT_LOAD && at - files[i].dlpi_addr - segment->p_vaddr < segment->p_memsz)
                return true;
        }
    return false;
}

/* Allocates if the signal interrupted compiled code: there no block is being made. */
NOINLINE static void make_in_handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (in_file((uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]))
        return;
    count(IN_HANDLER);
    void *volatile block = malloc(100);
    free(block);
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

static const char script[] =
    "local ffi = require 'ffi'\n"
    "ffi.cdef 'void step(int); void scatter(void);'\n"
    "local C, set = ffi.C, {}\n"
    "function set.plain(n) for i = 1, n do C.step(i) end end\n"
    "function set.computes(n) local x = 0 for i = 1, n * 300 do x = x + i % 7 end C.step(n) return x end\n"
    "function set.blocks(n)\n"
    "  local t, s = {}, ''\n"
    "  for i = 1, n do t = {i, {t[1]}}; s = tostring(i) .. s:sub(1, 40); t[s] = i; C.step(i) end\n"
    "end\n"
    "function set.branches(n)\n"
    "  local a, b = 0, {}\n"
    "  for i = 1, n do\n"
    "    if i % 2 == 0 then C.step(i); a = a + 1\n"
    "    elseif i % 3 == 0 then b[#b + 1] = {i}; C.step(i)\n"
    "    elseif i % 5 == 0 then a = a + 0.5; b[i] = tostring(a); C.step(i) end\n"
    "  end\n"
    "end\n"
    "local function deep(n) if n == 0 then return 0 end C.step(n) return deep(n - 1) + 1 end\n"
    "function set.recursion(n) for i = 1, n / 8 do deep(8) end end\n"
    "function set.coroutines(n)\n"
    "  local co = coroutine.wrap(function() while true do for i = 1, 70 do C.step(i) end coroutine.yield() end end)\n"
    "  for i = 1, n / 70 + 1 do co(); C.step(i) end\n"
    "end\n"
    "function set.sorts(n)\n"
    "  local t = {}\n"
    "  for i = 1, n / 8 do t[i] = (i * 7919) % 101 end\n"
    "  table.sort(t, function(a, b) for i = 1, 2 do C.step(i) end return a < b end)\n"
    "  for i = 1, n do C.step(i) end\n"
    "end\n"
    "function set.replaces(n)\n"
    "  string.gsub(('x'):rep(n / 3), 'x', function(c) C.step(1) return {} and c .. c end)\n"
    "  for i = 1, n do C.step(i) end\n"
    "end\n"
    "function set.calls(n)\n"
    "  local index = setmetatable({}, {__index = function(t, k) C.step(k) return k end})\n"
    "  local x = 0\n"
    "  for i = 1, n do local ok, y = pcall(function() return index[i] end) x = x + y end\n"
    "end\n"
    "for _, k in ipairs {4, 12, 40, 90} do -- values that live across the call, most of them on the stack\n"
    "  local source = {'local C = ... return function(n) local '}\n"
    "  local function each(form, between)\n"
    "    local list = {}\n"
    "    for i = 1, k do list[i] = form:gsub('#', i):gsub('@', i % k + 1) end\n"
    "    source[#source + 1] = table.concat(list, between)\n"
    "  end\n"
    "  each('a#', ',') source[#source + 1] = ' = ' each('n + # / 3', ',')\n"
    "  source[#source + 1] = ' for i = 1, n do if i % 4 > 0 then C.step(i) end ' each('a# = a# + a@', ' ')\n"
    "  source[#source + 1] = ' C.scatter() end return ' each('a#', '+') source[#source + 1] = ' end'\n"
    "  set['spills' .. k] = assert(loadstring(table.concat(source)))(C)\n"
    "end\n"
    "local names = {}\n"
    "for name in pairs(set) do names[#names + 1] = name end\n"
    "table.sort(names)\n"
    "function work(which, n) return set[names[which % #names + 1]](n) end\n";

/* Fills the stack below with copies of what lies above it. */
VISIBLE void scatter(void)
{
    enum { WORDS = 512 };
    uintptr_t junk[WORDS] __attribute__((aligned(16)));
    const uintptr_t *above = (const uintptr_t *)__builtin_frame_address(0) + 2 - (uintptr_t)junk % 16 / 8;
    for (unsigned i = 0; i < WORDS;) {
        unsigned n = 2 * (1 + below(16)), from = 2 * below(160);
        for (unsigned k = 0; k < n && i < WORDS; k++, i++)
            junk[i] = above[from + k];
    }
    __asm__ volatile("" ::"r"(junk) : "memory");
}

NOINLINE static void run_lua(void)
{
    lua_State *L = states[level];
    lua_getglobal(L, "work");
    lua_pushinteger(L, (lua_Integer)below(1000));
    lua_pushinteger(L, 80 + (lua_Integer)below(120));
    if (lua_pcall(L, 2, 0, 0)) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        abort();
    }
}

#define DIVE(i, pad)                                 \
    NOINLINE static void dive_##i(void)              \
    {                                                \
        char used[pad];                              \
        path[level++] = i;                           \
        __asm__ volatile("" ::"r"(used) : "memory"); \
        scatter();                                   \
        run_lua();                                   \
        level--;                                     \
    }
DIVE(0, 8)
DIVE(1, 56)
DIVE(2, 200)
DIVE(3, 1000)
DIVE(4, 4000)
static void (*const dives[DIVES])(void) = {dive_0, dive_1, dive_2, dive_3, dive_4};

VISIBLE void step(int unused)
{
    (void)unused;
    make_in_step();
    if (level < LEVELS - 1 && steps_left-- > 0 && below(30) == 0)
        dives[below(DIVES)]();
    __asm__ volatile("" ::: "memory");
}

static void print_counts(void)
{
    for (int key = 0; key < PATHS; key++)
        for (int f = 0; f < FUNCTIONS; f++) {
            int digits[LEVELS], n = 0;
            for (int rest = key; rest; rest /= DIVES + 1)
                digits[n++] = rest % (DIVES + 1) - 1;
            if (!counts[key][f])
                continue;
            printf("%s /", names[f]);
            while (n > 0)
                printf("%d/", digits[--n]);
            printf(" %ld\n", counts[key][f]);
        }
}

int main(int argc, char **argv)
{
    assert(argc == 3);
    seed = strtoull(argv[1], NULL, 10);
    steps_left = atol(argv[2]);
    for (int i = 0; i < LEVELS; i++) {
        states[i] = lua_newstate(make_in_lua, NULL);
        if (!states[i])
            return 77; /* this LuaJIT takes its own allocator only */
        luaL_openlibs(states[i]);
        assert(!luaL_dostring(states[i], script));
    }
    dl_iterate_phdr(note_file, NULL);
    struct sigaction sa = {.sa_sigaction = make_in_handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (steps_left > 0)
        run_lua();
    setitimer(ITIMER_REAL, &never, NULL);
    print_counts();
    return 0;
}
