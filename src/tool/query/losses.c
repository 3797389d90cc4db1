/* SPDX-License-Identifier: MIT */
/*
 * tool/query/losses.c - sums up what comments of files count since the start of a process: losses of the profiler, and
 * bytes that the process allocated. Only the newest file of a process is to be added.
 */
#include "tool/query/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LOSSES 8 /* lines */

/* Adds the comments that begin with a digit: each counts a loss since the process began. */
static int add_losses(struct dp_query *v, const struct dp_decode *d)
{
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n_bytes;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        size_t n_digits = 0;
        int64_t number = 0;
        for (; n_digits < n_bytes && text[n_digits] >= '0' && text[n_digits] <= '9'; n_digits++)
            number = number < INT64_MAX / 20 ? 10 * number + text[n_digits] - '0' : number;
        if (!n_digits || dp_strings_count(&v->lost) > MAX_LOSSES)
            continue;
        if (!v->lost.offsets.n && dp_strings_add(&v->lost, "", 0) == DP_STRINGS_NONE)
            return -ENOMEM;
        uint32_t words = dp_strings_add(&v->lost, text + n_digits, n_bytes - n_digits);
        while (words != DP_STRINGS_NONE && v->n_lost.n <= words) {
            int64_t *to = dp_vec_push(&v->n_lost);
            words = to ? words : DP_STRINGS_NONE;
            if (to)
                *to = 0;
        }
        if (words == DP_STRINGS_NONE)
            return -ENOMEM;
        dp_model_merge_sum(&v->n_lost.at[words], number);
    }
    return 0;
}

int dp_query_losses_add(struct dp_query *v, const struct dp_decode *d)
{
    int64_t bytes = dp_model_merge_number(d, DP_COMMENT_ALLOCATED, -1);
    v->all_tell_allocated &= bytes >= 0;
    if (bytes > 0)
        dp_model_merge_sum(&v->allocated, bytes);
    return add_losses(v, d);
}

int dp_query_losses_sum(struct dp_query *v)
{
    bool ok = dp_strings_add(&v->losses, "", 0) != DP_STRINGS_NONE;
    for (uint32_t i = 1; i < dp_strings_count(&v->lost) && ok; i++) {
        char *text = NULL;
        int n = asprintf(&text, "%lld%s", (long long)v->n_lost.at[i], dp_strings_at(&v->lost, i));
        ok = n >= 0 && dp_strings_add(&v->losses, text, (size_t)n) != DP_STRINGS_NONE;
        free(text);
    }
    if (!v->all_tell_allocated)
        v->allocated = 0;
    return ok ? 0 : -ENOMEM;
}
