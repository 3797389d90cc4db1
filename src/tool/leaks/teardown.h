/* SPDX-License-Identifier: MIT */
/* tool/leaks/teardown.h - leaves out the points of a process in which it was ending already. */
#pragma once

#include "tool/leaks/series.h"

/*
 * The process without its teardown, by the in-use values `bytes` of a stack or of all stacks, and by what was in use
 * when the end began. A process that has not ended has none.
 */
struct dp_leaks_process dp_leaks_teardown_skip(const struct dp_leaks_process *, const double *bytes, double end_bytes);
/* The same, by the sum of all curves from p->first_curve on. */
void dp_leaks_teardown_skip_all(const struct dp_leaks_series *, struct dp_leaks_process *p);
