/* SPDX-License-Identifier: MIT */
/* host/thread/end.c - a thread-specific key whose value is 1 + the number of rounds of destructors that are over. */
#include "host/thread/end.h"

#include <stdint.h>

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
