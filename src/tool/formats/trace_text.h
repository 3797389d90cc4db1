/* SPDX-License-Identifier: MIT */
/* tool/formats/trace_text.h - writes JSON in pieces to a write function; the first error ends it. */
#pragma once

#include "pprof/gzip.h"

struct dp_formats_timeline_text {
    dp_pprof_write_fn fn;
    void *ctx;
    int err;
    size_t n_bytes;
    char bytes[1 << 16];
};

void dp_formats_timeline_say(struct dp_formats_timeline_text *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void dp_formats_timeline_say_string(struct dp_formats_timeline_text *, const char *text);
/* The head of a column: its name and the bracket that opens its values. */
void dp_formats_timeline_say_column(struct dp_formats_timeline_text *, const char *name);
/* Writes the separator before value i of a column: a comma, and at intervals the end of a line. */
void dp_formats_timeline_say_comma(struct dp_formats_timeline_text *, size_t i);
/* A whole column of n equal values, and the comma after it. */
void dp_formats_timeline_say_same(struct dp_formats_timeline_text *, const char *name, size_t n, const char *value);
/* Writes what is left. 0, or the first error. */
int dp_formats_timeline_text_end(struct dp_formats_timeline_text *);
