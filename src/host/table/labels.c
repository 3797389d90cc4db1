/* SPDX-License-Identifier: MIT */
/*
 * host/table/labels.c - puts the label of a lock and the labels that the program pushed together, and takes them apart.
 *
 * A lock's kind has a fixed number; the program's sets are in label_sets.c. A futex has the value "futex" here; the
 * report replaces it if the names of functions tell another kind.
 */
#include "host/table/labels.h"

#include "host/table/trace_context.h"
#include "profile/lock_kinds.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/locks.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(DP_LOCK_KINDS <= DP_LABELS_LOCKS, "a kind fits below a set's number");
_Static_assert((int)DP_LOCK_MUTEX == DELTAPROF_LOCK_MUTEX && (int)DP_LOCK_WRITE == DELTAPROF_LOCK_WRITE &&
                   (int)DP_LOCK_COND == DELTAPROF_LOCK_COND && (int)DP_LOCK_JOIN == DELTAPROF_LOCK_JOIN &&
                   (int)DP_LOCK_FUTEX == DELTAPROF_LOCK_FUTEX && (int)DP_LOCK_GIL == DELTAPROF_LOCK_GIL,
               "kinds of the public interface have its values");

uint32_t dp_labels_of_lock(unsigned kind)
{
    return kind < DP_LOCK_KINDS ? kind : 0;
}

#define CLASS_SHIFT (DP_LABELS_LOCK_BITS + DP_LABELS_SET_BITS)

uint32_t dp_labels_of_futex(unsigned class)
{
    return (uint32_t) class << CLASS_SHIFT | DELTAPROF_LOCK_FUTEX;
}

bool dp_labels_is_futex(uint32_t labels)
{
    return dp_labels_lock(labels) == DELTAPROF_LOCK_FUTEX;
}

unsigned dp_labels_futex_class(uint32_t labels)
{
    return dp_labels_is_futex(labels) ? labels >> CLASS_SHIFT : 0;
}

uint32_t dp_labels_of_set(uint32_t labels)
{
    return labels >> DP_LABELS_LOCK_BITS & ((1u << DP_LABELS_SET_BITS) - 1);
}

uint32_t dp_labels_with_set(uint32_t lock, uint32_t set)
{
    const uint32_t mask = ((1u << DP_LABELS_SET_BITS) - 1) << DP_LABELS_LOCK_BITS;
    return (lock & ~mask) | (set & mask);
}

size_t dp_labels_get(uint32_t labels, struct dp_label *pairs, size_t max)
{
    uint32_t kind = dp_labels_lock(labels);
    size_t n = 0;
    if (kind && kind < DP_LOCK_KINDS && max)
        pairs[n++] = (struct dp_label){"lock", dp_lock_kind_name(kind)};
    return n + dp_label_set_pairs(dp_labels_of_set(labels), pairs + n, max - n);
}

/* ---- labels of each sample ---- */

_Atomic unsigned dp_labels_added;

void dp_labels_add(bool threads, bool traces)
{
    dp_store_relaxed(&dp_labels_added, (threads ? DP_LABELS_THREAD : 0u) | (traces ? DP_LABELS_TRACE : 0u));
}

static uint32_t add_trace_id(uint32_t set)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t trace[DP_TRACE_WORDS];
    unsigned char bytes[DP_TRACE_ID_BYTES];
    char text[2 * DP_TRACE_ID_BYTES + 1] = {0};
    if (!dp_trace_context_read(trace))
        return set;
    memcpy(bytes, trace, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    uint32_t traced = dp_label_set_find(set, DP_LABELS_TRACE_KEY, text);
    return traced ? traced : set;
}

/* Reads the name at each sample, because it may change at any time, also by another thread. */
static uint32_t add_thread_name(uint32_t set)
{
    char name[16 + 1] = {0}; /* TASK_COMM_LEN */
    int kept = errno;
    bool known = !syscall(SYS_prctl, PR_GET_NAME, name) && *name;
    errno = kept;
    uint32_t named = known ? dp_label_set_find(set, "thread", name) : 0;
    return named ? named : set;
}

uint32_t dp_labels_with_added(uint32_t set, unsigned added)
{
    if (added & DP_LABELS_TRACE)
        set = add_trace_id(set);
    return added & DP_LABELS_THREAD ? add_thread_name(set) : set;
}

/* ---- deltaprof.h ---- */

/* Keys that profiles use themselves: a pair with one of them is pushed without a label, so that its pop finds it. */
static bool is_reserved(const char *key)
{
    static const char *const keys[] = {"lock", DP_LABELS_LOCK_AT_KEY, "heap", "fork", "age", "thread", "bytes"};
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

void deltaprof_trace_set(const unsigned char *trace_id, const unsigned char *span_id)
{
    dp_trace_context_set(trace_id, span_id);
}

uint32_t deltaprof_labels_swap(uint32_t set)
{
    struct dp_thread *thread = dp_thread_self();
    uint32_t before = thread->labels;
    thread->labels = set <= DP_LABEL_SETS ? set : 0;
    thread->labels_lost = 0;
    return before;
}
