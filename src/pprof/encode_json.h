/* SPDX-License-Identifier: MIT */
/* pprof/encode_json.h - texts of a profile as JSON strings. */
#pragma once

#include "pprof/gzip.h"

/*
 * Writes text as a JSON string with its quotes (RFC 8259). Control characters are escaped; bytes that are not UTF-8
 * become U+FFFD. 0, or what fn returned.
 */
int dp_encode_json_string(const char *text, dp_pprof_write_fn fn, void *ctx);
