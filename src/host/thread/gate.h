/* SPDX-License-Identifier: MIT */
/*
 * host/thread/gate.h - tells an interposer's hooks which events need no call of the library: struct deltaprof_gate.
 */
#pragma once

#include "base/atomic.h"

#include <deltaprof/interpose.h>

/* Below this rate samples are too many to give each a page: at most 1 % of what is allocated. */
#define DP_GATE_RATE_MIN ((int64_t)256 << 10)

/* The gate that is kept, or one of zeros that no hook reads. For the inline functions below. */
extern struct deltaprof_gate *_Atomic dp_thread_gate DP_INTERNAL;
static inline bool dp_thread_gate_is_shut(void)
{
    return dp_load_relaxed((_Atomic uint64_t *)&dp_load_relaxed(&dp_thread_gate)->frees) == 0;
}

/* The registered heap that shares the gate with the C heap; 0: none does. Written once, before that heap's first event.
 */
extern _Atomic uint32_t dp_thread_gate_heap DP_INTERNAL;

/* Whether free recognizes a block with this key by its address, or the key belongs to a heap that has no gate. */
static inline bool dp_thread_gate_knows(uintptr_t key)
{
    uint32_t heap = (uint32_t)(key >> 56);
    return !(key & DELTAPROF_PAGE_MASK) || (heap && heap != dp_load_relaxed(&dp_thread_gate_heap));
}

void dp_thread_gate_add_slow(uintptr_t key);
void dp_thread_gate_remove_slow(uintptr_t key);

/* Whether the gate counts what is in the set of live blocks: until a rate comes that gives no pages. */
static inline bool dp_thread_gate_counts(void)
{
    return dp_load_acquire((const uint8_t *_Atomic *)&dp_load_relaxed(&dp_thread_gate)->pages) != NULL; /* [GATE] */
}

/*
 * Around the time that an entry is in the set of live blocks: add before it is inserted, remove after it was taken.
 * Context: hook.
 */
static inline void dp_thread_gate_add(uintptr_t key)
{
    if (__builtin_expect(dp_thread_gate_counts(), 0))
        dp_thread_gate_add_slow(key);
}
static inline void dp_thread_gate_remove(uintptr_t key)
{
    if (__builtin_expect(dp_thread_gate_counts(), 0))
        dp_thread_gate_remove_slow(key);
}

/* For ever: a block in [start, start + n_bytes) does not pass by on its page. Before the gate is opened, too. */
void dp_thread_gate_mark(uintptr_t start, size_t n_bytes);

/* From now on events are recorded: a gate that is opened later is not kept. Context: init. */
void dp_thread_gate_settle(void);

/* To be called before a heap rate comes into force; 0: off. Any thread. */
void dp_thread_gate_tune_heap(int64_t rate);
/* To be called when lock rates change, before or after they come into force. Any thread. */
void dp_thread_gate_tune_locks(bool on);

/* While the library wants deltaprof_poll to be called, sampled paths are to be reached though the heap is off. */
void dp_thread_gate_keep_polling(bool wanted);
