/* SPDX-License-Identifier: MIT */
/* tool/summary/leaks.c - asks the judge of leaks, for the verb `leaks` and for one sentence. */
#include "tool/summary/leaks.h"

#include <stdio.h>

int dp_summary_leaks_find(struct dp_summary_leaks *r, char **paths, size_t n_paths)
{
    struct dp_query *v = &r->view;
    v->argument = paths[0];
    int status = dp_query_paths_add_all(&v->paths, v->verb, paths, n_paths);
    if (!status)
        status = dp_query_paths_choose(&v->paths, v->verb, v->kind, "inuse_space");
    if (!status)
        status = dp_leaks_judge(&r->judge);
    return status;
}

void dp_summary_leaks_fini(struct dp_summary_leaks *r)
{
    dp_leaks_fini(&r->judge);
    dp_query_fini(&r->view);
}

/* ---- one sentence ----------------------------------------------------------------------------------------------- */

static void describe_worst(struct dp_summary_leaks_summary *to, struct dp_summary_leaks *r,
                           struct dp_query_stacks *stacks)
{
    const struct dp_leaks_row *worst = &r->judge.leaks.at[0];
    struct dp_query *v = &r->view;
    to->worst_bytes = (int64_t)worst->bytes;
    to->worst_per_hour = (int64_t)worst->bytes_per_hour;
    to->may_be_filling = dp_leaks_may_be_filling(&r->judge, worst);
    if (dp_query_row(v, worst->row) < 0 || !v->stack.n)
        return;
    size_t from = worst->n_own < v->stack.n ? worst->n_own : dp_leaks_shown_frame(v);
    dp_summary_place_text(to->worst, sizeof to->worst, v, from);
    to->stack = dp_query_stacks_add(stacks, v, from);
}

int dp_summary_leaks_summarize(struct dp_summary_leaks_summary *to, const char *verb, char **paths, size_t n_paths,
                               struct dp_query_stacks *stacks)
{
    struct dp_summary_leaks r = {.judge = {.view = &r.view, .least = DP_LEAKS_SURE}};
    *to = (struct dp_summary_leaks_summary){.stack = DP_STRINGS_NONE};
    int status = dp_query_init(&r.view, verb, 1);
    if (!status)
        status = dp_summary_leaks_find(&r, paths, n_paths);
    for (size_t i = 0; i < r.judge.leaks.n && !status; i++)
        to->bytes += (int64_t)r.judge.leaks.at[i].bytes;
    to->n_ticks = r.judge.n_ticks;
    to->work_ns = (int64_t)r.judge.work_ns;
    to->n_leaks = r.judge.leaks.n;
    to->verdict = r.judge.verdict;
    snprintf(to->needs, sizeof to->needs, "%s", r.judge.needs);
    if (!status && to->n_leaks)
        describe_worst(to, &r, stacks);
    dp_summary_leaks_fini(&r);
    return status;
}
