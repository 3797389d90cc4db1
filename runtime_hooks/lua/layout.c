/* SPDX-License-Identifier: MIT */
/*
 * layout.c - finds the offsets of the fields in which a running Lua 5.4 keeps its calls, without a table of versions.
 *
 * It runs a chunk that calls a C function, in a protected call. That function knows the values that it searches for:
 * the CallInfo that lua_getstack gives, its caller's, the jump buffer between two C frames. Every field that frames.c
 * reads is found or checked in this way. If the layout does not fit, no frames of that Lua are read.
 *
 * The interpreter's loop (luaV_execute) is a local function. It is the one function that is on the C stack both when
 * Lua code calls the C function and when it indexes a table whose __index is the C function, and not when lua_pcall
 * calls it.
 *
 * lua_resume is searched for on the C stack of a coroutine that C code resumed and of one that coroutine.wrap made: a
 * compiler may have copied it into the functions that call it.
 */
#include "state.h"

#include <errno.h>
#include <string.h>
#include <unwind.h>

struct dp_lua_layout dp_lua_layout;

enum { FUNCTIONS_MAX = 32 };
struct c_stack {
    uintptr_t functions[FUNCTIONS_MAX]; /* the beginning of each */
    int n;
};

struct probe {
    const char *outer; /* an address on the C stack outside the protected call */
    struct c_stack called, indexed, direct, resumed, wrapped, *here;
    struct dp_lua_layout layout;
    bool found;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg)
{
    const struct probe *probe = arg;
    struct c_stack *stack = probe->here;
    if (_Unwind_GetCFA(context) > (uintptr_t)probe->outer)
        return _URC_END_OF_STACK;
    stack->functions[stack->n++] = _Unwind_GetRegionStart(context);
    return stack->n < FUNCTIONS_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static bool is_on(const struct c_stack *stack, uintptr_t function)
{
    for (int i = 0; i < stack->n; i++)
        if (stack->functions[i] == function)
            return true;
    return false;
}

/* The end of a function. Its code is one piece, and the unwinder tells the function of an address. */
static size_t size_of(uintptr_t function)
{
    size_t inside = 0, outside = 1;
    while (outside < 1 << 24 && (uintptr_t)_Unwind_FindEnclosingFunction((void *)(function + outside)) == function) {
        inside = outside;
        outside *= 2;
    }
    while (outside - inside > 1) {
        size_t middle = inside + (outside - inside) / 2;
        if ((uintptr_t)_Unwind_FindEnclosingFunction((void *)(function + middle)) == function)
            inside = middle;
        else
            outside = middle;
    }
    return outside;
}

static void find_loop(struct probe *probe)
{
    uintptr_t loop = 0;
    for (int i = 0; i < probe->called.n; i++) {
        uintptr_t function = probe->called.functions[i];
        if (!function || function == loop || !is_on(&probe->indexed, function) || is_on(&probe->direct, function))
            continue;
        if (loop)
            return; /* two candidates: frames are placed by the jump buffers alone */
        loop = function;
    }
    if (loop) {
        probe->layout.loop = (const void *)loop;
        probe->layout.n_loop = size_of(loop);
    }
}

static unsigned status_at(const char *ci, uint16_t offset)
{
    uint16_t status;
    memcpy(&status, ci + offset, sizeof status);
    return status;
}

static bool find_fields(lua_State *L, struct probe *probe)
{
    enum { TOP_BYTES = 256, CALLS_MAX = 100000 };
    struct dp_lua_layout *at = &probe->layout;
    const char *state = (const char *)L, *inner = __builtin_frame_address(0);
    lua_Debug ours, caller;
    if (!lua_getstack(L, 0, &ours) || !lua_getstack(L, 1, &caller))
        return false;
    const char *ci = (const char *)ours.i_ci, *base = (const char *)caller.i_ci;
    *at = (struct dp_lua_layout){.L_ci = 32, .ci_func = 0, .ci_previous = 16, .ci_status = 62};
    if (dp_lua_pointer(L, at->L_ci) != ci || dp_lua_pointer(ci, at->ci_previous) != base)
        return false;
    if (!(status_at(ci, at->ci_status) & DP_LUA_STATUS_C) ||
        (status_at(base, at->ci_status) & (DP_LUA_STATUS_C | DP_LUA_STATUS_FRESH)) != DP_LUA_STATUS_FRESH)
        return false;
    for (int n = 0; dp_lua_pointer(base, at->ci_previous); base = dp_lua_pointer(base, at->ci_previous))
        if (n++ == CALLS_MAX)
            return false;
    /* The outermost CallInfo is a member of the coroutine, and the jump buffer's pointer stands before it. */
    if (base < state + 64 || base >= state + TOP_BYTES)
        return false;
    at->L_jump = (uint16_t)(base - state - 8);
    const char *jump = dp_lua_pointer(L, at->L_jump);
    if (jump < inner || jump >= probe->outer)
        return false;
    /* Its function is the bottom of the Lua stack. */
    for (uint16_t i = 40; i <= 56 && !at->L_stack; i += 8)
        if (dp_lua_pointer(L, i) == dp_lua_pointer(base, at->ci_func))
            at->L_stack = i;
    return at->L_stack != 0;
}

/* look(): its upvalue is the probe. */
static int run_probe(lua_State *L)
{
    struct probe *probe = lua_touserdata(L, lua_upvalueindex(1));
    probe->here->n = 0;
    _Unwind_Backtrace(step, probe);
    if (probe->here == &probe->called)
        probe->found = find_fields(L, probe);
    lua_pushboolean(L, 1);
    return 1;
}

/* Calls look, or a chunk with two arguments: look, and a table whose __index is look. The chunk uses look's result, so
 * that it is no tail call. */
static int run(lua_State *L, struct probe *probe, struct c_stack *here, const char *chunk)
{
    int top = lua_gettop(L), err = chunk ? luaL_loadstring(L, chunk) : 0;
    if (!err) {
        probe->here = here;
        lua_pushlightuserdata(L, probe);
        lua_pushcclosure(L, run_probe, 1);
        lua_newtable(L);
        lua_createtable(L, 0, 1);
        lua_pushvalue(L, -3);
        lua_setfield(L, -2, "__index");
        lua_setmetatable(L, -2);
        if (!chunk)
            lua_pop(L, 1);
        err = lua_pcall(L, chunk ? 2 : 0, 0, 0);
    }
    lua_settop(L, top);
    return err;
}

static void find_resume(lua_State *L, struct probe *probe)
{
    int top = lua_gettop(L), n_results;
    lua_State *coroutine = lua_newthread(L);
    probe->here = &probe->resumed;
    lua_pushlightuserdata(coroutine, probe);
    lua_pushcclosure(coroutine, run_probe, 1);
    bool ended = lua_resume(coroutine, L, 0, &n_results) == LUA_OK;
    lua_settop(L, top);
    uintptr_t resume = (uintptr_t)lua_resume;
    if (!ended || !is_on(&probe->resumed, resume) ||
        run(L, probe, &probe->wrapped, "local look = ... coroutine.wrap(function() local seen = look() end)()") ||
        !is_on(&probe->wrapped, resume))
        return;
    probe->layout.resume = (const void *)resume;
    probe->layout.n_resume = size_of(resume);
}

int dp_lua_find_layout(lua_State *L)
{
    char outer;
    struct probe probe = {.outer = &outer};
    if (run(L, &probe, &probe.direct, NULL) ||
        run(L, &probe, &probe.called, "local look = ... local seen = look() return seen") || !probe.found)
        return -ENOTSUP;
    if (!run(L, &probe, &probe.indexed, "local _, t = ... local seen = t.x return seen"))
        find_loop(&probe);
    find_resume(L, &probe);
    dp_lua_layout = probe.layout;
    return 0;
}
