/* SPDX-License-Identifier: MIT */
/*
 * heap.c - records the memory of Lua states as the heap `lua`.
 *
 * dp_lua_alloc becomes the allocator of a state (lua_setallocf) and calls the state's former allocator, the real one.
 * The thread's countdown is guarded around that call, so that memory which the real allocator takes from malloc counts
 * once, as Lua's. A call without a sample costs a subtraction; a free costs a look in the filter of live blocks.
 *
 * For a new object Lua passes the object's type instead of an old size. By that type dp_lua_alloc recognizes
 * coroutines. The block of the main coroutine is the last one that lua_close frees.
 *
 * The program may set another allocator later. Then the end of the state is known by a finalizer (module.c), and frames
 * are read only while that allocator calls dp_lua_alloc.
 */
#include "state.h"

static uint32_t heap;

void dp_lua_heap_init(void)
{
    heap = deltaprof_heap_register("lua");
}

/* Called at the end of a sampled allocation: in an outermost hook the library may create its threads here. */
static inline void poll_if_wanted(void)
{
    if (__builtin_expect(deltaprof_poll_wanted, 0) && !deltaprof_is_guarded())
        deltaprof_poll();
}

/* A sampled path is a separate function. The hook jumps to it, so its caller is the hook's caller. */
#define SAMPLED static __attribute__((noinline))

SAMPLED void *alloc_sampled(void *ud, void *old, size_t type, size_t n)
{
    struct dp_lua_state *state = ud;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    dp_lua_state_note_allocator(state);
    deltaprof_sample_begin(&sample, heap, n);
    void *ptr = state->real(state->real_ud, old, type, n);
    deltaprof_sample_end(&sample, ptr, &site);
    poll_if_wanted();
    return ptr;
}

static void *resize(struct dp_lua_state *state, void *old, size_t n_old, size_t n, struct deltaprof_sample *sample,
                    const struct deltaprof_site *site)
{
    void *ptr = state->real(state->real_ud, old, n_old, n);
    deltaprof_realloc_end(sample, ptr != NULL, ptr, site);
    return ptr;
}

/* The block may be a coroutine's stack. Its frames are read first, because they cannot be read while it moves. */
static __attribute__((noinline)) void *resize_stack(struct dp_lua_state *state, void *old, size_t n_old, size_t n,
                                                    struct deltaprof_sample *sample, const struct deltaprof_site *site)
{
    struct dp_lua_captured captured;
    if (dp_lua_capture(state, old, &captured))
        state->captured = &captured;
    void *ptr = resize(state, old, n_old, n, sample, site);
    state->captured = NULL;
    return ptr;
}

SAMPLED void *realloc_sampled(void *ud, void *old, size_t n_old, size_t n)
{
    enum { STACK_MIN = 40 * 16 }; /* the smallest stack that Lua makes */
    struct dp_lua_state *state = ud;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    dp_lua_state_note_allocator(state);
    deltaprof_realloc_begin(&sample, heap, old, n);
    void *ptr = (n_old < STACK_MIN ? resize : resize_stack)(state, old, n_old, n, &sample, &site);
    poll_if_wanted();
    return ptr;
}

static void *freed(struct dp_lua_state *state, void *old, size_t n_old)
{
    lua_State *L = (lua_State *)(void *)((char *)old + LUA_EXTRASPACE);
    deltaprof_free(heap, old);
    if (n_old == state->n_thread && old)
        dp_lua_coroutine_remove(state, L);
    state->real(state->real_ud, old, n_old, 0);
    if (old && L == state->main.L)
        dp_lua_state_free(state);
    return NULL;
}

/* Allocates a coroutine, and notes the size, which is the same for all coroutines of a state. */
static void *new_coroutine(struct dp_lua_state *state, size_t n)
{
    int64_t rest;
    void *ptr;
    if (deltaprof_countdown_subtract(n, &rest)) {
        ptr = alloc_sampled(state, NULL, LUA_TTHREAD, n);
    } else {
        ptr = state->real(state->real_ud, NULL, LUA_TTHREAD, n);
        deltaprof_countdown_restore(rest);
    }
    state->n_thread = n;
    if (ptr)
        dp_lua_coroutine_add(state, (lua_State *)(void *)((char *)ptr + LUA_EXTRASPACE));
    return ptr;
}

void *dp_lua_alloc(void *ud, void *old, size_t n_old, size_t n)
{
    struct dp_lua_state *state = ud;
    int64_t rest;
    dp_lua_state_use(state);
    if (!n)
        return freed(state, old, n_old);
    if (!old) {
        if (__builtin_expect(n_old == LUA_TTHREAD, 0))
            return new_coroutine(state, n);
        if (deltaprof_countdown_subtract(n, &rest))
            return alloc_sampled(ud, NULL, n_old, n);
    } else if (deltaprof_may_be_live(heap, old) || deltaprof_countdown_subtract(n, &rest)) {
        return realloc_sampled(ud, old, n_old, n);
    }
    void *ptr = state->real(state->real_ud, old, n_old, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}
