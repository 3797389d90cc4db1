/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/workers.c - follows the tables of a directory.
 *
 * A reader keeps the file of its process open, so that what a process did last can be read after the file was deleted:
 * at its own end, or by another program. While this program has the lock of the file `serve` in the directory
 * (tmpfs/table_place.h), a process that ends leaves its table here, so that none is missed.
 */
#include "tool/serve/workers.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "tool/query/print.h"
#include "tool/serve/join.h"
#include "tool/serve/unwritten.h"
#include "tool/serve/worker_delta.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_broken(const struct dp_serve_workers *all, const char *name)
{
    uint64_t hash = dp_hash_bytes(name, strlen(name), 0);
    for (size_t i = 0; i < all->broken.n; i++)
        if (all->broken.at[i] == hash)
            return true;
    return false;
}

static void say_broken(struct dp_serve_workers *all, const char *name, const char *why)
{
    if (is_broken(all, name))
        return;
    uint64_t *to = dp_vec_push(&all->broken);
    if (to)
        *to = dp_hash_bytes(name, strlen(name), 0);
    all->n_failed++;
    dp_query_print_error("serve", "%s", why);
}

static struct dp_serve_worker *find_named(struct dp_serve_workers *all, const char *name)
{
    for (size_t i = 0; i < all->at.n; i++)
        if (!strcmp(all->at.at[i]->table.name, name))
            return all->at.at[i];
    return NULL;
}

const struct dp_serve_worker *dp_serve_workers_find(const struct dp_serve_workers *all, pid_t pid)
{
    for (size_t i = 0; i < all->at.n; i++)
        if (all->at.at[i]->table.pid == pid && all->at.at[i]->lives)
            return all->at.at[i];
    return NULL;
}

static void note_kinds(struct dp_serve_workers *all, const struct dp_recover_table *table)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        all->was_on[kind] |= table->samples[kind];
}

static void take_before(struct dp_serve_workers *all, struct dp_serve_worker *w)
{
    for (size_t i = 0; i < all->before.n; i++) {
        struct dp_serve_before *b = &all->before.at[i];
        if (strcmp(b->name, w->table.name))
            continue;
        b->is_used = true;
        if (b->delta) {
            dp_serve_delta_drop(w->before[b->delta->kind]);
            w->before[b->delta->kind] = b->delta;
            b->delta = NULL;
        }
    }
}

static void free_worker(struct dp_serve_worker *w)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        dp_serve_delta_drop(w->before[kind]);
    free(w);
}

static void open_worker(struct dp_serve_workers *all, const struct dp_recover_table *table)
{
    char why[DP_RECOVER_WHY];
    struct dp_serve_worker *w = calloc(1, sizeof *w);
    if (!w)
        return;
    w->table = *table;
    w->inuse_bytes = -1;
    w->due_ns = all->interval_ns ? dp_clock_coarse_ns() + all->interval_ns : INT64_MAX;
    w->lives = table->state == DP_RECOVER_LIVES;
    w->opened_ended = !w->lives;
    w->is_listed = true;
    w->reader = dp_recover_open(all->path, table, why);
    if (w->reader && dp_vec_room(&all->at, 1)) {
        if (!all->first_ns || table->begin_wall_ns < all->first_ns)
            all->first_ns = table->begin_wall_ns;
        note_kinds(all, table);
        take_before(all, w);
        all->at.at[all->at.n++] = w;
        return;
    }
    if (!w->reader)
        say_broken(all, table->name, why);
    dp_recover_close(w->reader);
    free(w);
}

int dp_serve_workers_add_ended(struct dp_serve_workers *all, struct dp_serve_delta *delta)
{
    struct dp_serve_delta **ended = &all->ended[delta->kind];
    struct dp_serve_delta *parts[] = {delta, *ended};
    const struct dp_serve_join join = {
        .deltas = parts, .n = *ended ? 2 : 1, .is_flow_only = true, .without_pids = true};
    struct dp_serve_delta *sum = dp_serve_join_make(&join, delta->kind);
    if (!sum)
        return -ENOMEM;
    dp_serve_delta_drop(*ended);
    *ended = sum;
    return 0;
}

