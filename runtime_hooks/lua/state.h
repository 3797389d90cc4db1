/* SPDX-License-Identifier: MIT */
/*
 * state.h - the profiled Lua states and their coroutines, for all files of the Lua hooks.
 *
 * A "state" is a Lua interpreter (a global_State). A "coroutine" is one lua_State of it; the main one is included. Lua
 * demands that one thread at a time uses a state. The thread that called the state's allocator last is its owner.
 */
#pragma once

#include <deltaprof/hooks.h>
#include <deltaprof/lua.h>

#include <lauxlib.h>
#include <lua.h>

struct dp_lua_coroutine {
    lua_State *L;
    uint32_t labels;                /* its own label set; 0: it has none */
    uint32_t n_labels;              /* pairs that were pushed in it */
    unsigned char trace[24];        /* its own trace context: 16 bytes of the trace id, 8 of the span id */
    bool has_trace;                 /* `trace` is set */
    struct dp_lua_coroutine *next;  /* in the state's list; those that were seen running come first */
    struct dp_lua_coroutine **link; /* the pointer to this one in that list */
    struct dp_lua_coroutine *next_in_bucket;
};

struct dp_lua_captured;

struct dp_lua_state {
    struct dp_lua_coroutine main; /* L is NULL while this struct is unused */
    lua_Alloc real;               /* the allocator before the attach, which dp_lua_alloc calls */
    void *real_ud;
    lua_Alloc outer; /* the state's allocator at the last sample: dp_lua_alloc, or one that calls it */
    void *outer_ud;
    uint32_t owner;                   /* number of the owner's struct dp_lua_thread */
    size_t n_thread;                  /* bytes of a coroutine's block; 0: not known yet */
    bool is_readable;                 /* its frames can be read: dp_lua_layout is valid for it */
    struct dp_lua_captured *captured; /* the frames of a coroutine whose stack is moving now; NULL: none */
    struct dp_lua_coroutine **buckets;
    size_t n_buckets, n_coroutines;
    struct dp_lua_state *unused; /* the next one, while unused */
};

/* Where this build of Lua has the fields and functions that frames.c uses. Found at the first attach. */
struct dp_lua_layout {
    uint16_t L_ci, L_stack, L_jump;
    uint16_t ci_func, ci_previous, ci_status;
    const void *loop;   /* the code of luaV_execute */
    size_t n_loop;      /* its bytes; 0: not found */
    const void *resume; /* the code of lua_resume: one frame on the C stack for each resumed coroutine */
    size_t n_resume;    /* its bytes; 0: the number of frames may differ */
};
extern struct dp_lua_layout dp_lua_layout __attribute__((visibility("hidden")));
enum { DP_LUA_STATUS_C = 1 << 1, DP_LUA_STATUS_FRESH = 1 << 2 };

/* Finds dp_lua_layout with a running Lua. -ENOTSUP: this Lua has another layout. Context: ordinary. */
int dp_lua_find_layout(lua_State *L);

/* The states that the calling thread used last. Another thread may own some of them now. Context: hook. */
enum { DP_LUA_RECENT = 8 };
struct dp_lua_thread {
    uint32_t number; /* 0: this thread has no state yet */
    struct dp_lua_state *recent[DP_LUA_RECENT];
};
extern __thread struct dp_lua_thread dp_lua_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Returns a struct for the state with this main coroutine; NULL: no memory. Context: ordinary. */
struct dp_lua_state *dp_lua_state_new(lua_State *main);
/* Frees the coroutines of a closed state; the struct is used again. */
void dp_lua_state_free(struct dp_lua_state *state);
/*
 * For a state that is about to close with an allocator that does not call dp_lua_alloc: frees nothing, since the real
 * allocator may be gone. The struct is not used again. Context: ordinary.
 */
void dp_lua_state_forget(struct dp_lua_state *state);
/* Notes the state's allocator: dp_lua_alloc, or one of the program that is known to call dp_lua_alloc. */
static inline void dp_lua_state_note_allocator(struct dp_lua_state *state)
{
    if (state->main.L)
        state->outer = lua_getallocf(state->main.L, &state->outer_ud);
}
/* Whether the state still has the noted allocator, so that dp_lua_alloc sees which coroutines end. Context: hook. */
static inline bool dp_lua_state_is_followed(const struct dp_lua_state *state)
{
    void *ud;
    return lua_getallocf(state->main.L, &ud) == state->outer && ud == state->outer_ud;
}
/* Makes the calling thread the owner of the state that it uses. */
void dp_lua_state_adopt(struct dp_lua_state *state);
static inline void dp_lua_state_use(struct dp_lua_state *state)
{
    if (__builtin_expect(state->owner != dp_lua_thread.number, 0))
        dp_lua_state_adopt(state);
}

/* The coroutines of a state. add and remove use the state's real allocator. Without memory a coroutine is left out. */
void dp_lua_coroutine_add(struct dp_lua_state *state, lua_State *L);
void dp_lua_coroutine_remove(struct dp_lua_state *state, lua_State *L);
/* Moves it to the front of the list; the main coroutine stays first. Context: hook. */
void dp_lua_coroutine_first(struct dp_lua_state *state, struct dp_lua_coroutine *c);
/* NULL: not known. Context: hook. */
struct dp_lua_coroutine *dp_lua_coroutine_find(struct dp_lua_state *state, lua_State *L);

/* The allocator that attach sets in a state: records samples, then calls the real one. ud: struct dp_lua_state. */
void *dp_lua_alloc(void *ud, void *old, size_t n_old, size_t n_bytes);
void dp_lua_heap_init(void);

/* The frame provider. Context: hook. */
void dp_lua_frames(void *ctx, struct deltaprof_frames *out);

/* Whether a program ever set a trace context for a coroutine. Then each sample reads that of the running coroutine. */
extern bool dp_lua_traces __attribute__((visibility("hidden")));

/* The labels of the code that resumed L, a running coroutine; 0: none. Context: ordinary. */
uint32_t dp_lua_labels_around(struct dp_lua_state *state, lua_State *L);

/*
 * Reads the frames of the running coroutine whose Lua stack is the block `stack`, before that block moves. False: there
 * is no such coroutine. Context: hook.
 */
enum { DP_LUA_CAPTURED = 256 };
struct dp_lua_captured {
    lua_State *L;
    uint32_t n;
    struct {
        uint32_t function, line; /* line: top bit set in the function that began a call of the loop */
    } frames[DP_LUA_CAPTURED];
};
bool dp_lua_capture(struct dp_lua_state *state, const void *stack, struct dp_lua_captured *captured);

/* Reads a pointer in a struct of Lua that its public headers do not declare. */
typedef const char *dp_lua_pointer_field __attribute__((may_alias));
static inline const char *dp_lua_pointer(const void *object, uint16_t offset)
{
    return *(const dp_lua_pointer_field *)((const char *)object + offset);
}
