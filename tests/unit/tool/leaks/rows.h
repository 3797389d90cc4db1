/* SPDX-License-Identifier: MIT */
/* Curves of a table: a row has the sampled blocks of one stack at each tick, and what the other stacks did. */
#pragma once

#include "tool/leaks/series.h"

#include <stdint.h>
#include <string.h>

enum { ROW_TICKS = 16 };
#define ROW_BLOCK 524288.0 /* bytes that a sampled block counts for */

/* samples: in use at the end of each tick; came: allocated in it; others: the same, of other stacks. */
static inline void fill_row(const double *samples, const double *came, const double *others, struct dp_leaks_process *p,
                            struct dp_leaks_curve *c)
{
    *p = (struct dp_leaks_process){.n_points = ROW_TICKS, .n_ticks = ROW_TICKS, .rate = 524288};
    memset(c, 0, sizeof *c);
    for (int t = 0; t < ROW_TICKS; t++) {
        p->times_ns[t] = (t + 1) * 1000000000LL;
        c->samples[t] = samples[t];
        c->bytes[t] = samples[t] * ROW_BLOCK;
        c->allocated_samples[t] = came[t];
        c->allocated_objects[t] = came[t] * 100;
        p->work[t] = came[t] + others[t];
    }
}
