/* SPDX-License-Identifier: MIT */
/* tool/formats/trace_text.c - collects pieces of text in a buffer, which is written when it is full. */
#include "tool/formats/trace_text.h"

#include "pprof/encode_json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 512 }; /* most bytes of one dp_formats_timeline_say */

static void make_room(struct dp_formats_timeline_text *t)
{
    if (t->n_bytes + PIECE > sizeof t->bytes)
        dp_formats_timeline_text_end(t);
}

void dp_formats_timeline_say(struct dp_formats_timeline_text *t, const char *format, ...)
{
    va_list args;
    make_room(t);
    va_start(args, format);
    int n = vsnprintf(t->bytes + t->n_bytes, PIECE, format, args);
    va_end(args);
    if (n < 0 || n >= PIECE)
        t->err = t->err ? t->err : -EMSGSIZE;
    else
        t->n_bytes += (size_t)n;
}

static int append(void *text, const void *bytes, size_t n_bytes)
{
    struct dp_formats_timeline_text *t = text;
    for (const char *at = bytes; n_bytes;) {
        make_room(t);
        size_t n = n_bytes < PIECE ? n_bytes : PIECE;
        memcpy(t->bytes + t->n_bytes, at, n);
        t->n_bytes += n;
        at += n;
        n_bytes -= n;
    }
    return 0;
}

void dp_formats_timeline_say_string(struct dp_formats_timeline_text *t, const char *text)
{
    dp_encode_json_string(text, append, t);
}

void dp_formats_timeline_say_comma(struct dp_formats_timeline_text *out, size_t i)
{
    if (i)
        dp_formats_timeline_say(out, i % 32 ? "," : ",\n");
}

void dp_formats_timeline_say_column(struct dp_formats_timeline_text *out, const char *name)
{
    dp_formats_timeline_say(out, "\"%s\":[", name);
}

void dp_formats_timeline_say_same(struct dp_formats_timeline_text *out, const char *name, size_t n, const char *value)
{
    dp_formats_timeline_say_column(out, name);
    for (size_t i = 0; i < n; i++) {
        dp_formats_timeline_say_comma(out, i);
        dp_formats_timeline_say(out, "%s", value);
    }
    dp_formats_timeline_say(out, "],");
}

int dp_formats_timeline_text_end(struct dp_formats_timeline_text *t)
{
    if (!t->err && t->n_bytes)
        t->err = t->fn(t->ctx, t->bytes, t->n_bytes);
    t->n_bytes = 0;
    return t->err;
}
