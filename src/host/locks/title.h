/* SPDX-License-Identifier: MIT */
/* host/locks/title.h - sums the rows of a lock profile up in one line, for a comment that people see. */
#pragma once

#include "host/report/delta.h"

/*
 * Writes for example "12 waits, 4.213 s: cond 3.000 s in 2, mutex 1.213 s in 10" into text. unit: what the contentions
 * of this kind are. locks: the filter of the rows, which is named; 0: none.
 */
void dp_title_sum(const struct dp_delta_rules *, const char *unit, unsigned locks, const struct dp_rows *rows,
                  char *text, size_t n_bytes);
