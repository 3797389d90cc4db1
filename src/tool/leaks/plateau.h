/* SPDX-License-Identifier: MIT */
/* tool/leaks/plateau.h - whether the end of growth is seen: a plateau, or a pace that becomes less. */
#pragma once

#include "tool/leaks/clock.h"

/*
 * The pace, in bytes an hour, of growth until the point `last`, at least 3, of which no end is seen; 0: there is none.
 * all_growth: of the process.
 */
double dp_leaks_plateau_open_pace(const struct dp_leaks_curve *, const struct dp_leaks_clock *, size_t last,
                                  double all_growth);
/* Whether blocks that are kept came more slowly in the second half of the time than in the first one. */
bool dp_leaks_plateau_nears(const struct dp_leaks_curve *, const struct dp_leaks_clock *, size_t last);
/* Whether hardly any block can have leaked, as hardly any was in use at some point of the last quarter. */
bool dp_leaks_plateau_is_empty(const struct dp_leaks_curve *, const struct dp_leaks_clock *, size_t last);
