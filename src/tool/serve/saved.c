/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved.c - writes the file of cursors. It gets its name when the state is complete. If a part cannot be
 * appended, the file is deleted: a file without it would have cursors go back.
 */
#include "tool/serve/saved.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "pprof/gzip.h"
#include "tool/query/print.h"
#include "tool/serve/family.h"
#include "tool/serve/join.h"
#include "tool/serve/saved_part.h"
#include "tool/serve/unwritten.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME     DP_SERVE_SAVED_NAME
#define NAME_NEW NAME DP_TABLE_FILE_NEW
#define RETRY_NS INT64_C(15000000000)
enum { APPENDED_MOST = 4 << 20 }; /* and twice the state; then the state is written again */

/* ---- parts ---- */

static int compress(const struct dp_serve_delta *delta, struct dp_recover_bytes *to)
{
    struct dp_gzip *gzip = dp_gzip_new(dp_recover_append, to);
    int err = gzip ? dp_gzip_write(gzip, delta->bytes, delta->n_bytes) : -ENOMEM;
    if (!err)
        err = dp_gzip_finish(gzip);
    dp_gzip_free(gzip);
    return err;
}

/* delta NULL: none. */
static int add_part(struct dp_recover_bytes *file, struct dp_serve_saved_part part, const struct dp_serve_delta *delta)
{
    size_t at = file->at.n;
    int err = dp_recover_append(file, &part, sizeof part);
    err = err || !delta ? err : compress(delta, file);
    if (err)
        return err;
    part.n_bytes = file->at.n - at - sizeof part;
    memcpy(file->at.at + at, &part, sizeof part);
    part.check = dp_hash_bytes(file->at.at + at + sizeof part.check, file->at.n - at - sizeof part.check, 0);
    memcpy(file->at.at + at, &part, sizeof part);
    return 0;
}

static struct dp_serve_saved_part part_of_cursor(enum dp_serve_saved_type type, const struct dp_serve_cursor *c)
{
    struct dp_serve_saved_part part = {.type = type,
                                       .kind = c->kind,
                                       .pid = c->pid,
                                       .flags = c->is_sent ? DP_SERVE_SAVED_IS_SENT : 0,
                                       .first = c->first,
                                       .seq = c->seq,
                                       .at_ns = dp_clock_wall_ns() - (dp_clock_coarse_ns() - c->used_ns)};
    memcpy(part.name, c->name, sizeof c->name);
    return part;
}

/* What is in use is read again. */
static int add_deltas(struct dp_recover_bytes *file, enum dp_serve_saved_type type, unsigned kind,
                      const struct dp_serve_deltas *deltas)
{
    const struct dp_serve_join join = {.deltas = deltas->at.at, .n = deltas->at.n, .is_flow_only = true};
    struct dp_serve_delta *sum = deltas->at.n ? dp_serve_join_make(&join, kind) : NULL;
    if (deltas->at.n && !sum)
        return -ENOMEM;
    int err = add_part(file, (struct dp_serve_saved_part){.type = type, .kind = kind, .from_ns = deltas->from_ns}, sum);
    dp_serve_delta_drop(sum);
    return err;
}

static int add_cursor(struct dp_recover_bytes *file, const struct dp_serve_cursor *c)
{
    int err = add_part(file, part_of_cursor(DP_SERVE_SAVED_CURSOR, c), NULL);
    err = err ? err : add_deltas(file, DP_SERVE_SAVED_PENDING, c->kind, &c->pending);
    return err ? err : add_deltas(file, DP_SERVE_SAVED_SENDING, c->kind, &c->sent);
}

/* ---- the state ---- */

static int add_named(struct dp_recover_bytes *file, enum dp_serve_saved_type type, const char *table, int64_t from_ns,
                     const struct dp_serve_delta *delta)
{
    struct dp_serve_saved_part part = {.type = type, .from_ns = from_ns};
    if (delta)
        part.kind = delta->kind, part.pid = delta->pid;
    memcpy(part.name, table, strlen(table));
    return add_part(file, part, delta);
}

static int add_total(void *ctx, const struct dp_serve_worker *w, struct dp_serve_delta *delta)
{
    return add_named(ctx, DP_SERVE_SAVED_TOTAL, w->table.name, 0, delta);
}

static int add_unwritten(struct dp_recover_bytes *file, const struct dp_serve_unwritten *u)
{
    int err = add_named(file, DP_SERVE_SAVED_PROCESS, u->table.name, 0, NULL);
    for (unsigned kind = 0; kind < DP_KIND_TABLES && !err; kind++)
        if (u->totals[kind])
            err = add_named(file, DP_SERVE_SAVED_TOTAL, u->table.name, 0, u->totals[kind]);
    return err;
}

