/* SPDX-License-Identifier: MIT */
/* host/http/metrics.h - writes the profiler's numbers in the text format of OpenMetrics 1.0, which Prometheus scrapes.
 */
#pragma once

#include "pprof/gzip.h"


/* 0, or fn's error. Context: outside hooks; reads every record's counters once. */
int dp_http_metrics_write(dp_pprof_write_fn fn, void *ctx);
