/* SPDX-License-Identifier: MIT */
/*
 * module.c - the functions of require "deltaprof", and deltaprof_lua_attach for programs that embed Lua.
 *
 *     deltaprof.start(conf)           deltaprof.write(kind, path)       deltaprof.label_push(key, value)
 *     deltaprof.stop()                deltaprof.emit()                  deltaprof.label_pop()
 *                                                                       deltaprof.trace_set(traceparent)
 *
 * They return true, or nil, a message and the errno, as Lua's io functions do; a wrong type of an argument is an error.
 * Labels belong to the coroutine that pushed them; one without labels has those of the code that resumed it. The same
 * holds for a trace context.
 */
#include "state.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int layout_found; /* 0: not searched yet; 1: found; -errno: not found */

static struct dp_lua_state *state_of(lua_State *L)
{
    void *ud;
    return lua_getallocf(L, &ud) == dp_lua_alloc ? ud : NULL;
}

static lua_State *main_of(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    lua_State *main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

/* Once for the process, with the first state: finds the layout of this Lua. Returns whether frames can be read. */
static bool prepare(lua_State *L)
{
    pthread_mutex_lock(&lock);
    if (!layout_found) {
        dp_lua_heap_init();
        layout_found = dp_lua_find_layout(L);
        if (!layout_found) {
            layout_found = 1;
            deltaprof_frames_provide(dp_lua_frames, NULL);
        } else {
            deltaprof_say("lua: this build of Lua is not known here: its functions are not named");
        }
    }
    pthread_mutex_unlock(&lock);
    return layout_found == 1;
}

/* Whether the state's allocator calls dp_lua_alloc. It is asked for a coroutine, which makes dp_lua_alloc note a size.
 */
static bool is_reached(lua_State *L, struct dp_lua_state *state)
{
    void *ud;
    lua_Alloc alloc = lua_getallocf(L, &ud);
    if (alloc == dp_lua_alloc)
        return true;
    size_t n_thread = state->n_thread, n = n_thread ? n_thread : 256;
    state->n_thread = 0;
    void *ptr = alloc(ud, NULL, LUA_TTHREAD, n);
    bool reached = state->n_thread != 0;
    if (ptr)
        alloc(ud, ptr, n, 0);
    state->n_thread = n_thread;
    return reached;
}

/* The finalizer of a value in the registry: lua_close calls it before it frees anything. */
static int closing(lua_State *L)
{
    struct dp_lua_state **state = lua_touserdata(L, 1);
    if (*state && !is_reached(L, *state))
        dp_lua_state_forget(*state);
    *state = NULL;
    return 0;
}

static void watch_close(lua_State *L, struct dp_lua_state *state)
{
    *(struct dp_lua_state **)lua_newuserdatauv(L, sizeof(struct dp_lua_state *), 0) = state;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, closing);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, state);
}

int deltaprof_lua_attach(lua_State *L)
{
    if (!lua_checkstack(L, 8))
        return -ENOMEM;
    if (state_of(L))
        return state_of(L)->is_readable ? 0 : -ENOTSUP;
    bool has_layout = prepare(L);
    lua_State *main = main_of(L);
    struct dp_lua_state *state = dp_lua_state_new(main);
    if (!state)
        return -ENOMEM;
    dp_lua_state_use(state);
    lua_setallocf(L, dp_lua_alloc, state);
    dp_lua_state_note_allocator(state);
    if (L != main)
        dp_lua_coroutine_add(state, L);
    /* Makes a first coroutine, whose size is that of all; it is freed at the next collection. */
    lua_newthread(L);
    state->is_readable = has_layout && dp_lua_coroutine_find(state, lua_tothread(L, -1));
    lua_pop(L, 1);
    watch_close(L, state);
    return state->is_readable ? 0 : -ENOTSUP;
}

/* ---- the functions of the module -------------------------------------------------------------------------------- */

static int result(lua_State *L, int err)
{
    if (!err) {
        lua_pushboolean(L, 1);
        return 1;
    }
    luaL_pushfail(L);
    lua_pushstring(L, strerror(-err));
    lua_pushinteger(L, -err);
    return 3;
}

static int start(lua_State *L)
{
    return result(L, deltaprof_start(luaL_optstring(L, 1, NULL)));
}

static int stop(lua_State *L)
{
    return result(L, deltaprof_stop());
}

static int emit(lua_State *L)
{
    return result(L, deltaprof_emit());
}

