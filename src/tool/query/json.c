/* SPDX-License-Identifier: MIT */
/* tool/query/json.c - writes JSON; the output is valid JSON for any profile. */
#include "tool/query/json.h"

#include "pprof/encode_json.h"

#include <math.h>
#include <stdio.h>

static int to_stdout(void *ctx, const void *bytes, size_t n_bytes)
{
    (void)ctx;
    fwrite(bytes, 1, n_bytes, stdout); /* errors are asked for at the end */
    return 0;
}

void dp_query_print_json_string(const char *text)
{
    dp_encode_json_string(text, to_stdout, NULL);
}

static void key_of(const char *separator, const char *key)
{
    fputs(separator, stdout);
    dp_query_print_json_string(key);
    putchar(':');
}

void dp_query_print_json_text(const char *separator, const char *key, const char *text)
{
    key_of(separator, key);
    dp_query_print_json_string(text);
}

void dp_query_print_json_number(const char *separator, const char *key, int64_t value)
{
    key_of(separator, key);
    printf("%lld", (long long)value);
}

void dp_query_print_json_fraction(const char *separator, const char *key, double value)
{
    key_of(separator, key);
    printf("%.6g", isfinite(value) ? value : 0);
}
