/* SPDX-License-Identifier: MIT */
/*
 * frames.c - the frame provider of Lua 5.4: finds the Lua functions on the calling thread's stack.
 *
 * A protected call of Lua keeps a jump buffer on the C stack (luaD_rawrunprotected). A coroutine is inside such a call
 * while it runs, and while it waits for a coroutine that it resumed. So a coroutine runs on this thread if its buffer
 * lies on this thread's stack. The order of the buffers is the order of the coroutines, also across states. The main
 * coroutine may run without a protected call. It is then the outermost.
 *
 *     C stack, the leaf first           Lua's calls (CallInfo)             result
 *     luaM_malloc_                                                         luaM_malloc_
 *     luaV_execute                      co: g, f (f began the loop)        g, f
 *     lua_resume's buffer of co                                            lua_resume ...
 *     luaV_execute                      main: chunk (began the loop)       chunk
 *
 * One call of the interpreter's loop (luaV_execute) runs several Lua functions: from the leaf up to the function that
 * began the loop. If a coroutine yielded and was resumed, the loop of its older functions is no longer on the C stack.
 * These functions take the place of the native frame that holds the coroutine's jump buffer.
 *
 * lua_getinfo only reads: the stack, the CallInfo and the prototype. While Lua moves a stack, the CallInfo points to
 * the old stack; in 5.4.6 and later it holds offsets instead of pointers. So the frames of such a coroutine are read
 * before the move, from copies of its CallInfo.
 */
#include "state.h"

#include <string.h>

enum { CALLS_MAX = 16384, COROUTINES_MAX = 4096, RUNNING_MAX = 64, JUMPS_MAX = 256, LOOP_ENDS = 1u << 31 };

/* The first bytes of a CallInfo, up to its status and a little more. */
enum { CALL_INFO_BYTES = 64, OFFSETS_BELOW = 1 << 28 };
union call_info {
    char bytes[CALL_INFO_BYTES];
    const void *align;
};

static unsigned status_of(const char *ci)
{
    uint16_t status;
    memcpy(&status, ci + dp_lua_layout.ci_status, sizeof status);
    return status;
}

/* Copies a CallInfo. If its function is an offset into the stack, the copy has the pointer. */
static void copy_of(union call_info *copy, const char *ci, const char *stack)
{
    memcpy(copy, ci, sizeof *copy);
    const char *func = dp_lua_pointer(ci, dp_lua_layout.ci_func);
    if ((uintptr_t)func < OFFSETS_BELOW) {
        func = stack + (uintptr_t)func;
        memcpy(copy->bytes + dp_lua_layout.ci_func, &func, sizeof func);
    }
}

/* A text that is built in a hook. The part that does not fit is left out. */
struct text {
    char bytes[192];
    uint32_t n;
};

static void add(struct text *text, const char *bytes)
{
    size_t n = strnlen(bytes, sizeof text->bytes - text->n);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += (uint32_t)n;
}

static void add_number(struct text *text, unsigned number)
{
    char digits[12] = {0};
    size_t at = sizeof digits - 1;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    add(text, digits + at);
}

/* Writes the name that Lua's own tracebacks show: the caller's name for it, or else the place of its definition. */
static void name_of(const lua_Debug *ar, struct text *name)
{
    if (*ar->what == 'm') {
        add(name, "main chunk");
    } else if (ar->name && *ar->name != '?') {
        if (!strcmp(ar->namewhat, "metamethod"))
            add(name, "__");
        add(name, ar->name);
    } else {
        add(name, "function ");
        add(name, ar->short_src);
        add(name, ":");
        add_number(name, ar->linedefined > 0 ? (unsigned)ar->linedefined : 0);
    }
}

