/* SPDX-License-Identifier: MIT */
/* delta/title.h - sums the rows of a lock profile up in one line, for a comment that people see. */
#pragma once

#include "delta/delta.h"

/*
 * Writes for example "12 waits, 4.213 s: cond 3.000 s in 2, mutex 1.213 s in 10" into text. locks: the filter of the
 * rows, which is named; 0: none. An empty text for a kind that is not of locks.
 */
void dp_title_sum(unsigned kind, unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes);
