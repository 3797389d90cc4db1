/* SPDX-License-Identifier: MIT */
/* host/locks/chain_source.c - joins the stacks of a chain's waiter and holder into one. */
#include "host/locks/chain_source.h"

#include "host/locks/chain.h"
#include "host/report/emit.h"
#include "host/report/table_source.h"

_Static_assert(DP_EMIT_STACK_MAX >= 2 * (DP_STACK_MAX + 1) + 1, "two stacks, both cut, and [held by]");

static void reverse(dp_frame_id *frames, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        dp_frame_id frame = frames[i];
        frames[i] = frames[n - 1 - i];
        frames[n - 1 - i] = frame;
    }
}

size_t dp_chain_tower(const struct dp_record *record, dp_frame_id *frames, size_t *n_holder)
{
    struct dp_chain chain;
    if (!dp_chain_of(record, &chain)) {
        frames[0] = DP_FRAME_OVERFLOW;
        *n_holder = 0;
        return 1;
    }
    size_t n = dp_report_table_shown(DP_KIND_MUTEX, dp_table_record(DP_KIND_MUTEX, chain.holder), frames);
    reverse(frames, n);
    *n_holder = n;
    if (frames[0] != DP_FRAME_HAND_OVER)
        frames[n++] = DP_FRAME_HELD_BY;
    if (chain.waiter == DP_CHAIN_UNKNOWN)
        frames[n++] = DP_FRAME_UNKNOWN_WAITER;
    else
        n += dp_report_table_shown(DP_KIND_BLOCK, dp_table_record(DP_KIND_BLOCK, chain.waiter), frames + n);
    return n;
}
