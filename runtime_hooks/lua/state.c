/* SPDX-License-Identifier: MIT */
/*
 * state.c - the profiled Lua states and their coroutines.
 *
 * Lua does not tell its allocator which coroutine allocates. So each state has a list of its coroutines. The allocator
 * sees that a coroutine is made: Lua passes the type of a new object as the old size. The allocator sees that one is
 * freed: the block has the size of a coroutine, and a hash of its address finds it. A coroutine that is older than the
 * attach is not in the list, except the one that attaches.
 *
 * A struct dp_lua_state is never freed. When its state is closed, the struct goes to the list `unused`. The reason: a
 * thread may still read the states that it used last, after another thread closed them. The thread then sees another
 * owner.
 */
#include "state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__thread struct dp_lua_thread dp_lua_thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dp_lua_state *unused;
static uint32_t n_threads;

struct dp_lua_state *dp_lua_state_new(lua_State *main)
{
    pthread_mutex_lock(&lock);
    struct dp_lua_state *state = unused;
    if (state)
        unused = state->unused;
    pthread_mutex_unlock(&lock);
    if (!state) {
        int64_t kept = deltaprof_guard_enter();
        state = malloc(sizeof *state);
        deltaprof_guard_exit(kept);
    }
    if (state) {
        *state = (struct dp_lua_state){.main.L = main, .owner = UINT32_MAX};
        state->real = lua_getallocf(main, &state->real_ud);
    }
    return state;
}

static void *resize(struct dp_lua_state *state, void *old, size_t n_old, size_t n)
{
    int64_t kept = deltaprof_guard_enter();
    void *ptr = state->real(state->real_ud, old, n_old, n);
    deltaprof_guard_exit(kept);
    return ptr;
}

void dp_lua_state_free(struct dp_lua_state *state)
{
    for (struct dp_lua_coroutine *c = state->main.next, *next; c; c = next) {
        next = c->next;
        resize(state, c, sizeof *c, 0);
    }
    if (state->buckets)
        resize(state, state->buckets, state->n_buckets * sizeof *state->buckets, 0);
    *state = (struct dp_lua_state){.owner = UINT32_MAX};
    pthread_mutex_lock(&lock);
    state->unused = unused;
    unused = state;
    pthread_mutex_unlock(&lock);
}

void dp_lua_state_forget(struct dp_lua_state *state)
{
    /* Some of its blocks may yet be freed through dp_lua_alloc, and the real allocator may be gone: nothing is freed,
     * and the struct is not used again. */
    __atomic_store_n(&state->owner, UINT32_MAX, __ATOMIC_RELEASE);
    state->is_readable = false;
    state->main = (struct dp_lua_coroutine){.L = NULL};
    state->buckets = NULL;
    state->n_buckets = state->n_coroutines = 0;
}

void dp_lua_state_adopt(struct dp_lua_state *state)
{
    struct dp_lua_thread *thread = &dp_lua_thread;
    if (!thread->number)
        thread->number = __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED);
    size_t i = 0;
    while (i < DP_LUA_RECENT - 1 && thread->recent[i] && thread->recent[i] != state)
        i++;
    memmove(&thread->recent[1], &thread->recent[0], i * sizeof *thread->recent);
    thread->recent[0] = state;
    __atomic_store_n(&state->owner, thread->number, __ATOMIC_RELEASE);
}

/* ---- coroutines ------------------------------------------------------------------------------------------------- */

static struct dp_lua_coroutine **bucket_of(const struct dp_lua_state *state, const lua_State *L)
{
    return &state->buckets[((uintptr_t)L >> 4) * 0x9E3779B97F4A7C15u >> 32 & (state->n_buckets - 1)];
}

/* Doubles the buckets; without memory they stay as they are. */
static void grow(struct dp_lua_state *state)
{
    size_t n = state->n_buckets ? state->n_buckets * 2 : 16;
    struct dp_lua_coroutine **buckets = resize(state, NULL, 0, n * sizeof *buckets);
    if (!buckets)
        return;
    memset(buckets, 0, n * sizeof *buckets);
    if (state->buckets)
        resize(state, state->buckets, state->n_buckets * sizeof *buckets, 0);
    state->buckets = buckets;
    state->n_buckets = n;
    for (struct dp_lua_coroutine *c = state->main.next; c; c = c->next) {
        struct dp_lua_coroutine **bucket = bucket_of(state, c->L);
        c->next_in_bucket = *bucket;
        *bucket = c;
    }
}

static void link_first(struct dp_lua_state *state, struct dp_lua_coroutine *c)
{
    c->next = state->main.next;
    c->link = &state->main.next;
    if (c->next)
        c->next->link = &c->next;
    state->main.next = c;
}

static void unlink_from_list(struct dp_lua_coroutine *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
}

void dp_lua_coroutine_first(struct dp_lua_state *state, struct dp_lua_coroutine *c)
{
    if (c == &state->main || c == state->main.next)
        return;
    unlink_from_list(c);
    link_first(state, c);
}

void dp_lua_coroutine_add(struct dp_lua_state *state, lua_State *L)
{
    if (state->n_coroutines >= state->n_buckets)
        grow(state);
    struct dp_lua_coroutine *c = state->n_buckets ? resize(state, NULL, 0, sizeof *c) : NULL;
    if (!c)
        return;
    struct dp_lua_coroutine **bucket = bucket_of(state, L);
    *c = (struct dp_lua_coroutine){.L = L, .next_in_bucket = *bucket};
    *bucket = c;
    link_first(state, c);
    state->n_coroutines++;
}

void dp_lua_coroutine_remove(struct dp_lua_state *state, lua_State *L)
{
    struct dp_lua_coroutine **at = state->n_buckets ? bucket_of(state, L) : NULL;
    while (at && *at && (*at)->L != L)
        at = &(*at)->next_in_bucket;
    if (!at || !*at)
        return;
    struct dp_lua_coroutine *c = *at;
    *at = c->next_in_bucket;
    unlink_from_list(c);
    state->n_coroutines--;
    resize(state, c, sizeof *c, 0);
}

struct dp_lua_coroutine *dp_lua_coroutine_find(struct dp_lua_state *state, lua_State *L)
{
    if (L == state->main.L)
        return &state->main;
    struct dp_lua_coroutine *c = state->n_buckets ? *bucket_of(state, L) : NULL;
    while (c && c->L != L)
        c = c->next_in_bucket;
    return c;
}
