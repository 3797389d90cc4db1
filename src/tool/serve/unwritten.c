/* SPDX-License-Identifier: MIT */
/* tool/serve/unwritten.c - tries to write the last files of ended processes until it can be done. */
#include "tool/serve/unwritten.h"

#include "base/clock.h"
#include "tool/query/print.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_LEAST_NS INT64_C(500000000)
#define PAUSE_MOST_NS  INT64_C(15000000000)
enum { UNWRITTEN_MOST = 512 }; /* the tables of more would fill the tmpfs */

static void drop_totals(struct dp_serve_unwritten *u)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        dp_serve_delta_drop(u->totals[kind]);
}

void dp_serve_unwritten_settle(struct dp_serve_workers *all, struct dp_serve_unwritten *u)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        if (u->totals[kind] && dp_serve_workers_add_ended(all, u->totals[kind]))
            all->n_failed++;
    drop_totals(u);
}

static void remove_first(struct dp_serve_workers *all)
{
    struct dp_serve_unwritten *at = all->unwritten.at;
    memmove(at, at + 1, --all->unwritten.n * sizeof *at);
}

/* The oldest, if there are too many. */
static void delete_beyond(struct dp_serve_workers *all)
{
    if (all->unwritten.n <= UNWRITTEN_MOST)
        return;
    struct dp_serve_unwritten u = all->unwritten.at[0];
    if (dp_recover_delete(all->path, &u.table))
        return;
    if (!all->n_unwritten_lost++)
        dp_query_print_error("serve",
                             "the last profiles of more than %d ended processes could not be written; the "
                             "oldest ones are lost, beginning with those of %s %d",
                             UNWRITTEN_MOST, u.table.program, (int)u.table.pid);
    remove_first(all);
    dp_serve_unwritten_settle(all, &u);
}

void dp_serve_unwritten_add(struct dp_serve_workers *all, struct dp_serve_unwritten *u, int err, const char *why)
{
    if (!all->pause_ns)
        all->pause_ns = PAUSE_LEAST_NS;
    if (!all->unwritten.n)
        all->retry_ns = dp_clock_coarse_ns() + all->pause_ns;
    if (err != all->last_files_error)
        dp_query_print_error("serve", "%s; tried again until they can be", why);
    all->last_files_error = err;
    struct dp_serve_unwritten *to = dp_vec_push(&all->unwritten);
    if (to)
        *to = *u;
    else
        dp_serve_unwritten_settle(all, u);
    delete_beyond(all);
}

/* Whether the first one is done. */
static bool write_first(struct dp_serve_workers *all)
{
    char why[DP_RECOVER_WHY];
    struct dp_serve_unwritten u = all->unwritten.at[0];
    bool has_files = *u.table.out && u.table.state == DP_RECOVER_ENDED;
    int err = has_files ? dp_recover_deliver(all->path, &u.table, NULL, why) : dp_recover_delete(all->path, &u.table);
    remove_first(all);
    if (err >= 0) {
        all->last_files_error = 0;
        dp_serve_unwritten_settle(all, &u);
    } else { /* the next ones may belong into another directory */
        all->unwritten.at[all->unwritten.n++] = u;
    }
    return err >= 0;
}

void dp_serve_unwritten_retry(struct dp_serve_workers *all, unsigned most)
{
    if (dp_clock_coarse_ns() < all->retry_ns)
        return;
    for (; most && all->unwritten.n; most--) {
        bool is_done = write_first(all);
        int64_t pause_ns = is_done ? PAUSE_LEAST_NS : 2 * all->pause_ns;
        all->pause_ns = pause_ns < PAUSE_MOST_NS ? pause_ns : PAUSE_MOST_NS;
        if (is_done)
            continue;
        all->retry_ns = dp_clock_coarse_ns() + all->pause_ns;
        return;
    }
}

bool dp_serve_unwritten_has(const struct dp_serve_workers *all, const char *table)
{
    for (size_t i = 0; i < all->unwritten.n; i++)
        if (!strcmp(all->unwritten.at[i].table.name, table))
            return true;
    return false;
}

int dp_serve_unwritten_totals(struct dp_serve_workers *all, unsigned kind, dp_serve_delta_fn fn, void *ctx)
{
    int err = 0;
    for (size_t i = 0; !err && i < all->unwritten.n; i++)
        if (all->unwritten.at[i].totals[kind])
            err = fn(ctx, all->unwritten.at[i].totals[kind]);
    return err;
}

void dp_serve_unwritten_fini(struct dp_serve_workers *all)
{
    for (size_t i = 0; i < all->unwritten.n; i++)
        drop_totals(&all->unwritten.at[i]);
    dp_vec_fini(&all->unwritten);
}
