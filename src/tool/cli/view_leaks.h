/* SPDX-License-Identifier: MIT */
/* tool/cli/view_leaks.h - puts the verdict of `deltaprof leaks` into the page of `deltaprof view`. */
#pragma once

#include "tool/pack/pack.h"

/* files: heap profiles whose names tell their order. 0, or DP_EXIT_FAILED after one line. */
int dp_cli_view_leaks(struct dp_pack *, char **files, size_t n, size_t limit_bytes);
