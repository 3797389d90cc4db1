/* SPDX-License-Identifier: MIT */
/*
 * state.h - the profiled Lua states and their coroutines, shared by the files of these hooks. A client of
 * <deltaprof/hooks.h>.
 *
 * "State" is a whole Lua (a global_State); "coroutine" is one lua_State, the main one included. A state is used by one
 * thread at a time, as Lua demands; the thread that called its allocator last is its owner.
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
    bool traced;                    /* whether it has one */
    struct dp_lua_coroutine *next;  /* of the state; the ones that were seen running come first */
    struct dp_lua_coroutine **link; /* the pointer to this one in that list */
    struct dp_lua_coroutine *same;  /* of the bucket */
};

struct dp_lua_captured;

struct dp_lua_state {
    struct dp_lua_coroutine main; /* L is NULL while this struct is unused */
    lua_Alloc real;
    void *real_ud;
    lua_Alloc outer; /* what lua_getallocf gave when dp_lua_alloc was called last for a sample */
    void *outer_ud;
    uint32_t owner;                   /* a thread's number */
    size_t n_thread;                  /* bytes of a coroutine's block; 0: not known yet */
    bool named;                       /* its frames can be read: dp_lua_layout holds for it */
    struct dp_lua_captured *captured; /* frames that were read before their stack moved */
    struct dp_lua_coroutine **buckets;
    size_t n_buckets, n_coroutines;
    struct dp_lua_state *unused; /* the next one, while unused */
};

/* The offsets of the fields that frames.c reads in this build of Lua, found at the first attach. */
struct dp_lua_layout {
    uint16_t L_ci, L_stack, L_jump;
    uint16_t ci_func, ci_previous, ci_status;
    const void *loop;   /* luaV_execute's code */
    size_t n_loop;      /* 0: not found */
    const void *resume; /* lua_resume's code, which is on the C stack once for each coroutine that was resumed */
    size_t n_resume;    /* 0: it is not known that this holds */
};
extern struct dp_lua_layout dp_lua_layout __attribute__((visibility("hidden")));
enum { DP_LUA_STATUS_C = 1 << 1, DP_LUA_STATUS_FRESH = 1 << 2 };

/* Finds the layout from a running Lua. -ENOTSUP: it is not as expected. Context: ordinary. */
int dp_lua_find_layout(lua_State *L);

/* The states that the calling thread used last; some may have another owner by now. Context: hook. */
enum { DP_LUA_RECENT = 8 };
struct dp_lua_thread {
    uint32_t number; /* 0: this thread has no state yet */
    struct dp_lua_state *recent[DP_LUA_RECENT];
};
extern __thread struct dp_lua_thread dp_lua_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Makes the struct for L's state, unless there is one; NULL: no memory. Context: ordinary. */
struct dp_lua_state *dp_lua_state_new(lua_State *main);
/* The state is closed. */
void dp_lua_state_free(struct dp_lua_state *state);
/* The state is about to close, and its memory is not freed through dp_lua_alloc. Context: ordinary. */
void dp_lua_state_forget(struct dp_lua_state *state);
/* The allocator of the state, which calls dp_lua_alloc now, may be one that the program put around it. */
static inline void dp_lua_state_note_allocator(struct dp_lua_state *state)
{
    if (state->main.L)
        state->outer = lua_getallocf(state->main.L, &state->outer_ud);
}
/* Whether dp_lua_alloc still learns which coroutines are freed. Context: hook. */
static inline bool dp_lua_state_is_followed(const struct dp_lua_state *state)
{
    void *ud;
    return lua_getallocf(state->main.L, &ud) == state->outer && ud == state->outer_ud;
}
/* Makes the calling thread, which uses the state, its owner. */
void dp_lua_state_adopt(struct dp_lua_state *state);
static inline void dp_lua_state_use(struct dp_lua_state *state)
{
    if (__builtin_expect(state->owner != dp_lua_thread.number, 0))
        dp_lua_state_adopt(state);
}

/* The coroutines of a state. add and remove use the state's own allocator; without memory a coroutine stays unknown. */
void dp_lua_coroutine_add(struct dp_lua_state *state, lua_State *L);
void dp_lua_coroutine_remove(struct dp_lua_state *state, lua_State *L);
/* Puts it first in the list. Context: hook. */
void dp_lua_coroutine_first(struct dp_lua_state *state, struct dp_lua_coroutine *c);
struct dp_lua_coroutine *dp_lua_coroutine_find(struct dp_lua_state *state, lua_State *L);

/* The state's allocator. */
void *dp_lua_alloc(void *ud, void *old, size_t n_old, size_t n_bytes);
void dp_lua_heap_init(void);

/* The frame provider. Context: hook. */
void dp_lua_frames(void *ctx, struct deltaprof_frames *out);

/* Whether any coroutine was ever given a trace context: then the thread has that of the coroutine it runs. */
extern bool dp_lua_traces __attribute__((visibility("hidden")));

/* The labels of the code that resumed L, which runs; 0: it has none. Context: ordinary. */
uint32_t dp_lua_labels_around(struct dp_lua_state *state, lua_State *L);

/* Reads the frames of the coroutine whose stack is the block `stack`, which is going to move. False: there is no such
 * coroutine running. Context: hook. */
enum { DP_LUA_CAPTURED = 256 };
struct dp_lua_captured {
    lua_State *L;
    uint32_t n;
    struct {
        uint32_t function, line; /* line: the top bit says that a call of the loop ends here */
    } frames[DP_LUA_CAPTURED];
};
bool dp_lua_capture(struct dp_lua_state *state, const void *stack, struct dp_lua_captured *captured);

/* These read fields of Lua's structures. Public headers do not declare their types. */
typedef const char *dp_lua_pointer_field __attribute__((may_alias));
static inline const char *dp_lua_pointer(const void *object, uint16_t offset)
{
    return *(const dp_lua_pointer_field *)((const char *)object + offset);
}
