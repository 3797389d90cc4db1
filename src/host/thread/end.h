/* SPDX-License-Identifier: MIT */
/*
 * host/thread/end.h - tells a room when a thread ends, after the destructors of the program: they run in up to four
 * rounds, in each of which they may allocate and use CPU time.
 */
#pragma once

#include "base/atomic.h"

#include <pthread.h>
#include <stdbool.h>

/* Zero: no thread is watched. */
struct dp_thread_end {
    pthread_key_t key;
    _Atomic bool is_made; /* [KEY]: the key is there */
};

/*
 * Makes the key; again: nothing. destructor: must return if dp_thread_end_is_last says no. Without a key below 32,
 * which is in a thread's own memory, no end is seen. Context: any thread, not a hook.
 */
void dp_thread_end_init(struct dp_thread_end *, void (*destructor)(void *value));
/* The calling thread's end is to be seen. */
void dp_thread_end_watch(struct dp_thread_end *);
/* In the destructor, with its argument: whether the last round has come. */
bool dp_thread_end_is_last(struct dp_thread_end *, void *value);
