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
 *
 * A program may have thousands of coroutines. So the ones that run are found from the outside in: coroutine.resume has
 * the coroutine that it resumed as its first argument, and a function that coroutine.wrap made has it as its upvalue.
 * The C stack tells how many were resumed. Only if some are missing, because C code resumed them in another way, all
 * coroutines are searched.
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
        if (!strcmp(ar->namewhat, "metamethod") && strncmp(ar->name, "__", 2) != 0)
            add(name, "__"); /* Lua has it in the name of a finalizer only */
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

/* The coroutine that L has probably resumed; NULL: none. */
static struct dp_lua_coroutine *resumed_by(struct dp_lua_state *state, lua_State *L)
{
    const char *ci = dp_lua_pointer(L, dp_lua_layout.L_ci);
    if (!(status_of(ci) & DP_LUA_STATUS_C) || (state->captured && state->captured->L == L))
        return NULL;
    lua_State *to = lua_tothread(L, 1);
    if (!to && dp_lua_pointer(ci, dp_lua_layout.ci_previous)) /* the outermost call has no function */
        to = lua_tothread(L, lua_upvalueindex(1));
    return to ? dp_lua_coroutine_find(state, to) : NULL;
}

static bool has_stack(const struct dp_lua_coroutine *c, const void *stack)
{
    return (const void *)dp_lua_pointer(c->L, dp_lua_layout.L_stack) == stack;
}

static struct dp_lua_coroutine *owner_of(struct dp_lua_state *state, const void *stack)
{
    int n = 0;
    struct dp_lua_coroutine *c = &state->main;
    for (; c && n < RUNNING_MAX && !has_stack(c, stack); n++)
        c = resumed_by(state, c->L);
    if (c && n < RUNNING_MAX)
        return c;
    for (c = &state->main, n = 0; c && n < COROUTINES_MAX && !has_stack(c, stack); n++)
        c = c->next;
    return n < COROUTINES_MAX ? c : NULL;
}

bool dp_lua_capture(struct dp_lua_state *state, const void *stack, struct dp_lua_captured *captured)
{
    struct dp_lua_coroutine *c = state->is_readable ? owner_of(state, stack) : NULL;
    if (!c || (c != &state->main && !dp_lua_pointer(c->L, dp_lua_layout.L_jump)))
        return false;
    capture(c->L, captured);
    return true;
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

/* What is known of the coroutines that run on this thread, the innermost first. */
struct search {
    struct deltaprof_frames *out;
    struct running all[RUNNING_MAX];
    size_t n, n_resumed; /* all of them, and those that are no main coroutine */
};

/* Adds a coroutine if it runs on this thread inside `around`, a place on the C stack, and is not there yet. */
static bool add_running(struct search *s, struct dp_lua_state *state, struct dp_lua_coroutine *c, uintptr_t around)
{
    const char *jump = dp_lua_pointer(c->L, dp_lua_layout.L_jump), *last = outermost(s->out, jump);
    bool is_main = c == &state->main;
    bool runs = last ? (uintptr_t)last - 1 < around - 1 : is_main && !jump;
    if (!runs || s->n == RUNNING_MAX)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].coroutine == c)
            return true;
    s->n = insert(s->all, s->n, (struct running){c, state, last});
    s->n_resumed += !is_main;
    if (last)
        dp_lua_coroutine_first(state, c);
    return true;
}

/* Finds a state's running coroutines from its main one on. */
static void find_resumed(struct search *s, struct dp_lua_state *state)
{
    uintptr_t around = 0; /* of the main one: none */
    for (struct dp_lua_coroutine *c = &state->main; c && add_running(s, state, c, around); c = resumed_by(state, c->L))
        around = (uintptr_t)outermost(s->out, dp_lua_pointer(c->L, dp_lua_layout.L_jump));
}

/* Asks all coroutines of a state, until n_resumed run; -1: it is not known how many do. */
static void find_others(struct search *s, struct dp_lua_state *state, int n_resumed)
{
    int seen = 0;
    for (struct dp_lua_coroutine *c = &state->main, *next;
         c && seen < COROUTINES_MAX && s->n < RUNNING_MAX && s->n_resumed != (size_t)n_resumed; c = next, seen++) {
        next = c->next;
        add_running(s, state, c, 0);
    }
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
        trace = all[i].coroutine->has_trace ? all[i].coroutine->trace : NULL;
    deltaprof_trace_set(trace, trace ? trace + 16 : NULL);
}

/* The state in place i of those that this thread used last. NULL: there is none, or this thread may not read its
 * frames. */
static struct dp_lua_state *recent(int i)
{
    struct dp_lua_state *state = dp_lua_thread.recent[i];
    return state && __atomic_load_n(&state->owner, __ATOMIC_ACQUIRE) == dp_lua_thread.number && state->is_readable &&
                   state->main.L && dp_lua_state_is_followed(state)
               ? state
               : NULL;
}

void dp_lua_frames(void *ctx, struct deltaprof_frames *out)
{
    struct search s;
    uint32_t labels = 0;
    int n_resumed = -1;
    if (dp_lua_layout.n_resume)
        n_resumed = deltaprof_frames_count_code(out, dp_lua_layout.resume, dp_lua_layout.n_resume);
    s.out = out;
    s.n = s.n_resumed = 0;
    for (int i = 0; i < DP_LUA_RECENT; i++)
        if (recent(i))
            find_resumed(&s, recent(i));
    for (int i = 0; i < DP_LUA_RECENT && s.n_resumed != (size_t)n_resumed; i++)
        if (recent(i))
            find_others(&s, recent(i), n_resumed);
    for (size_t i = 0; i < s.n; i++)
        labels = labels ? labels : s.all[i].coroutine->labels;
    deltaprof_frames_labels(out, labels);
    if (s.n && __atomic_load_n(&dp_lua_traces, __ATOMIC_RELAXED))
        set_trace(s.all, s.n);
    for (size_t i = 0; i < s.n && push_running(out, &s.all[i]); i++)
        ;
}
