/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/load.h - the load of a stack, which is the number of blocks that it allocates and frees, as a reason of
 * growth.
 */
#pragma once

#include "tool/leaks/clock.h"
#include "tool/leaks/models.h"

/* Fills w->load of the points from k->warm on. */
void dp_leaks_load_fill(const struct dp_leaks_curve *, const struct dp_leaks_clock *k, struct dp_leaks_window *w);
/*
 * Whether a higher load may explain the growth after the point `first`: by Little's law it raises the level by as much
 * as it rose itself. Both are compared between the first and the last third of the time.
 */
bool dp_leaks_load_rose(const struct dp_leaks_curve *, const struct dp_leaks_clock *, size_t first, size_t last);
