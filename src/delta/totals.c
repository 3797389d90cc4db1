/* SPDX-License-Identifier: MIT */
/* delta/totals.c - sums records as a cumulative profile would show them, counter by counter. */
#include "delta/totals.h"

#include "delta/delta.h"

#include <deltaprof/deltaprof.h>
#include <string.h>

static void add(void *ctx, unsigned lock, const int64_t *values)
{
    struct dp_totals *totals = ctx;
    totals->n_rows++;
    totals->alloc_objects += values[0];
    totals->alloc_bytes += values[1];
    totals->inuse_objects += values[2];
    totals->inuse_bytes += values[3];
    totals->by_lock[lock].contentions += values[0];
    totals->by_lock[lock].delay_ns += values[1];
}

void dp_totals_read(unsigned kind, struct dp_totals *totals)
{
    *totals = (struct dp_totals){0};
    dp_delta_visit(kind, add, totals);
    if (kind == DELTAPROF_HEAP) {
        memset(totals->by_lock, 0, sizeof totals->by_lock);
        return;
    }
    totals->contentions = totals->alloc_objects;
    totals->delay_ns = totals->alloc_bytes;
    totals->alloc_objects = totals->alloc_bytes = 0;
}