/* The profile since the start of a process that has ended. */
static int keep_total(void *ctx, struct dp_serve_delta *delta)
{
    struct dp_serve_unwritten *u = ctx;
    delta->pid = 0;
    u->totals[delta->kind] = dp_serve_delta_keep(delta);
    return 0;
}

/* Passes the profiles of all kinds to fn, since the last ones or since the start. 0, -ENOMEM or fn's error. */
static int pass_kinds(struct dp_serve_workers *all, struct dp_serve_worker *w, unsigned since, dp_serve_delta_fn fn,
                      void *ctx)
{
    int err = 0;
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++) {
        if (!dp_serve_workers_tell(kind))
            continue;
        dp_serve_worker_ask(w, kind, since);
        err = dp_serve_worker_pass(all, w, kind, since, 0, fn, ctx);
    }
    return err;
}

/* Passes its last deltas to fn, and keeps its totals in u. */
static int pass_last(struct dp_serve_workers *all, struct dp_serve_worker *w, struct dp_serve_unwritten *u,
                     dp_serve_delta_fn fn, void *ctx)
{
    char why[DP_RECOVER_WHY];
    if (dp_recover_refresh(w->reader, why))
        return 0;
    int err = pass_kinds(all, w, DELTAPROF_OUTSIDE_SINCE_LAST, fn, ctx);
    return err ? err : pass_kinds(all, w, DELTAPROF_OUTSIDE_SINCE_START, keep_total, u);
}

/* The table's rest: files, where the process writes any; then it is deleted. 0, or a negative errno and why. */
static int finish(struct dp_serve_workers *all, struct dp_serve_worker *w, char why[DP_RECOVER_WHY])
{
    bool has_files = *w->table.out && w->table.state == DP_RECOVER_ENDED;
    dp_text_format(why, DP_RECOVER_WHY, "%s/%s: the tables cannot be deleted", all->path, w->table.name);
    int err =
        has_files ? dp_recover_deliver(all->path, &w->table, w->reader, why) : dp_recover_delete(all->path, &w->table);
    return err < 0 ? err : 0;
}

static int end_worker(struct dp_serve_workers *all, size_t i, dp_serve_delta_fn fn, void *ctx)
{
    struct dp_serve_worker *w = all->at.at[i];
    struct dp_serve_unwritten ended = {.table = w->table};
    char why[DP_RECOVER_WHY];
    int err = pass_last(all, w, &ended, fn, ctx);
    if (!w->opened_ended) { /* it has locked what the last files change */
        dp_recover_close(w->reader);
        w->reader = NULL;
    }
    int its = w->is_listed ? finish(all, w, why) : 0;
    if (its)
        dp_serve_unwritten_add(all, &ended, its, why);
    else
        dp_serve_unwritten_settle(all, &ended);
    dp_recover_close(w->reader);
    all->n_ended++;
    all->at.at[i] = all->at.at[--all->at.n];
    free_worker(w);
    return err;
}

/* Updates what is known of a listed table. Whether it was left for later. */
static bool see_table(struct dp_serve_workers *all, const struct dp_recover_table *table, bool opens_ended)
{
    struct dp_serve_worker *w = find_named(all, table->name);
    bool is_others = strchr(table->name, '/'); /* of a family that another server has */
    if (is_others || table->state == DP_RECOVER_UNKNOWN ||
        (!w && (is_broken(all, table->name) || dp_serve_unwritten_has(all, table->name))))
        return false;
    if (!w && table->state != DP_RECOVER_LIVES && !opens_ended) {
        struct dp_recover_table *left = dp_vec_push(&all->left);
        if (left)
            *left = *table;
        return true;
    }
    if (!w) {
        open_worker(all, table);
    } else {
        w->table = *table;
        note_kinds(all, table);
        w->lives = table->state == DP_RECOVER_LIVES;
        w->is_listed = true;
    }
    return false;
}

