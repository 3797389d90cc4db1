/* SPDX-License-Identifier: MIT */
/* tool/query/free_memory.c - reads the comments of free memory. */
#include "tool/query/free_memory.h"

#include "profile/comments.h"
#include "tool/model/merge.h"

#include <string.h>

static void add_part(struct dp_query_free *f, const char *name, size_t n_name, int64_t bytes)
{
    const struct {
        const char *name;
        int64_t *sum;
    } parts[] = {
        {DP_FREE_TRIM, &f->trim_bytes},   {DP_FREE_PINNED, &f->pinned_bytes},     {DP_FREE_ARENAS, &f->arena_bytes},
        {DP_FREE_N, &f->n_arenas},        {DP_FREE_HEAPS, &f->heap_bytes},        {DP_FREE_UNKNOWN, &f->unknown_bytes},
        {DP_FREE_TOP, &f->top_bytes},     {DP_FREE_CACHED, &f->cached_bytes},     {DP_FREE_JEMALLOC, &f->n_jemalloc},
        {DP_FREE_DECAY, &f->decay_bytes}, {DP_FREE_BACKGROUND, &f->n_background}, {DP_FREE_NEVER, &f->n_never_decay}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].name) == n_name && !memcmp(parts[i].name, name, n_name))
            dp_model_merge_sum(parts[i].sum, bytes);
}

static void add_idle(struct dp_query_free *f, const char *name, size_t n_name, int64_t number)
{
    if (n_name == strlen(DP_IDLE_MS) && !memcmp(name, DP_IDLE_MS, n_name))
        f->idle_ms = number;
    else if (n_name == strlen(DP_IDLE_RESIDENT) && !memcmp(name, DP_IDLE_RESIDENT, n_name))
        dp_model_merge_sum(&f->idle_resident_bytes, number);
    else if (n_name == strlen(DP_IDLE_UNTOUCHED) && !memcmp(name, DP_IDLE_UNTOUCHED, n_name))
        dp_model_merge_sum(&f->untouched_bytes, number);
}

static void add_resident(struct dp_query_free *f, const char *name, size_t n_name, int64_t bytes)
{
    if (n_name == strlen(DP_RSS_HELD) && !memcmp(name, DP_RSS_HELD, n_name))
        dp_model_merge_sum(&f->held_bytes, bytes);
    else if (n_name == strlen(DP_RSS_ROUNDING) && !memcmp(name, DP_RSS_ROUNDING, n_name))
        dp_model_merge_sum(&f->rounding_bytes, bytes);
}

void dp_query_free_add(struct dp_query_free *f, const struct dp_decode *d)
{
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n, n_name;
        const char *text = dp_decode_text(d, d->comments.at[i], &n), *name;
        int64_t bytes;
        if (dp_profile_comment_part(text, n, DP_COMMENT_FREE, &name, &n_name, &bytes))
            add_part(f, name, n_name, bytes);
        else if (dp_profile_comment_number(text, n, DP_COMMENT_ZEROS_UNKNOWN, &bytes))
            dp_model_merge_sum(&f->zeros_unknown_bytes, bytes);
        else if (dp_profile_comment_part(text, n, DP_COMMENT_RSS_PART, &name, &n_name, &bytes))
            add_resident(f, name, n_name, bytes);
        else if (dp_profile_comment_part(text, n, DP_COMMENT_IDLE, &name, &n_name, &bytes))
            add_idle(f, name, n_name, bytes);
    }
}
