/* SPDX-License-Identifier: MIT */
/* pprof/encode_json.c - writes JSON strings: in pieces, each as long as nothing in it is escaped. */
#include "pprof/encode_json.h"

#include "pprof/encode_utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_plain(char c)
{
    return (unsigned char)c >= ' ' && c != 0x7f && c != '"' && c != '\\';
}

/* The text is valid UTF-8. */
static int write_valid(const char *text, size_t n_bytes, dp_pprof_write_fn fn, void *ctx)
{
    int err = 0;
    for (size_t i = 0, n; i < n_bytes && !err; i += n) {
        char escaped[8];
        for (n = 0; i + n < n_bytes && is_plain(text[i + n]);)
            n++;
        if (n) {
            err = fn(ctx, text + i, n);
            continue;
        }
        int n_escaped =
            snprintf(escaped, sizeof escaped, text[i] == '"' || text[i] == '\\' ? "\\%c" : "\\u%04x", text[i]);
        err = fn(ctx, escaped, (size_t)n_escaped);
        n = 1;
    }
    return err;
}

int dp_encode_json_string(const char *text, dp_pprof_write_fn fn, void *ctx)
{
    size_t n_bytes = strlen(text);
    int err = fn(ctx, "\"", 1);
    while (n_bytes && !err) {
        size_t n_valid = dp_encode_utf8_prefix(text, n_bytes), n_wrong = n_valid < n_bytes;
        err = write_valid(text, n_valid, fn, ctx);
        if (n_wrong && !err)
            err = fn(ctx, "\\ufffd", 6);
        text += n_valid + n_wrong;
        n_bytes -= n_valid + n_wrong;
    }
    return err ? err : fn(ctx, "\"", 1);
}