/* The processes whose tables are there: those that are read, those that were not yet, and those that have ended. */
static int add_processes(struct dp_recover_bytes *file, const struct dp_serve_workers *all)
{
    int err = 0;
    for (size_t i = 0; i < all->at.n && !err; i++)
        err = add_named(file, DP_SERVE_SAVED_PROCESS, all->at.at[i]->table.name, 0, NULL);
    for (size_t i = 0; i < all->before.n && !err; i++) {
        const struct dp_serve_before *b = &all->before.at[i];
        if (!b->is_used)
            err = add_named(file, b->delta ? DP_SERVE_SAVED_TOTAL : DP_SERVE_SAVED_PROCESS, b->name, 0, b->delta);
    }
    for (size_t i = 0; i < all->unwritten.n && !err; i++)
        err = add_unwritten(file, &all->unwritten.at[i]);
    return err;
}

static int add_state(struct dp_recover_bytes *file, struct dp_serve_family *f, bool is_last)
{
    struct dp_serve_workers *all = &f->workers;
    struct dp_serve_saved_part head = {.type = DP_SERVE_SAVED_HEAD,
                                       .first = all->n_ended - all->unwritten.n,
                                       .from_ns = all->first_ns,
                                       .name = DP_SERVE_SAVED_MAGIC};
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        head.was_on[kind] = all->was_on[kind];
    int err = add_part(file, head, NULL);
    dp_serve_workers_refresh(all);
    for (unsigned kind = 0; kind < DP_KIND_TABLES && !err; kind++) {
        if (!dp_serve_workers_tell(kind))
            continue;
        err = dp_serve_workers_collect(all, kind, 0, dp_serve_cursors_add, &f->cursors);
        err = err ? err : dp_serve_workers_totals(all, kind, add_total, file);
        if (!err && all->ended[kind])
            err = add_part(file, (struct dp_serve_saved_part){.type = DP_SERVE_SAVED_ENDED, .kind = kind},
                           all->ended[kind]);
    }
    err = err ? err : add_processes(file, all);
    for (size_t i = 0; i < f->cursors.at.n && !err; i++)
        if (!f->cursors.at.at[i]->is_window)
            err = add_cursor(file, f->cursors.at.at[i]);
    const struct dp_serve_saved_part end = {.type = DP_SERVE_SAVED_END, .flags = is_last ? DP_SERVE_SAVED_IS_LAST : 0};
    return err ? err : add_part(file, end, NULL);
}

/* Returns a descriptor of the file. */
static int write_file(int dir, const struct dp_recover_bytes *file)
{
    int fd = openat(dir, NAME_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_APPEND, 0600);
    int err = fd < 0 ? -errno : dp_io_write(fd, file->at.at, file->at.n);
    if (!err && renameat(dir, NAME_NEW, dir, NAME))
        err = -errno;
    if (!err)
        return fd;
    unlinkat(dir, NAME_NEW, 0);
    if (fd >= 0)
        close(fd);
    return err;
}

static void close_file(struct dp_serve_saved *saved)
{
    if (saved->is_open)
        close(saved->fd);
    saved->is_open = false;
}

/* No file is better than one that lacks something. */
static void end_file(struct dp_serve_saved *saved, int err)
{
    close_file(saved);
    unlinkat(saved->dir, NAME, 0);
    if (err != saved->err)
        dp_query_print_error("serve",
                             "the file `" NAME "` beside the tables: %s; if this program is killed, its "
                             "cursors end",
                             strerror(-err));
    saved->err = err;
    saved->retry_ns = dp_clock_coarse_ns() + RETRY_NS;
}

static int open_directory(struct dp_serve_family *f)
{
    const char *what;
    if (f->saved.dir > 0)
        return 0;
    int dir = dp_tables_place_open(f->workers.path, false, &what);
    if (dir >= 0)
        f->saved.dir = dir;
    return dir < 0 ? dir : 0;
}

void dp_serve_saved_keep_tables(struct dp_serve_saved *saved, bool keeps)
{
    saved->keeps_tables = keeps;
    if (keeps && saved->is_open)
        dp_recover_keep_tables(saved->lock);
}

