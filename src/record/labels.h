/* SPDX-License-Identifier: MIT */
/*
 * record/labels.h - the labels that a record carries besides its stack, as one number: what the calling thread pushed,
 * and the kind of a lock.
 *
 * A number is part of a record's key and never changes its meaning. Context: any.
 */
#pragma once

#include "record/label_sets.h"
#include "record/thread.h"

#define DP_LABELS_LOCK_BITS 4 /* below the number of the pushed set */

/* The calling thread's labels. */
static inline uint32_t dp_labels_now(void)
{
    return dp_thread_self()->labels << DP_LABELS_LOCK_BITS;
}

/* The label {lock: name of kind}; kind is an enum deltaprof_lock_kind. To be or'ed to dp_labels_now(). */
uint32_t dp_labels_of_lock(unsigned kind);

/* The pairs of a number, each key once; at most max. How many. */
size_t dp_labels_get(uint32_t labels, struct dp_label *pairs, size_t max);
