/* SPDX-License-Identifier: MIT */
/*
 * Embeds Lua as servers do, attaches each state, and prints the number of allocations of each Lua stack: "objects
 * stack".
 * grow(n) of the scripts allocates twice: string.rep's buffer and its string. usage: victim_lua_host PROFILE
 */
#include <deltaprof/lua.h>

#include <assert.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char script[] = "function grow() return string.rep('x', 100000) end\n"
                             "function handler()\n"
                             "  local x = grow()\n" /* made:3 */
                             "end\n"
                             "function task(n)\n"
                             "  for i = 1, n do\n"
                             "    local x = grow()\n" /* made:7 */
                             "    coroutine.yield()\n"
                             "  end\n"
                             "end\n"
                             "function outer()\n"
                             "  other()\n" /* made:12 */
                             "end\n";

static void check(lua_State *L, int status)
{
    if (status != LUA_OK && status != LUA_YIELD) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        exit(1);
    }
}

static lua_State *new_state(void)
{
    lua_State *L = luaL_newstate();
    assert(L);
    luaL_openlibs(L);
    int err = deltaprof_lua_attach(L);
    assert(!err && deltaprof_lua_attach(L) == 0);
    check(L, luaL_loadbuffer(L, script, sizeof script - 1, "=made"));
    check(L, lua_pcall(L, 0, 0, 0));
    return L;
}

static void call(lua_State *L, const char *name, int protect)
{
    lua_getglobal(L, name);
    if (protect)
        check(L, lua_pcall(L, 0, 0, 0));
    else
        lua_call(L, 0, 0);
}

static void *use(void *arg)
{
    for (int i = 0; i < 50; i++)
        call(arg, "handler", i % 2);
    return NULL;
}

static void *use_own(void *arg)
{
    for (int i = 0; i < 5; i++) {
        lua_State *L = new_state();
        use(L);
        lua_close(L);
    }
    return NULL;
}

static int other(lua_State *L)
{
    call(lua_touserdata(L, lua_upvalueindex(1)), "handler", 1);
    return 0;
}

static int to_file(void *ctx, const void *bytes, size_t n_bytes)
{
    return fwrite(bytes, 1, n_bytes, ctx) == n_bytes ? 0 : -EIO;
}

/* An allocator whose freed blocks can never be read again. Each has pages of its own. */
static void *mapped(void *ud, void *old, size_t n_old, size_t n)
{
    (void)ud;
    void *ptr = NULL;
    if (n) {
        ptr = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert(ptr != MAP_FAILED);
        if (old)
            memcpy(ptr, old, n < n_old ? n : n_old);
    }
    if (old && n_old)
        assert(!mprotect(old, n_old, PROT_NONE));
    return ptr;
}

/* An allocator around another one. */
struct around {
    lua_Alloc alloc;
    void *ud;
};

static void *call_around(void *ud, void *old, size_t n_old, size_t n)
{
    const struct around *around = ud;
    return around->alloc(around->ud, old, n_old, n);
}

/* A state that got another allocator after the attach: its coroutines are collected, and it is closed, unseen. Another
 * state has samples before and after that. */
static void replace_allocator(lua_State *nested)
{
    char first, second;
    lua_State *L = lua_newstate(mapped, &first);
    assert(L && !deltaprof_lua_attach(L));
    lua_newthread(L);
    lua_setallocf(L, mapped, &second);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    use(nested);
    lua_close(L);
    use(nested);
}

static void wrap_allocator(void)
{
    lua_State *L = new_state();
    struct around around;
    around.alloc = lua_getallocf(L, &around.ud);
    lua_setallocf(L, call_around, &around);
    use(L);
    lua_close(L);
}

int main(int argc, char **argv)
{
    lua_State *L = new_state(), *nested = new_state();
    int err = deltaprof_start("heap_rate=1,interval=0,out=none"), n;
    assert(!err || err == -EALREADY);
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    assert(delta && argc == 2);

    /* Threads use one state in turn, while other states are made and closed. */
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert(!pthread_create(&threads[i], NULL, use_own, NULL));
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        assert(!pthread_create(&thread, NULL, use, L) && !pthread_join(thread, NULL));
        use(L);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d made:3\n", 2 * 50 * (8 + 4 * 5));

    replace_allocator(nested);
    wrap_allocator();
    printf("%d made:3\n", 2 * 50 * 3);

    /* An event loop in C that resumes coroutines and holds a reference to each. */
    enum { TASKS = 300, STEPS = 3 };
    lua_State *tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = lua_newthread(L);
        luaL_ref(L, LUA_REGISTRYINDEX);
        lua_getglobal(tasks[i], "task");
        lua_pushinteger(tasks[i], STEPS);
    }
    for (int step = 0; step <= STEPS; step++)
        for (int i = 0; i < TASKS; i++)
            check(tasks[i], lua_resume(tasks[i], i % 2 ? L : NULL, step ? 0 : 1, &n));
    printf("%d made:7\n", 2 * TASKS * STEPS);

    /* A function of one state calls a function of another one. */
    lua_pushlightuserdata(L, nested);
    lua_pushcclosure(L, other, 1);
    lua_setglobal(L, "other");
    call(L, "outer", 1);
    printf("2 made:3 made:12\n");

    FILE *file = fopen(argv[1], "wb");
    assert(file && deltaprof_delta_write(delta, to_file, file) == 0 && !fclose(file));
    deltaprof_delta_free(delta);
    lua_close(L);
    lua_close(nested);
    return 0;
}
