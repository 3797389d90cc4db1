/* SPDX-License-Identifier: MIT */
/* tool/leaks/doubling.h - growth of buffers that are made larger when they are full. */
#pragma once

#include "tool/leaks/clock.h"
#include "tool/leaks/evidence.h"

/*
 * Whether the curve, whose bytes settle as `bytes`, is flat between steps of a buffer that doubles; then *e has the
 * verdict. all_growth: of the process.
 */
bool dp_leaks_doubling_find(const struct dp_leaks_process *, const struct dp_leaks_curve *, const double *bytes,
                            const struct dp_leaks_clock *, double all_growth, struct dp_leaks_evidence *e);
/*
 * Whether a buffer, of what settled, would have been full twice since it last became larger, at its pace since it was
 * half as large.
 */
bool dp_leaks_doubling_is_overdue(const struct dp_leaks_curve *settled, const struct dp_leaks_clock *, size_t last);
