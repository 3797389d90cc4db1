/* SPDX-License-Identifier: MIT */
/* profile/comments.c - makes the comments that have a number, and takes them apart. */
#include "profile/comments.h"

#include "base/text.h"

#include <string.h>

size_t dp_profile_comment_format(char *text, size_t n_bytes, const char *begin, const char *middle, int64_t number)
{
    return dp_text_format(text, n_bytes, "%s%s%lld", begin, middle, (long long)number);
}

/* The digits in [at, end). False: none, other characters, or a number beyond INT64_MAX. */
static bool parse_digits(const char *at, const char *end, int64_t *number)
{
    if (at == end)
        return false;
    for (*number = 0; at < end; at++)
        if (*at < '0' || *at > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, *at - '0', number))
            return false;
    return true;
}

bool dp_profile_comment_number(const char *text, size_t n_bytes, const char *begin, int64_t *number)
{
    size_t n_begin = strlen(begin);
    return n_bytes > n_begin && !memcmp(text, begin, n_begin) && parse_digits(text + n_begin, text + n_bytes, number);
}

bool dp_profile_comment_part(const char *text, size_t n_bytes, const char *begin, const char **name, size_t *n_name,
                             int64_t *part_bytes)
{
    size_t n_begin = strlen(begin);
    if (n_bytes <= n_begin || memcmp(text, begin, n_begin) != 0)
        return false;
    const char *equals = memrchr(text, '=', n_bytes);
    *name = text + n_begin;
    if (!equals || equals <= *name)
        return false;
    *n_name = (size_t)(equals - *name);
    return parse_digits(equals + 1, text + n_bytes, part_bytes);
}
