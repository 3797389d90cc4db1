/* SPDX-License-Identifier: MIT */
/*
 * endpoint/openmetrics.h - writes lines of OpenMetrics text.
 *
 * Source: the OpenMetrics specification 1.0. A family is a TYPE, a UNIT and a HELP line, then its samples. Units are
 * the base ones (bytes, seconds), a counter's sample ends in _total, a unit is the end of its family's name, and # EOF
 * ends the text. Labels are the caller's, and need no escape.
 */
#pragma once

#include "pprof/gzip.h"

#define DP_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct dp_openmetrics {
    dp_pprof_write_fn fn;
    void *ctx;
    int err; /* the first; later lines are dropped */
};

/* A text of more than 1,023 bytes is not printed, and err becomes -EMSGSIZE. */
void dp_openmetrics_print(struct dp_openmetrics *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins the family deltaprof_NAME. type: counter or gauge. unit: "" or the end of the name. help: "" or a sentence. */
void dp_openmetrics_family(struct dp_openmetrics *, const char *name, const char *type, const char *unit,
                           const char *help);
