/* SPDX-License-Identifier: MIT */
/* tool/cli/view_summary.h - puts the sentences of `deltaprof summary` into the page of `deltaprof view`. */
#pragma once

#include "tool/pack/pack.h"

/* files: profiles whose names tell their order. 0, or DP_EXIT_FAILED after one line. */
int dp_cli_view_summary(struct dp_pack *, char **files, size_t n, size_t limit_bytes);
