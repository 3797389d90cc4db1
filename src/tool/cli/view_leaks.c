/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/view_leaks.c - puts the verdict of `deltaprof leaks` into the page of `deltaprof view`. src/view/pack.js
 * describes the numbers.
 */
#include "tool/cli/view_leaks.h"

#include "tool/leaks/judge.h"
#include "tool/query/print.h"

#include <errno.h>
#include <math.h>

static int put_number(struct dp_pack *pack, uint64_t number)
{
    uint64_t *to = dp_vec_push(&pack->verdict);
    if (!to)
        return -ENOMEM;
    *to = number;
    return 0;
}

static int put_text(struct dp_pack *pack, const char *text)
{
    uint32_t number;
    return dp_pack_intern_text(pack, text, &number) ?: put_number(pack, number);
}

static int put_leak(struct dp_pack *pack, struct dp_query *query, const struct dp_leaks_row *row, bool is_leak)
{
    int shown = dp_query_row(query, row->row);
    size_t from = row->n_own < query->stack.n ? row->n_own : 0;
    int err = shown < 0 ? shown : 0;
    err = err ?: put_number(pack, is_leak) ?: put_number(pack, (uint64_t)fmax(row->bytes, 0));
    err = err ?: put_number(pack, (uint64_t)fmax(row->bytes_per_hour, 0)) ?: put_number(pack, (uint64_t)lround(1000 * row->confidence));
    err = err ?: put_number(pack, query->stack.n - from);
    for (size_t i = from; i < query->stack.n && !err; i++)
        err = put_text(pack, dp_query_naming_frames_text(&query->frames, query->frames.at.at[query->stack.at[i]].name));
    return err;
}

static int put_verdict(struct dp_pack *pack, struct dp_query *query, const struct dp_leaks *judge)
{
    int err = put_text(pack, dp_leaks_verdict_text(judge->verdict)) ?: put_text(pack, judge->needs) ?: put_number(pack, judge->n_ticks);
    err = err ?: put_number(pack, (uint64_t)judge->work_ns) ?: put_number(pack, (uint64_t)judge->n_samples);
    err = err ?: put_number(pack, judge->leaks.n + judge->suspects.n);
    for (size_t i = 0; i < judge->leaks.n && !err; i++)
        err = put_leak(pack, query, &judge->leaks.at[i], true);
    for (size_t i = 0; i < judge->suspects.n && !err; i++)
        err = put_leak(pack, query, &judge->suspects.at[i], false);
    return err;
}

int dp_cli_view_leaks(struct dp_pack *pack, char **files, size_t n, size_t limit_bytes)
{
    struct dp_query query;
    struct dp_leaks judge = {.view = &query, .least = DP_LEAKS_SURE};
    int status = dp_query_init(&query, "view", 1);
    query.limit_bytes = limit_bytes;
    if (!status)
        status = dp_query_paths_add_all(&query.paths, "view", files, n);
    if (!status)
        status = dp_leaks_judge(&judge);
    if (!status && put_verdict(pack, &query, &judge)) {
        dp_query_print_error("view", "out of memory");
        status = DP_EXIT_FAILED;
    }
    dp_leaks_fini(&judge);
    dp_query_fini(&query);
    return status;
}
