/* SPDX-License-Identifier: MIT */
/* tool/leaks/doubling.h - growth of buffers that are made larger when they are full. */
#pragma once

#include "tool/leaks/clock.h"
#include "tool/leaks/evidence.h"

/*
 * Finds a buffer that doubles when it is full: its curve has steps, and is flat between them. Returns whether the curve
 * is one; then *e has the verdict. bytes: its values as buffers.h settles them. all_growth: of the process.
 */
bool dp_leaks_doubling_find(const struct dp_leaks_process *, const struct dp_leaks_curve *, const double *bytes,
                            const struct dp_leaks_clock *, double all_growth, struct dp_leaks_evidence *e);
/*
 * Whether the buffer would have been full twice since it last became larger, at its pace since it was half as large.
 * settled: its curve by buffers.h.
 */
bool dp_leaks_doubling_is_overdue(const struct dp_leaks_curve *settled, const struct dp_leaks_clock *, size_t last);
