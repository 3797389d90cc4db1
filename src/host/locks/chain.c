/* SPDX-License-Identifier: MIT */
/*
 * host/locks/chain.c - a record of a chain has two numbers for a stack, where other kinds have frames: the record of
 * the waiter and that of the holder. So a chain costs 8 bytes of stack, however deep both stacks are; reports join them
 * (lock_source.c).
 *
 * Its labels are those that the waiting thread had pushed, and the lock of the holder's record: the lock's kind, or the
 * class of the futex, which a report turns into a kind.
 */
#include "host/locks/chain.h"

#include "host/table/labels.h"
#include "host/table/record.h"

enum { ENDS = 2 };

static uint32_t labels_of(dp_record_id waiter, dp_record_id holder)
{
    uint32_t lock = dp_table_record(DP_KIND_MUTEX, holder)->labels;
    return dp_labels_with_set(lock, waiter == DP_CHAIN_UNKNOWN ? 0 : dp_table_record(DP_KIND_BLOCK, waiter)->labels);
}

void dp_chain_add(dp_record_id waiter, dp_record_id holder, int64_t n, int64_t ns)
{
    const dp_frame_id ends[ENDS] = {waiter, holder};
    struct dp_stack stack = {.hash = dp_stack_hash(ends, ENDS), .depth = ENDS, .frames = ends};
    dp_record_id id;
    if (dp_record_find(DP_KIND_CHAIN, 0, labels_of(waiter, holder), &stack, &id))
        dp_table_add(DP_KIND_CHAIN, id, n, ns);
}

bool dp_chain_has_valid_ids(const dp_frame_id *ids, uint32_t n)
{
    return n != ENDS || ((ids[0] == DP_CHAIN_UNKNOWN || ids[0] < dp_table_count(DP_KIND_BLOCK)) &&
                         ids[1] < dp_table_count(DP_KIND_MUTEX));
}

bool dp_chain_of(const struct dp_record *record, struct dp_chain *chain)
{
    const dp_frame_id *ends = dp_table_frames(record);
    if (record->depth != ENDS)
        return false;
    *chain = (struct dp_chain){.waiter = ends[0], .holder = ends[1]};
    return true;
}
