/* SPDX-License-Identifier: MIT */
/* tool/serve/pages.h - writes the index and the metrics. Context: with the lock of the family held. */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/family.h"

/* HTML: the processes, and the addresses of the profiles. 0 or a negative errno. */
int dp_serve_pages_index(struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
/* OpenMetrics: sums since start, of each living process and of all processes that have ended. */
int dp_serve_pages_metrics(struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
