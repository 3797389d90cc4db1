/* SPDX-License-Identifier: MIT */
/* tool/leaks/points.h - joins and drops points of the curves of a process: the last one of a series that is being read.
 */
#pragma once

#include "tool/leaks/series.h"

/* Halves the number of points. The first one stays alone: programs begin in it. */
void dp_leaks_points_join(struct dp_leaks_series *, struct dp_leaks_process *);
/*
 * Programs that end may free their memory before exit(): the last points, with little work and less memory in use
 * than just before, say nothing about what the program did.
 */
void dp_leaks_points_skip_shutdown(const struct dp_leaks_series *, struct dp_leaks_process *);
/*
 * The process without its teardown, of in-use values `bytes` of a stack or of all: at the end of a process that ended,
 * each point that lost more than half is teardown, and one before in which it may have begun; they say nothing about
 * the time before. If a fall like it came earlier in the run, that is how the program works, and no teardown. A program
 * may free one table at its end and leave others, so each stack has its own.
 */
struct dp_leaks_process dp_leaks_points_before_teardown(const struct dp_leaks_process *, const double *bytes);
