/* SPDX-License-Identifier: MIT */
/*
 * record/labels.c - puts the label of a lock and the labels that the program pushed together, and takes them apart.
 *
 * A lock's kind has a fixed number; the program's sets stand in label_sets.c.
 */
#include "record/labels.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/hooks.h>
#include <stdbool.h>
#include <string.h>

static const struct dp_label of_lock[] = {
    [DELTAPROF_LOCK_MUTEX] = {"lock", "mutex"},
    [DELTAPROF_LOCK_READ] = {"lock", "rwlock-read"},
    [DELTAPROF_LOCK_WRITE] = {"lock", "rwlock-write"},
    [DELTAPROF_LOCK_COND] = {"lock", "cond"},
    [DELTAPROF_LOCK_SEM] = {"lock", "sem"},
    [DELTAPROF_LOCK_SPIN] = {"lock", "spin"},
    [DELTAPROF_LOCK_BARRIER] = {"lock", "barrier"},
    [DELTAPROF_LOCK_JOIN] = {"lock", "join"},
};

#define N_KINDS (sizeof of_lock / sizeof *of_lock)
_Static_assert(N_KINDS <= 1 << DP_LABELS_LOCK_BITS, "a kind fits below a set's number");

uint32_t dp_labels_of_lock(unsigned kind)
{
    return kind < N_KINDS ? kind : 0;
}

size_t dp_labels_get(uint32_t labels, struct dp_label *pairs, size_t max)
{
    uint32_t kind = labels & ((1 << DP_LABELS_LOCK_BITS) - 1);
    size_t n = 0;
    if (kind && kind < N_KINDS && max)
        pairs[n++] = of_lock[kind];
    return n + dp_label_set_pairs(labels >> DP_LABELS_LOCK_BITS, pairs + n, max - n);
}

/* ---- deltaprof.h ---- */

/* Keys that profiles use themselves: a pair with one of them is pushed without a label, so that its pop finds it. */
static bool is_reserved(const char *key)
{
    static const char *const keys[] = {"lock", "heap", "fork", "age", "thread", "bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return !strncmp(key, "pprof::", 7);
}

void deltaprof_label_push(const char *key, const char *value)
{
    struct dp_thread *thread = dp_thread_self();
    bool usable = key && value && *key && !is_reserved(key);
    uint32_t set = thread->labels_lost ? 0 : dp_label_set_find(thread->labels, usable ? key : "", usable ? value : "");
    if (set)
        thread->labels = set;
    else
        thread->labels_lost++;
}

void deltaprof_label_pop(void)
{
    struct dp_thread *thread = dp_thread_self();
    if (thread->labels_lost)
        thread->labels_lost--;
    else
        thread->labels = dp_label_set_parent(thread->labels);
}

uint32_t deltaprof_labels_swap(uint32_t set)
{
    struct dp_thread *thread = dp_thread_self();
    uint32_t before = thread->labels;
    thread->labels = set <= DP_LABEL_SETS ? set : 0;
    thread->labels_lost = 0;
    return before;
}