/* It cannot be read from here: said once. */
static void see_private(struct dp_serve_workers *all, const struct dp_recover_list *list,
                        const struct dp_recover_private *p)
{
    char why[DP_RECOVER_WHY];
    if (!dp_recover_is_private(list, p))
        return;
    dp_text_format(why, sizeof why, "%s: the tables of %s %d are private memory (%s); it is not served", all->path,
                   p->program, (int)p->pid, strerror(p->err));
    say_broken(all, p->name, why);
}

int dp_serve_workers_look(struct dp_serve_workers *all, unsigned most, dp_serve_delta_fn fn, void *ctx)
{
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY];
    unsigned n_opened = 0, n_ended = 0;
    int n_left = 0, err = dp_recover_list(all->directory, &list, why);
    if (err) {
        say_broken(all, "", why);
        return err;
    }
    memcpy(all->path, list.directory, sizeof all->path);
    dp_vec_clear(&all->left);
    all->n_left_done = 0;
    for (size_t i = 0; i < all->at.n; i++)
        all->at.at[i]->is_listed = all->at.at[i]->lives = false;
    for (size_t i = 0; i < list.n; i++) {
        n_left += see_table(all, &list.at[i], n_opened < most);
        n_opened += list.at[i].state != DP_RECOVER_LIVES && !strchr(list.at[i].name, '/');
    }
    for (size_t i = 0; i < list.private.n; i++)
        see_private(all, &list, &list.private.at[i]);
    dp_recover_list_fini(&list);
    for (size_t i = all->at.n; !err && i-- > 0;) {
        if (all->at.at[i]->lives)
            continue;
        if (n_ended++ < most)
            err = end_worker(all, i, fn, ctx);
        else
            n_left++;
    }
    dp_serve_unwritten_retry(all, most);
    return err ? err : n_left;
}

static int end_unopened(struct dp_serve_workers *all, const struct dp_recover_table *table, dp_serve_delta_fn fn,
                        void *ctx)
{
    size_t n = all->at.n;
    if (!find_named(all, table->name) && !is_broken(all, table->name) && !dp_serve_unwritten_has(all, table->name))
        open_worker(all, table);
    return all->at.n > n ? end_worker(all, n, fn, ctx) : 0;
}

int dp_serve_workers_end_left(struct dp_serve_workers *all, unsigned most, dp_serve_delta_fn fn, void *ctx)
{
    int err = 0, n_left = 0;
    for (size_t i = all->at.n; !err && i-- > 0;)
        if (!all->at.at[i]->lives && most)
            err = end_worker(all, i, fn, ctx), most--;
        else
            n_left += !all->at.at[i]->lives;
    for (; !err && most && all->n_left_done < all->left.n; most--)
        err = end_unopened(all, &all->left.at[all->n_left_done++], fn, ctx);
    return err ? err : n_left + (int)(all->left.n - all->n_left_done);
}

/* An error is said when it begins, and again when it changes. */
static void report_files(struct dp_serve_workers *all, const struct dp_serve_worker *w, int err, const char *what)
{
    if (err && err != all->files_error)
        dp_query_print_error("serve", "-o %s: cannot %s the profiles of %s %d: %s; they come with later ones",
                             w->table.out, what, w->table.program, (int)w->table.pid, strerror(-err));
    all->files_error = err;
}

static bool writes_outside(const struct dp_serve_worker *w)
{
    return w->lives && w->table.is_written_outside;
}

bool dp_serve_workers_write_next(struct dp_serve_workers *all, int64_t now_ns, bool is_last)
{
    char why[DP_RECOVER_WHY];
    const char *what = "read";
    struct dp_serve_worker *w = NULL;
    for (size_t i = 0; i < all->at.n && !w; i++)
        if (writes_outside(all->at.at[i]) && (is_last ? all->at.at[i]->due_ns >= 0 : all->at.at[i]->due_ns <= now_ns))
            w = all->at.at[i];
    if (!w)
        return false;
    w->due_ns = is_last ? -1 : now_ns + all->interval_ns;
    int err = dp_recover_refresh(w->reader, why);
    if (!err)
        err = dp_recover_files_write(w->reader, &w->table, 0, &what);
    report_files(all, w, err < 0 ? err : 0, what);
    return true;
}

