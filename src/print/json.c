/* SPDX-License-Identifier: MIT */
/* print/json.c - writes JSON; strings are escaped as in RFC 8259. The output is valid JSON for any profile. */
#include "print/json.h"

#include "pprof/encode_utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void dp_print_json_string(const char *text)
{
    size_t n = strlen(text);
    putchar('"');
    while (n) {
        size_t valid = dp_encode_utf8_prefix(text, n);
        for (size_t i = 0; i < valid; i++) {
            unsigned char c = (unsigned char)text[i];
            if (c == '"' || c == '\\')
                printf("\\%c", c);
            else if (c < 0x20 || c == 0x7f)
                printf("\\u%04x", c);
            else
                putchar(c);
        }
        if (valid < n)
            fputs("\\ufffd", stdout);
        n -= valid < n ? valid + 1 : valid;
        text += valid + 1;
    }
    putchar('"');
}

static void key_of(const char *separator, const char *key)
{
    fputs(separator, stdout);
    dp_print_json_string(key);
    putchar(':');
}

void dp_print_json_text(const char *separator, const char *key, const char *text)
{
    key_of(separator, key);
    dp_print_json_string(text);
}

void dp_print_json_number(const char *separator, const char *key, int64_t value)
{
    key_of(separator, key);
    printf("%lld", (long long)value);
}

void dp_print_json_fraction(const char *separator, const char *key, double value)
{
    key_of(separator, key);
    printf("%.6g", isfinite(value) ? value : 0);
}