int dp_serve_saved_write(struct dp_serve_family *f, bool is_last)
{
    struct dp_recover_bytes file = {.at = {0}};
    struct dp_serve_saved *saved = &f->saved;
    bool some = !is_last || f->workers.n_ended || f->workers.at.n || f->workers.before.n;
    for (size_t i = 0; i < f->cursors.at.n; i++)
        some |= !f->cursors.at.at[i]->is_window;
    int err = open_directory(f);
    if (!err && !some) {
        close_file(saved);
        unlinkat(saved->dir, NAME, 0);
        return 0;
    }
    err = err ? err : add_state(&file, f, is_last);
    int fd = err ? err : write_file(saved->dir, &file);
    if (fd < 0 && saved->dir > 0)
        end_file(saved, is_last ? saved->err : fd);
    if (fd >= 0) {
        close_file(saved);
        saved->fd = fd;
        saved->is_open = true;
        saved->n_state = saved->n_bytes = file.at.n;
        saved->err = 0;
        dp_serve_saved_keep_tables(saved, saved->keeps_tables);
    }
    dp_vec_fini(&file.at);
    return fd < 0 ? fd : 1;
}

void dp_serve_saved_limit(struct dp_serve_family *f)
{
    const struct dp_serve_saved *saved = &f->saved;
    bool is_long = saved->is_open && saved->n_bytes > 3 * saved->n_state + APPENDED_MOST;
    bool is_missing = saved->err && !saved->is_open && dp_clock_coarse_ns() >= saved->retry_ns;
    if (saved->is_wanted && (is_long || is_missing) && !saved->n_flying)
        dp_serve_saved_write(f, false);
}

void dp_serve_saved_fini(struct dp_serve_saved *saved)
{
    close_file(saved);
    if (saved->dir > 0)
        close(saved->dir);
    saved->dir = 0;
}

/* ---- what is appended ---- */

/* Appends what `made` has, unless err. */
static void append(struct dp_serve_saved *saved, struct dp_recover_bytes *made, int err)
{
    err = err ? err : dp_io_write(saved->fd, made->at.at, made->at.n);
    saved->n_bytes += made->at.n;
    dp_vec_fini(&made->at);
    if (err)
        end_file(saved, err);
}

/* Of a delta without any, only what is in use counts, which is read again. */
static bool has_flows(const struct dp_serve_delta *delta)
{
    int64_t sums[DP_KIND_TYPES_MAX], any = 0;
    size_t n = dp_serve_join_sums(delta, sums);
    for (size_t i = 0; i < n && i < dp_kind_table[delta->kind].n_types; i++)
        any |= dp_kind_table[delta->kind].types[i].nature == DP_KIND_FLOW ? sums[i] : 0;
    return any != 0;
}

static int64_t begin_ns(const struct dp_serve_workers *all, const char *table)
{
    for (size_t i = 0; i < all->at.n; i++)
        if (!strcmp(all->at.at[i]->table.name, table))
            return all->at.at[i]->table.begin_wall_ns;
    return 0;
}

int dp_serve_saved_add(void *family, struct dp_serve_delta *delta)
{
    struct dp_serve_family *f = family;
    if (f->saved.is_open && *delta->table && has_flows(delta)) {
        struct dp_recover_bytes made = {.at = {0}};
        int err = add_named(&made, DP_SERVE_SAVED_DELTA, delta->table, begin_ns(&f->workers, delta->table), delta);
        append(&f->saved, &made, err);
    }
    return dp_serve_cursors_add(&f->cursors, delta);
}

static void append_part(struct dp_serve_saved *saved, const struct dp_serve_saved_part *part)
{
    struct dp_recover_bytes made = {.at = {0}};
    int err = add_part(&made, *part, NULL);
    append(saved, &made, err);
}

void dp_serve_saved_cursor(struct dp_serve_family *f, const struct dp_serve_cursor *c)
{
    struct dp_recover_bytes made = {.at = {0}};
    if (f->saved.is_open) {
        int err = add_cursor(&made, c);
        append(&f->saved, &made, err);
    }
}

void dp_serve_saved_detach(struct dp_serve_family *f, const struct dp_serve_cursor *c, bool acknowledges,
                           bool went_back)
{
    struct dp_serve_saved_part part = part_of_cursor(DP_SERVE_SAVED_DETACH, c);
    part.flags = (acknowledges ? DP_SERVE_SAVED_ACKNOWLEDGES : 0) | (went_back ? DP_SERVE_SAVED_WENT_BACK : 0);
    part.from_ns = c->pending.from_ns;
    f->saved.n_flying++;
    if (f->saved.is_open)
        append_part(&f->saved, &part);
}

void dp_serve_saved_settle(struct dp_serve_family *f, const struct dp_serve_cursor *c, uint64_t seq,
                           enum dp_serve_saved_end end)
{
    f->saved.n_flying--;
    if (!c || !f->saved.is_open)
        return;
    struct dp_serve_saved_part part = part_of_cursor(DP_SERVE_SAVED_SETTLE, c);
    part.first = end;
    part.seq = seq;
    append_part(&f->saved, &part);
}
