/* SPDX-License-Identifier: MIT */
/* tool/cli/view_leaks.h - puts the verdict of `deltaprof leaks` into the page of `deltaprof view`. */
#pragma once

#include "tool/pack/pack.h"

/*
 * files: heap profiles, whose names give their order. limit_bytes: as --limit. 0, or an exit status after one line on
 * standard error.
 */
int dp_cli_view_leaks(struct dp_pack *, char **files, size_t n, size_t limit_bytes);
