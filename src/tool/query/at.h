/* SPDX-License-Identifier: MIT */
/* tool/query/at.h - chooses for each process the state that is shown: that of --at WHEN, or the usual one. */
#pragma once

#include "tool/query/query.h"

/* Reads WHEN into *at, DP_QUERY_AT_. 0, or DP_EXIT_USAGE after one line. */
int dp_query_at_parse(const char *verb, const char *text, int *at);

/* Reads the moments of v->paths, and chooses those that count. 0, or DP_EXIT_FAILED after one line: there is none. */
int dp_query_at_choose(struct dp_query *);

/* The time of a file as people write it, in local time: of today without the date; "" for 0. */
void dp_query_at_text(char *to, size_t n_bytes, int64_t time_ns);
