/* SPDX-License-Identifier: MIT */
/* tool/serve/pages.h - the pages that are no profiles. Context: with the lock of the family. */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/family.h"

/* A list of the processes and of the endpoints. 0 or a negative errno. */
int dp_serve_pages_index(struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
/* OpenMetrics: sums of each living process since it began, and of all that have ended. */
int dp_serve_pages_metrics(struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
