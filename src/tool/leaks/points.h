/* SPDX-License-Identifier: MIT */
/* tool/leaks/points.h - joins points of the curves of a process: the last one of a series that is being read.
 */
#pragma once

#include "tool/leaks/series.h"

/* Halves the number of points. The first one stays alone: programs begin in it. */
void dp_leaks_points_join(struct dp_leaks_series *, struct dp_leaks_process *);
