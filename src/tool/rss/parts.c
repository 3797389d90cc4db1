/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/parts.c - adds up parts of resident memory, and brings those of a profile up to date with the mappings of
 * the running process.
 */
#include "tool/rss/rss.h"

#include "tool/model/merge.h"

#include <stdio.h>
#include <string.h>

bool dp_rss_add(struct dp_rss *rss, const char *name, int64_t bytes)
{
    if (bytes <= 0)
        return true;
    for (size_t i = 0; i < rss->parts.n; i++)
        if (!strcmp(rss->parts.at[i].name, name)) {
            dp_model_merge_sum(&rss->parts.at[i].bytes, bytes);
            return true;
        }
    struct dp_rss_part *part = dp_vec_push(&rss->parts);
    if (!part)
        return false;
    snprintf(part->name, sizeof part->name, "%s", name);
    part->bytes = bytes;
    return true;
}

/* 0: no such part. */
static int64_t bytes_of(const struct dp_rss *rss, const char *name)
{
    for (size_t i = 0; i < rss->parts.n; i++)
        if (!strcmp(rss->parts.at[i].name, name))
            return rss->parts.at[i].bytes;
    return 0;
}

int64_t dp_rss_explained(const struct dp_rss *rss)
{
    int64_t sum = 0;
    for (size_t i = 0; i < rss->parts.n; i++)
        dp_model_merge_sum(&sum, rss->parts.at[i].bytes);
    return sum;
}

void dp_rss_fini(struct dp_rss *rss)
{
    dp_vec_fini(&rss->parts);
}

/* Whether a part of a profile is seen in the mappings of the process itself. */
static bool is_measured(const char *name, const struct dp_rss_process *p)
{
    return !strcmp(name, DP_RSS_STACKS) || !strcmp(name, DP_RSS_FILES) || (p->self_bytes && !strcmp(name, DP_RSS_SELF));
}

static void add_signed(struct dp_rss *rss, const char *name, int64_t bytes)
{
    for (size_t i = 0; i < rss->parts.n; i++)
        if (!strcmp(rss->parts.at[i].name, name))
            rss->parts.at[i].bytes += bytes;
}

/* Brings malloc's parts of a profile up to date. fresh_bytes: resident memory that came since. False: out of memory. */
static bool grow_in_use(struct dp_rss *then, int64_t fresh_bytes)
{
    int64_t grown = then->grown_bytes, held = bytes_of(then, DP_RSS_HELD), in_use = bytes_of(then, DP_RSS_IN_USE);
    if (grown <= 0) {
        grown = -grown < in_use ? grown : -in_use;
        add_signed(then, DP_RSS_IN_USE, grown);
        return dp_rss_add(then, DP_RSS_HELD, -grown);
    }
    int64_t of_fresh = fresh_bytes < 0 ? 0 : grown < fresh_bytes ? grown : fresh_bytes;
    int64_t of_held = grown - of_fresh < held ? grown - of_fresh : held;
    then->absent_bytes += grown - of_fresh - of_held;
    add_signed(then, DP_RSS_HELD, -of_held);
    return dp_rss_add(then, DP_RSS_IN_USE, of_fresh + of_held);
}

bool dp_rss_combine(const struct dp_rss_process *now, struct dp_rss *then, struct dp_rss *rss)
{
    struct dp_rss kinds = {.parts = {0}};
    bool ok = dp_rss_process_parts(now, &kinds) && grow_in_use(then, kinds.anonymous_bytes - then->anonymous_bytes);
    int64_t measured = bytes_of(&kinds, DP_RSS_STACKS) + bytes_of(&kinds, DP_RSS_FILES) + now->self_bytes;
    int64_t rest = kinds.anonymous_bytes - measured, told = 0;
    *rss = kinds;
    rss->parts.at = NULL;
    rss->parts.n = rss->parts.cap = 0;
    rss->is_profiled = true;
    rss->error_bytes = then->error_bytes;
    rss->absent_bytes = then->absent_bytes;
    rss->time_ns = then->time_ns;
    for (size_t i = 0; i < then->parts.n; i++)
        told += is_measured(then->parts.at[i].name, now) ? 0 : then->parts.at[i].bytes;
    int64_t gone = told > rest ? told - rest : 0, held = bytes_of(then, DP_RSS_HELD);
    int64_t of_held = gone < held ? gone : held, left = told - of_held;
    for (size_t i = 0; i < then->parts.n && ok; i++) {
        const struct dp_rss_part *part = &then->parts.at[i];
        int64_t bytes = part->bytes - (strcmp(part->name, DP_RSS_HELD) ? 0 : of_held);
        if (is_measured(part->name, now))
            continue;
        if (left > rest) /* more was freed than malloc held: all parts shrink in proportion */
            bytes = (int64_t)((double)bytes * ((double)rest / (double)left));
        ok = dp_rss_add(rss, part->name, bytes);
    }
    ok = ok && dp_rss_add(rss, DP_RSS_STACKS, bytes_of(&kinds, DP_RSS_STACKS)) &&
         dp_rss_add(rss, DP_RSS_FILES, bytes_of(&kinds, DP_RSS_FILES)) && dp_rss_add(rss, DP_RSS_SELF, now->self_bytes);
    dp_rss_fini(&kinds);
    return ok;
}