bool dp_serve_workers_prepare_next(struct dp_serve_workers *all, dp_serve_delta_fn fn, void *ctx)
{
    char why[DP_RECOVER_WHY];
    struct dp_serve_worker *w = NULL;
    int64_t old_ns = dp_clock_wall_ns() - DP_SERVE_YOUNG_NS;
    for (size_t i = 0; i < all->at.n && !w; i++)
        if (all->at.at[i]->lives && !all->at.at[i]->is_prepared && all->at.at[i]->table.begin_wall_ns < old_ns)
            w = all->at.at[i];
    if (!w)
        return false;
    w->is_prepared = true;
    if (!dp_recover_refresh(w->reader, why))
        pass_kinds(all, w, DELTAPROF_OUTSIDE_SINCE_LAST, fn, ctx);
    return true;
}

int64_t dp_serve_workers_due(const struct dp_serve_workers *all)
{
    int64_t due_ns = INT64_MAX;
    for (size_t i = 0; i < all->at.n; i++)
        if (writes_outside(all->at.at[i]) && all->at.at[i]->due_ns < due_ns)
            due_ns = all->at.at[i]->due_ns;
    return due_ns;
}

void dp_serve_workers_refresh(struct dp_serve_workers *all)
{
    char why[DP_RECOVER_WHY];
    all->turn++;
    for (size_t i = 0; i < all->at.n; i++)
        dp_recover_refresh_begin(all->at.at[i]->reader);
    for (size_t i = 0; i < all->at.n; i++)
        all->n_failed += dp_recover_refresh_end(all->at.at[i]->reader, why) != 0;
}

/* In-use values count of living processes only. */
static unsigned turn_of(const struct dp_serve_workers *all, const struct dp_serve_worker *w)
{
    return w->lives ? all->turn : 0;
}

/* A sum over several processes leaves out what they inherited: of workers, most of what is in use. pid 0: the sum. */
static bool wants_inherited(const struct dp_serve_workers *all, const struct dp_serve_worker *w, pid_t pid)
{
    size_t n_living = 0;
    for (size_t i = 0; i < all->at.n; i++)
        n_living += all->at.at[i]->lives;
    return w->table.pid == pid || n_living < 2;
}

/*
 * Asks all readers before it waits for the first: they work at once. only: of this process; 0: of all. pid: the process
 * whose profile is wanted; 0: their sum.
 */
static int pass_all(struct dp_serve_workers *all, unsigned kind, unsigned flags, pid_t only, pid_t pid,
                    dp_serve_delta_fn fn, void *ctx)
{
    int err = 0;
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_worker *w = all->at.at[i];
        if (!only || w->table.pid == only)
            dp_serve_worker_ask(w, kind, flags | (wants_inherited(all, w, pid) ? 0 : DELTAPROF_OUTSIDE_OWN));
    }
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_worker *w = all->at.at[i];
        if (only && w->table.pid != only)
            continue;
        int its = dp_serve_worker_pass(all, w, kind, flags, turn_of(all, w), fn, ctx);
        err = err ? err : its;
    }
    return err;
}

int dp_serve_workers_collect(struct dp_serve_workers *all, unsigned kind, pid_t pid, dp_serve_delta_fn fn, void *ctx)
{
    return pass_all(all, kind, DELTAPROF_OUTSIDE_SINCE_LAST, 0, pid, fn, ctx);
}

