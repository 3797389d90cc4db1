/* SPDX-License-Identifier: MIT */
/*
 * host/thread/end.c - sees the end of a thread by the destructor of a thread-specific key. Its value counts the rounds
 * of destructors: while another round follows, the destructor sets it again, and so is called again.
 */
#include "host/thread/end.h"

#include <stdint.h>

/* glibc has room for the values of 32 keys in a thread, and allocates it for others; ROUNDS: most in glibc and musl. */
enum { KEYS_IN_THREAD = 32, ROUNDS = 4 };

void dp_thread_end_init(struct dp_thread_end *end, void (*destructor)(void *value))
{
    if (dp_load_relaxed(&end->is_made) || pthread_key_create(&end->key, destructor))
        return;
    if (end->key < KEYS_IN_THREAD)
        dp_store_release(&end->is_made, true); /* [KEY] */
    else
        pthread_key_delete(end->key);
}

void dp_thread_end_watch(struct dp_thread_end *end)
{
    if (dp_load_acquire(&end->is_made)) /* [KEY] */
        pthread_setspecific(end->key, (void *)(uintptr_t)1);
}

bool dp_thread_end_is_last(struct dp_thread_end *end, void *value)
{
    uintptr_t round = (uintptr_t)value;
    return round >= ROUNDS || pthread_setspecific(end->key, (void *)(round + 1));
}
