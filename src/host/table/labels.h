/* SPDX-License-Identifier: MIT */
/*
 * host/table/labels.h - the labels that a record carries besides its stack, as one number: what the calling thread
 * pushed, and the kind of a lock.
 *
 * A number is part of a record's key and never changes its meaning. Context: any.
 */
#pragma once

#include "host/table/label_sets.h"
#include "host/thread/thread.h"
#include "host/unwind/stack.h"

#include <stdbool.h>

/* From the lowest bit on: a lock's kind, the number of the pushed set, the class of a futex (futex_class.h). */
#define DP_LABELS_LOCK_BITS 4
#define DP_LABELS_LOCKS     (1u << DP_LABELS_LOCK_BITS)
#define DP_LABELS_SET_BITS  11
_Static_assert(DP_LABEL_SETS < 1 << DP_LABELS_SET_BITS, "a set fits below a class");

/* Whether samples carry the name of their thread (`thread`), and their trace id (`trace`). */
enum { DP_LABELS_THREAD = 1, DP_LABELS_TRACE = 2 };
void dp_labels_add(bool threads, bool traces);
extern _Atomic unsigned dp_labels_added DP_INTERNAL;

#define DP_LABELS_TRACE_KEY   "trace_id"
#define DP_LABELS_LOCK_AT_KEY "lock_at" /* where a lock is: reports add it (struct dp_kind_source) */

/* The set with those of the two that `added` names: the calling thread's name, and its trace id, if it has one. */
uint32_t dp_labels_with_added(uint32_t set, unsigned added);

/* The labels of a sample: those that a runtime gave with its stack, else the calling thread's; and those added. */
static inline uint32_t dp_labels_now(const struct dp_stack *stack)
{
    bool given = stack->labels - 1 < DP_LABEL_SETS;
    uint32_t set = given ? stack->labels : dp_thread_self()->labels;
    unsigned added = dp_load_relaxed(&dp_labels_added);
    if (__builtin_expect(added, 0))
        set = dp_labels_with_added(set, added);
    return set << DP_LABELS_LOCK_BITS;
}

/* The label {lock: name of kind}; kind is an enum dp_lock_kind below DP_LOCK_KINDS. To be or'ed to dp_labels_now. */
uint32_t dp_labels_of_lock(unsigned kind);

/* The kind in a number, below DP_LABELS_LOCKS; 0: it has no lock. */
static inline unsigned dp_labels_lock(uint32_t labels)
{
    return labels & (DP_LABELS_LOCKS - 1);
}

/* The label of a futex of this class, for the mutex profile. To be or'ed to dp_labels_now. */
uint32_t dp_labels_of_futex(unsigned class);
/* The class of the futex that a number has the label of; 0: it has none. */
unsigned dp_labels_futex_class(uint32_t labels);

/* The number of the pushed set in it. */
uint32_t dp_labels_of_set(uint32_t labels);

/* The lock of one number with the pushed set of another. */
uint32_t dp_labels_with_set(uint32_t lock, uint32_t set);

/* Whether a number has the label of a futex, whose value only a report knows. */
bool dp_labels_is_futex(uint32_t labels);

/* The pairs of a number, each key once; at most max. How many. */
size_t dp_labels_get(uint32_t labels, struct dp_label *pairs, size_t max);