/* The kinds for write(), by enum deltaprof_kind, and one consumer of each. KINDS, from the build: "heap", "mutex" ...
 */
static const char *const kinds[] = {KINDS, NULL};
static struct deltaprof_delta *consumers[sizeof kinds / sizeof *kinds - 1];

static int to_file(void *ctx, const void *bytes, size_t n_bytes)
{
    return fwrite(bytes, 1, n_bytes, ctx) == n_bytes ? 0 : errno ? -errno : -EIO;
}

static int write_delta(int kind, const char *path)
{
    if (!consumers[kind] && !(consumers[kind] = deltaprof_delta_new((enum deltaprof_kind)kind)))
        return -errno;
    FILE *file = fopen(path, "wbe");
    if (!file)
        return -errno;
    int err = deltaprof_delta_write_uncommitted(consumers[kind], to_file, file);
    if (fclose(file) && !err)
        err = -errno;
    int ended = err ? deltaprof_delta_abandon(consumers[kind]) : deltaprof_delta_commit(consumers[kind]);
    return err ? err : ended;
}

/* write(kind, path): what changed since the last write of that kind in this process. */
static int write_profile(lua_State *L)
{
    int kind = luaL_checkoption(L, 1, NULL, kinds);
    const char *path = luaL_checkstring(L, 2);
    pthread_mutex_lock(&lock);
    int err = write_delta(kind, path);
    pthread_mutex_unlock(&lock);
    return result(L, err);
}

static struct dp_lua_coroutine *self(lua_State *L)
{
    struct dp_lua_state *state = state_of(L);
    return state ? dp_lua_coroutine_find(state, L) : NULL;
}

/* A coroutine's first pair is added to the labels of the code that resumed it, else to the thread's own. */
static int label_push(lua_State *L)
{
    const char *key = luaL_checkstring(L, 1), *value = luaL_tolstring(L, 2, NULL);
    struct dp_lua_coroutine *c = self(L);
    if (c) {
        uint32_t around = !c->n_labels && state_of(L)->is_readable ? dp_lua_labels_around(state_of(L), L) : 0;
        uint32_t own = deltaprof_labels_swap(0);
        deltaprof_labels_swap(c->n_labels++ ? c->labels : around ? around : own);
        deltaprof_label_push(key, value);
        c->labels = deltaprof_labels_swap(own);
    }
    return 0;
}

static int label_pop(lua_State *L)
{
    struct dp_lua_coroutine *c = self(L);
    if (c && c->n_labels) {
        uint32_t own = deltaprof_labels_swap(c->labels);
        deltaprof_label_pop();
        c->labels = deltaprof_labels_swap(own);
        if (!--c->n_labels)
            c->labels = 0;
    }
    return 0;
}

/* Reads n_bytes of hex, which must not all be 0. */
static bool read_id(const char *hex, unsigned char *id, size_t n_bytes)
{
    unsigned char any = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char digits[] = {hex[2 * i], hex[2 * i + 1], 0};
        if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]))
            return false;
        id[i] = (unsigned char)strtoul(digits, NULL, 16);
        any |= id[i];
    }
    return any;
}

/* trace_set(traceparent): W3C's header, "00-TRACE_ID-SPAN_ID-FLAGS". Another text, as W3C demands, and nil are none. */
static int trace_set(lua_State *L)
{
    enum { TRACE = 3, SPAN = 36, FLAGS = 53 };
    size_t n = 0;
    const char *header = luaL_optlstring(L, 1, "", &n);
    struct dp_lua_coroutine *c = self(L);
    if (c) {
        c->has_trace = false;
        c->has_trace = n >= FLAGS && header[TRACE - 1] == '-' && header[SPAN - 1] == '-' && header[FLAGS - 1] == '-' &&
                       read_id(header + TRACE, c->trace, 16) && read_id(header + SPAN, c->trace + 16, 8);
        __atomic_store_n(&dp_lua_traces, true, __ATOMIC_RELAXED);
    }
    return 0;
}

int luaopen_deltaprof(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"start", start},           {"stop", stop},           {"emit", emit},           {"write", write_profile},
        {"label_push", label_push}, {"label_pop", label_pop}, {"trace_set", trace_set}, {NULL, NULL}};
    luaL_checkversion(L);
    deltaprof_lua_attach(L);
    luaL_newlib(L, functions);
    lua_pushstring(L, deltaprof_version());
    lua_setfield(L, -2, "version");
    return 1;
}