/* Returns the id of the function of a call. *line becomes the line that it executes, 0 if that is not known. */
static uint32_t function_of(lua_State *L, const char *ci, uint32_t *line)
{
    lua_Debug ar = {.i_ci = (struct CallInfo *)(uintptr_t)ci};
    struct text name = {.n = 0};
    lua_getinfo(L, "Sln", &ar);
    name_of(&ar, &name);
    const char *file = *ar.source == '@' ? ar.source + 1 : ar.short_src;
    const struct deltaprof_function f = {.name = name.bytes,
                                         .n_name = name.n,
                                         .file = file,
                                         .n_file = (uint32_t)strlen(file),
                                         .first_line = ar.linedefined > 0 ? (uint32_t)ar.linedefined : 0};
    *line = ar.currentline > 0 ? (uint32_t)ar.currentline : 0;
    return deltaprof_function_find(&f);
}

/* ---- a coroutine whose stack moves ------------------------------------------------------------------------------ */

static void capture(lua_State *L, struct dp_lua_captured *captured)
{
    const char *ci = dp_lua_pointer(L, dp_lua_layout.L_ci), *stack = dp_lua_pointer(L, dp_lua_layout.L_stack),
               *previous;
    captured->L = L;
    captured->n = 0;
    for (; captured->n < DP_LUA_CAPTURED && (previous = dp_lua_pointer(ci, dp_lua_layout.ci_previous)); ci = previous) {
        if (status_of(ci) & DP_LUA_STATUS_C)
            continue;
        union call_info copy, caller;
        copy_of(&copy, ci, stack);
        copy_of(&caller, previous, stack);
        const char *to = caller.bytes;
        memcpy(copy.bytes + dp_lua_layout.ci_previous, &to, sizeof to);
        uint32_t line, i = captured->n++;
        captured->frames[i].function = function_of(L, copy.bytes, &line);
        captured->frames[i].line = line | (status_of(ci) & DP_LUA_STATUS_FRESH ? LOOP_ENDS : 0);
    }
}

bool dp_lua_capture(struct dp_lua_state *state, const void *stack, struct dp_lua_captured *captured)
{
    int n = 0;
    if (!state->named)
        return false;
    for (struct dp_lua_coroutine *c = &state->main; c && n < COROUTINES_MAX; c = c->next, n++)
        if ((const void *)dp_lua_pointer(c->L, dp_lua_layout.L_stack) == stack) {
            if (c != &state->main && !dp_lua_pointer(c->L, dp_lua_layout.L_jump))
                return false;
            capture(c->L, captured);
            return true;
        }
    return false;
}

/* ---- the coroutines of this thread ------------------------------------------------------------------------------ */

struct running {
    const struct dp_lua_coroutine *coroutine;
    const struct dp_lua_state *state;
    const char *jump; /* its outermost buffer; NULL: it runs unprotected */
};

/* Returns a coroutine's outermost jump buffer, or NULL if it has none on this stack. */
static const char *outermost(struct deltaprof_frames *out, const char *jump)
{
    const char *last = NULL;
    for (int n = 0; jump && n < JUMPS_MAX && deltaprof_frames_on_stack(out, jump, sizeof jump); n++) {
        last = jump;
        jump = dp_lua_pointer(jump, 0);
    }
    return last;
}

static size_t insert(struct running *all, size_t n, struct running one)
{
    size_t i = n;
    for (; i && (uintptr_t)all[i - 1].jump - 1 > (uintptr_t)one.jump - 1; i--)
        all[i] = all[i - 1];
    all[i] = one;
    return n + 1;
}

/* The running coroutines of a state, sorted into `all`. */
static size_t find_running(struct deltaprof_frames *out, struct dp_lua_state *state, struct running *all, size_t n)
{
    int seen = 0;
    struct dp_lua_coroutine *c = &state->main, *next;
    for (; c && seen < COROUTINES_MAX && n < RUNNING_MAX; c = next, seen++) {
        next = c->next;
        const char *jump = dp_lua_pointer(c->L, dp_lua_layout.L_jump), *last = outermost(out, jump);
        bool runs = last || (c == &state->main && !jump);
        if (runs)
            n = insert(all, n, (struct running){c, state, last});
        if (last)
            dp_lua_coroutine_first(state, c);
    }
    return n;
}