int dp_serve_workers_since_start(struct dp_serve_workers *all, unsigned kind, pid_t pid, dp_serve_delta_fn fn,
                                 void *ctx)
{
    int err = pass_all(all, kind, DELTAPROF_OUTSIDE_SINCE_START, pid, pid, fn, ctx);
    for (size_t i = 0; !err && !pid && i < all->before.n; i++) { /* a later delta has the rest */
        struct dp_serve_delta *before = all->before.at[i].delta;
        err = before && before->kind == kind ? fn(ctx, before) : 0;
    }
    err = err || pid ? err : dp_serve_unwritten_totals(all, kind, fn, ctx);
    if (!err && !pid && all->ended[kind])
        err = fn(ctx, all->ended[kind]);
    return err;
}

int dp_serve_workers_totals(struct dp_serve_workers *all, unsigned kind, dp_serve_total_fn fn, void *ctx)
{
    int err = 0;
    for (size_t i = 0; i < all->at.n; i++)
        dp_serve_worker_ask(all->at.at[i], kind, DELTAPROF_OUTSIDE_SINCE_START | DELTAPROF_OUTSIDE_OWN);
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_delta *delta;
        int its = dp_serve_worker_receive(all->at.at[i], kind, 0, &delta);
        if (!its && delta)
            its = fn(ctx, all->at.at[i], delta);
        dp_serve_delta_drop(delta);
        err = err ? err : its;
    }
    return err;
}

static unsigned flags_since_files(const struct dp_serve_workers *all, const struct dp_serve_worker *w, const char *out)
{
    return (strcmp(w->table.out, out) ? DELTAPROF_OUTSIDE_SINCE_START : 0) |
           (wants_inherited(all, w, 0) ? 0 : DELTAPROF_OUTSIDE_OWN);
}

int dp_serve_workers_since_files(struct dp_serve_workers *all, unsigned kind, const char *out, dp_serve_delta_fn fn,
                                 void *ctx)
{
    int err = 0;
    for (size_t i = 0; i < all->at.n; i++)
        dp_serve_worker_ask(all->at.at[i], kind, flags_since_files(all, all->at.at[i], out));
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_worker *w = all->at.at[i];
        int its = dp_serve_worker_pass(all, w, kind, flags_since_files(all, w, out), turn_of(all, w), fn, ctx);
        err = err ? err : its;
    }
    return err;
}

int dp_serve_workers_begin_at(struct dp_serve_workers *all, const char *table, struct dp_serve_delta *delta)
{
    struct dp_serve_before *b = dp_vec_push(&all->before);
    if (!b)
        return -ENOMEM;
    snprintf(b->name, sizeof b->name, "%s", table);
    b->delta = delta ? dp_serve_delta_keep(delta) : NULL;
    return 0;
}

/* 1: the profile has values. */
static int has_values(void *ctx, struct dp_serve_delta *delta)
{
    int64_t sums[DP_KIND_TYPES_MAX], any = 0;
    (void)ctx;
    dp_serve_join_sums(delta, sums);
    for (size_t i = 0; i < DP_KIND_TYPES_MAX; i++)
        any |= sums[i];
    return any != 0;
}

bool dp_serve_workers_lack(struct dp_serve_workers *all, unsigned kind, pid_t pid)
{
    bool is_on = !pid && all->was_on[kind];
    for (size_t i = 0; i < all->at.n; i++)
        is_on |= pid == all->at.at[i]->table.pid && all->at.at[i]->table.samples[kind];
    if (is_on)
        return false;
    dp_serve_workers_refresh(all);
    return !dp_serve_workers_since_start(all, kind, pid, has_values, NULL);
}

void dp_serve_workers_fini(struct dp_serve_workers *all)
{
    for (size_t i = 0; i < all->at.n; i++) {
        dp_recover_close(all->at.at[i]->reader);
        free_worker(all->at.at[i]);
    }
    for (size_t i = 0; i < all->before.n; dp_serve_delta_drop(all->before.at[i++].delta))
        continue;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        dp_serve_delta_drop(all->ended[kind]);
    dp_serve_unwritten_fini(all);
    dp_vec_fini(&all->at);
    dp_vec_fini(&all->before);
    dp_vec_fini(&all->left);
    dp_vec_fini(&all->broken);
}
