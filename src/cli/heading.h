/* SPDX-License-Identifier: MIT */
/* cli/heading.h - what stands over a table and under it, the same for all verbs. */
#pragma once

#include "cli/query.h"

/* Program, type, where the values come from, and what was chosen of them. */
void dp_cli_heading(const struct dp_cli_query *);

/* If no sample has anything of the type: says why, and what to ask instead. n_rows: samples with something. */
void dp_cli_heading_empty(const struct dp_cli_query *, size_t n_rows);

/* What the profiles say that they lost. */
void dp_cli_heading_losses(const struct dp_cli_query *);

double dp_cli_percent(int64_t part, int64_t whole);
