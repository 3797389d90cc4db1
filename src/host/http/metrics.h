/* SPDX-License-Identifier: MIT */
/* host/http/metrics.h - writes the metrics of this process in the text format of OpenMetrics 1.0, for Prometheus. */
#pragma once

#include "pprof/gzip.h"

/*
 * Writes all metrics by fn. Reads the counters of every heap, block and mutex record once. Returns 0, or fn's error.
 * Context: outside hooks.
 */
int dp_http_metrics_write(dp_pprof_write_fn fn, void *ctx);
