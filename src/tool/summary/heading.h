/* SPDX-License-Identifier: MIT */
/* tool/summary/heading.h - prints the lines above and below a table, the same for all verbs. */
#pragma once

#include "tool/query/query.h"

/* Prints program, type, the source of the values, and the filters. */
void dp_summary_heading(const struct dp_query *);

/* If no sample has a value of the type: prints why, and what to try instead. n_rows: samples with a value. */
void dp_summary_heading_empty(const struct dp_query *, size_t n_rows);

/* If many functions have no name: prints what would give them names. Called by dp_summary_heading_losses. */
void dp_summary_heading_symbols(const struct dp_query *);
/* The same as text. False: there is nothing to say. */
bool dp_summary_heading_no_symbols(const struct dp_query *, char *text, size_t n_bytes);

/* Prints what follows the rows: names that are missing, and the losses recorded in the profiles. */
void dp_summary_heading_losses(const struct dp_query *);

/* An interval, as text, that gives a program that ran so long at least 16 ticks. */
const char *dp_summary_interval(int64_t duration_ns);
double dp_summary_percent(int64_t part, int64_t whole);
