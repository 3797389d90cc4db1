/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiters.c - lists of one cache line: seven waiters, and the time up to which a holder has paid. Several
 * slots of contended.c share a list; a tag in each word tells them apart.
 *
 *     waiter    record of its stack (32 bits), tag (3), when its wait began (29)      0: free
 *     paid                                 0, tag (3), time (29)
 *
 * Times are in units of 8,192 ns, modulo 73 minutes. The thread that waits claims a free word by CAS and clears it when
 * its wait ends; a wait that was abandoned stays listed, as it stays counted in contended.c. A holder that pays at t
 * owes each waiter t less the later of its begin and the last payment. These parts are only weights: the sum that the
 * holder owes is contended.c's. So a part that was rounded, or has wrapped, moves time between the waiters of one
 * holder, and never changes the sum.
 *
 * [LISTED] A word is stored with release and loaded with acquire: a holder that finds a record's id finds the record
 * made.
 */
#include "host/locks/waiters.h"

#include "base/atomic.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

enum { LISTS = 4096, UNIT_SHIFT = 13, TIME_BITS = 29 };
_Static_assert((DP_CONTENDED_SLOTS + LISTS - 1) / LISTS <= 8, "tags have three bits");

struct list {
    _Alignas(64) _Atomic uint64_t at[DP_WAITERS_MOST];
    _Atomic uint64_t paid;
};

static struct list *lists;
static _Atomic bool used; /* since the fork; relaxed: for the thread that writes, or its child */

static struct list *list_of(dp_contended_slot slot)
{
    return &lists[slot % LISTS];
}

/* The low half of a word. */
static uint32_t tagged(dp_contended_slot slot, int64_t ns)
{
    return (uint32_t)(slot / LISTS) << TIME_BITS | ((uint32_t)((uint64_t)ns >> UNIT_SHIFT) & ((1u << TIME_BITS) - 1));
}

static bool is_of(uint64_t word, dp_contended_slot slot)
{
    return ((uint32_t)word >> TIME_BITS) == slot / LISTS;
}

/* From the time of one word to that of another; both tags are the same. */
static uint32_t between(uint32_t from, uint32_t to)
{
    return (to - from) & ((1u << TIME_BITS) - 1);
}

int dp_waiters_init(void)
{
    if (!lists)
        lists = dp_mem_table(LISTS * sizeof *lists);
    return lists ? 0 : -ENOMEM;
}

dp_waiters_entry dp_waiters_add(dp_contended_slot slot, dp_record_id record, int64_t begin_ns)
{
    if (!lists || !slot)
        return 0;
    dp_store_relaxed(&used, true);
    struct list *list = list_of(slot);
    uint64_t word = (uint64_t)record << 32 | tagged(slot, begin_ns) | 1;
    for (unsigned i = 0; i < DP_WAITERS_MOST; i++) {
        uint64_t none = 0;
        if (!dp_load_relaxed(&list->at[i]) && dp_cas_publish(&list->at[i], &none, word)) /* [LISTED] */
            return (dp_waiters_entry)(i + 1);
    }
    return 0;
}

void dp_waiters_remove(dp_contended_slot slot, dp_waiters_entry entry)
{
    if (slot && entry)
        dp_store_relaxed(&list_of(slot)->at[entry - 1], 0);
}

unsigned dp_waiters_pay(dp_contended_slot slot, int64_t now_ns, struct dp_waiter waiters[DP_WAITERS_MOST])
{
    if (!lists || !slot)
        return 0;
    dp_store_relaxed(&used, true);
    struct list *list = list_of(slot);
    uint32_t now = tagged(slot, now_ns), paid = (uint32_t)dp_load_relaxed(&list->paid);
    uint32_t since_paid = is_of(paid, slot) ? between(paid, now) : UINT32_MAX;
    unsigned n = 0;
    for (unsigned i = 0; i < DP_WAITERS_MOST; i++) {
        uint64_t word = dp_load_acquire(&list->at[i]); /* [LISTED] */
        uint32_t waited = between((uint32_t)word, now | 1);
        if (word && is_of(word, slot))
            waiters[n++] = (struct dp_waiter){(dp_record_id)(word >> 32), waited < since_paid ? waited : since_paid};
    }
    dp_store_relaxed(&list->paid, now);
    return n;
}

DP_IN_CHILD void dp_waiters_fork_child(void)
{
    if (!dp_load_relaxed(&used))
        return;
    dp_store_relaxed(&used, false);
    madvise(lists, LISTS * sizeof *lists, MADV_DONTNEED);
}
