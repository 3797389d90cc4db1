/* SPDX-License-Identifier: MIT */
/* host/report/totals.c - sums records as a cumulative profile would show them, counter by counter. */
#include "host/report/totals.h"

#include "host/report/kind_source.h"

#include <string.h>

static void add(void *ctx, unsigned lock, const int64_t *values)
{
    struct dp_totals *totals = ctx;
    totals->n_rows++;
    for (size_t i = 0; i < DP_VALUES_MAX; i++)
        totals->values[i] += values[i];
    totals->by_lock[lock].contentions += values[0];
    totals->by_lock[lock].delay_ns += values[1];
}

void dp_totals_read(unsigned kind, struct dp_totals *totals)
{
    const struct dp_delta_rules *rules = dp_kind_source_of(kind)->rules;
    *totals = (struct dp_totals){.n_rows = 0};
    if (rules)
        dp_delta_visit(rules, add, totals);
    if (!dp_kind_table[kind].has_locks)
        memset(totals->by_lock, 0, sizeof totals->by_lock);
}
