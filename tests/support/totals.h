/* SPDX-License-Identifier: MIT */
/* tests/support/totals.h - the sums over all heap records. */
#pragma once

#include "host/table/table.h"

#include <stdlib.h>

/* Ends the test if more was freed than allocated. */
static inline struct dp_counts totals(void)
{
    struct dp_counts sum = {0}, one;
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_HEAP); id++) {
        dp_table_read(DP_KIND_HEAP, id, &one);
        if (one.n < one.free_n || one.v < one.free_v)
            abort();
        sum.n += one.n, sum.v += one.v, sum.free_n += one.free_n, sum.free_v += one.free_v;
    }
    return sum;
}