/* The frames pushed since the last anchor take the place of the next native frame of the interpreter's loop. */
static void end_loop(struct deltaprof_frames *out, const struct running *r)
{
    deltaprof_frames_anchor_code(out, dp_lua_layout.loop, dp_lua_layout.n_loop, r->jump);
}

static bool push_captured(struct deltaprof_frames *out, const struct running *r, const struct dp_lua_captured *captured)
{
    bool room = true, open = false;
    for (uint32_t i = 0; room && i < captured->n; i++) {
        uint32_t line = captured->frames[i].line;
        room = deltaprof_frames_push(out, captured->frames[i].function, line & ~LOOP_ENDS);
        open = !(line & LOOP_ENDS);
        if (!open)
            end_loop(out, r);
    }
    if (open)
        end_loop(out, r);
    return room;
}

static bool push_running(struct deltaprof_frames *out, const struct running *r)
{
    lua_State *L = r->coroutine->L;
    if (r->state->captured && r->state->captured->L == L)
        return push_captured(out, r, r->state->captured);
    const char *ci = dp_lua_pointer(L, dp_lua_layout.L_ci), *previous;
    bool open = false, room = true;
    for (int n = 0; room && n < CALLS_MAX && ci && (previous = dp_lua_pointer(ci, dp_lua_layout.ci_previous)); n++) {
        unsigned status = status_of(ci);
        if (!(status & DP_LUA_STATUS_C)) {
            uint32_t line, function = function_of(L, ci, &line);
            room = deltaprof_frames_push(out, function, line);
            open = !(status & DP_LUA_STATUS_FRESH);
            if (!open)
                end_loop(out, r);
        }
        ci = previous;
    }
    if (open)
        end_loop(out, r);
    return room;
}

uint32_t dp_lua_labels_around(struct dp_lua_state *state, lua_State *L)
{
    uintptr_t own = (uintptr_t)dp_lua_pointer(L, dp_lua_layout.L_jump), nearest = UINTPTR_MAX;
    uint32_t labels = L == state->main.L ? 0 : state->main.labels;
    for (const struct dp_lua_coroutine *c = state->main.next; c; c = c->next) {
        uintptr_t jump = (uintptr_t)dp_lua_pointer(c->L, dp_lua_layout.L_jump);
        if (c->labels && jump > own && jump < nearest) {
            nearest = jump;
            labels = c->labels;
        }
    }
    return labels;
}

bool dp_lua_traces;

/* Gives the thread the trace context of the innermost coroutine that has one. */
static void set_trace(const struct running *all, size_t n)
{
    const unsigned char *trace = NULL;
    for (size_t i = 0; i < n && !trace; i++)
        trace = all[i].coroutine->traced ? all[i].coroutine->trace : NULL;
    deltaprof_trace_set(trace, trace ? trace + 16 : NULL);
}

void dp_lua_frames(void *ctx, struct deltaprof_frames *out)
{
    struct running all[RUNNING_MAX];
    size_t n = 0;
    uint32_t labels = 0;
    for (int i = 0; i < DP_LUA_RECENT; i++) {
        struct dp_lua_state *state = dp_lua_thread.recent[i];
        if (state && __atomic_load_n(&state->owner, __ATOMIC_ACQUIRE) == dp_lua_thread.number && state->named &&
            state->main.L && dp_lua_state_is_followed(state))
            n = find_running(out, state, all, n);
    }
    for (size_t i = 0; i < n; i++)
        labels = labels ? labels : all[i].coroutine->labels;
    deltaprof_frames_labels(out, labels);
    if (n && __atomic_load_n(&dp_lua_traces, __ATOMIC_RELAXED))
        set_trace(all, n);
    for (size_t i = 0; i < n && push_running(out, &all[i]); i++)
        ;
}
