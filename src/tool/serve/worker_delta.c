/* SPDX-License-Identifier: MIT */
/* tool/serve/worker_delta.c - asks the reader of a process for deltas. */
#include "tool/serve/worker_delta.h"

#include "tool/serve/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void dp_serve_worker_ask(struct dp_serve_worker *w, unsigned kind, unsigned flags)
{
    dp_recover_write_begin(w->reader, kind, flags | DELTAPROF_OUTSIDE_RAW);
}

int dp_serve_worker_receive(struct dp_serve_worker *w, unsigned kind, unsigned turn, struct dp_serve_delta **delta)
{
    struct dp_recover_bytes bytes = {.at = {0}};
    struct deltaprof_outside_profile profile;
    *delta = NULL;
    int err = dp_recover_write_end(w->reader, dp_recover_append, &bytes, &profile);
    if (dp_kind_has_levels(kind) && err >= 0)
        w->inuse_bytes = err ? 0 : profile.inuse_bytes;
    if (!err && !(*delta = malloc(sizeof **delta + bytes.at.n)))
        err = -ENOMEM;
    if (!err) {
        **delta = (struct dp_serve_delta){
            .n_users = 1, .kind = kind, .turn = turn, .pid = w->table.pid, .n_bytes = bytes.at.n};
        memcpy((*delta)->table, w->table.name, sizeof w->table.name);
        memcpy((*delta)->bytes, bytes.at.at, bytes.at.n);
    }
    dp_vec_fini(&bytes.at);
    return err < 0 ? err : 0;
}

/* The first delta since the start becomes one since an earlier server. */
static int subtract_before(struct dp_serve_worker *w, struct dp_serve_delta **delta)
{
    struct dp_serve_delta *parts[] = {*delta};
    const struct dp_serve_join join = {
        .deltas = parts, .n = 1, .less = w->before[(*delta)->kind], .turn = (*delta)->turn, .without_pids = true};
    struct dp_serve_delta *rest = dp_serve_join_make(&join, (*delta)->kind);
    if (!rest)
        return -ENOMEM;
    rest->turn = (*delta)->turn;
    rest->pid = (*delta)->pid;
    memcpy(rest->table, (*delta)->table, sizeof rest->table);
    dp_serve_delta_drop(w->before[rest->kind]);
    w->before[rest->kind] = NULL;
    dp_serve_delta_drop(*delta);
    *delta = rest;
    return 0;
}

int dp_serve_worker_pass(struct dp_serve_workers *all, struct dp_serve_worker *w, unsigned kind, unsigned flags,
                         unsigned turn, dp_serve_delta_fn fn, void *ctx)
{
    struct dp_serve_delta *delta;
    int err = dp_serve_worker_receive(w, kind, turn, &delta);
    if (!err && delta && flags & DELTAPROF_OUTSIDE_SINCE_LAST && w->before[kind])
        err = subtract_before(w, &delta);
    all->n_failed += err < 0 && err != -ENOMEM;
    if (!err && delta)
        err = fn(ctx, delta);
    else
        err = err == -ENOMEM ? err : 0;
    dp_serve_delta_drop(delta);
    return err;
}
