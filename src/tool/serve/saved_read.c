/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved_read.c - reads the file of cursors: all of its state is checked before anything of it is used, and
 * either all cursors go on, or none. What was appended is done again in its order. A reply that had not ended is one
 * that may not have arrived: its deltas wait for an answer, or are pending again.
 */
#include "tool/serve/saved.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "pprof/decode_input.h"
#include "tool/serve/family.h"
#include "tool/serve/join.h"
#include "tool/serve/saved_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES_MOST = 1 << 30 };

/* A process, with deltas that are its profile since the start if they are added up. */
struct process {
    char name[DP_TABLE_NAME_MAX]; /* of its table */
    struct dp_serve_deltas total[DP_KIND_TABLES];
};

/* A reply that was begun. */
struct reply {
    struct dp_serve_cursor *cursor;
    uint64_t seq;
    bool acknowledges;
    struct dp_serve_deltas taken;
};

struct reading {
    struct dp_serve_family *family;
    struct dp_serve_cursor *cursor; /* of the last part CURSOR */
    DP_VEC(struct process) processes;
    DP_VEC(struct reply) replies;
    struct dp_serve_deltas ended[DP_KIND_TABLES];
};

/* ---- parts ---- */

static bool is_valid_part(const struct dp_serve_saved_part *part)
{
    bool has_table = part->type == DP_SERVE_SAVED_PROCESS || part->type == DP_SERVE_SAVED_TOTAL ||
                     part->type == DP_SERVE_SAVED_DELTA;
    return part->type < DP_SERVE_SAVED_TYPES && part->kind < DP_KIND_TABLES && !part->name[71] && part->pid >= 0 &&
           strlen(part->name) <= (has_table ? DP_TABLE_NAME_MAX - 1 : DP_CURSOR_NAME_MAX) &&
           !(has_table && strchr(part->name, '/'));
}

/* The next part, and the profile behind it. 1; 0: the rest is no whole part; -EBADMSG: it is damaged. */
static int next_part(const struct dp_recover_bytes *file, size_t *at, struct dp_serve_saved_part *part,
                     const uint8_t **profile)
{
    const uint8_t *from = file->at.at + *at;
    if (file->at.n - *at < sizeof *part)
        return 0;
    memcpy(part, from, sizeof *part);
    if (part->n_bytes > BYTES_MOST)
        return -EBADMSG;
    if (part->n_bytes > file->at.n - *at - sizeof *part)
        return 0;
    size_t n = sizeof *part + part->n_bytes;
    if (part->check != dp_hash_bytes(from + sizeof part->check, n - sizeof part->check, 0) || !is_valid_part(part))
        return -EBADMSG;
    *profile = from + sizeof *part;
    *at += n;
    return 1;
}

/* It begins with HEAD, and lists belong to a cursor, also in what was appended. */
static bool is_in_order(const struct dp_serve_saved_part *part, const struct dp_serve_saved_part *before)
{
    bool is_pending = part->type == DP_SERVE_SAVED_PENDING, is_sending = part->type == DP_SERVE_SAVED_SENDING;
    bool wants_pending = before->type == DP_SERVE_SAVED_CURSOR, wants_sending = before->type == DP_SERVE_SAVED_PENDING;
    return is_pending == wants_pending && is_sending == wants_sending &&
           (!(is_pending || is_sending) || part->kind == before->kind);
}

static bool is_valid(const struct dp_recover_bytes *file)
{
    struct dp_serve_saved_part part, before = {.type = DP_SERVE_SAVED_HEAD};
    const uint8_t *profile;
    bool has_state = false, is_last = false;
    size_t at = 0;
    int more = next_part(file, &at, &part, &profile);
    if (more < 1 || part.type != DP_SERVE_SAVED_HEAD || strcmp(part.name, DP_SERVE_SAVED_MAGIC))
        return false;
    while ((more = next_part(file, &at, &part, &profile)) > 0) {
        if (is_last || part.type == DP_SERVE_SAVED_HEAD || !is_in_order(&part, &before))
            return false;
        has_state |= part.type == DP_SERVE_SAVED_END;
        is_last |= part.type == DP_SERVE_SAVED_END && part.flags & DP_SERVE_SAVED_IS_LAST;
        before = part;
    }
    return !more && has_state && (!is_last || at == file->at.n);
}

static int inflate(const struct dp_serve_saved_part *part, const uint8_t *profile, struct dp_serve_delta **delta)
{
    struct dp_decode_input input = {.bytes = {0}};
    *delta = NULL;
    if (!part->n_bytes)
        return 0;
    int err = dp_decode_input_copy(&input, profile, part->n_bytes, BYTES_MOST, NULL);
    if (!err && !(*delta = malloc(sizeof **delta + input.bytes.n)))
        err = -ENOMEM;
    if (!err) {
        **delta = (struct dp_serve_delta){.n_users = 1, .kind = part->kind, .pid = part->pid, .n_bytes = input.bytes.n};
        memcpy((*delta)->bytes, input.bytes.at, input.bytes.n);
    }
    dp_decode_input_fini(&input);
    return err;
}

/* ---- the state, and what was appended ---- */

/* delta NULL: nothing. */
static int add_delta(struct dp_serve_deltas *to, struct dp_serve_delta *delta)
{
    struct dp_serve_delta **at = delta ? dp_vec_push(&to->at) : NULL;
    if (!delta || !at)
        return delta ? -ENOMEM : 0;
    *at = dp_serve_delta_keep(delta);
    return 0;
}

static int add_total(struct reading *r, const struct dp_serve_saved_part *part, struct dp_serve_delta *delta)
{
    struct process *p = NULL;
    for (size_t i = 0; i < r->processes.n && !p; i++)
        if (!strcmp(r->processes.at[i].name, part->name))
            p = &r->processes.at[i];
    if (!p && !(p = dp_vec_push(&r->processes)))
        return -ENOMEM;
    snprintf(p->name, sizeof p->name, "%.*s", DP_TABLE_NAME_MAX - 1, part->name);
    return add_delta(&p->total[part->kind], delta);
}

static void use_head(struct dp_serve_workers *all, const struct dp_serve_saved_part *part)
{
    all->n_ended += part->first;
    all->first_ns = part->from_ns;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        all->was_on[kind] |= part->was_on[kind] != 0;
}

/* HEAD has the begin of the first process, and the kinds that were on, as of the state. */
static void note_process(struct dp_serve_workers *all, const struct dp_serve_saved_part *part)
{
    all->was_on[part->kind] = true;
    if (part->from_ns && (!all->first_ns || part->from_ns < all->first_ns))
        all->first_ns = part->from_ns;
}

static void note_use(struct dp_serve_cursor *c, const struct dp_serve_saved_part *part)
{
    int64_t ago_ns = dp_clock_wall_ns() - part->at_ns;
    c->used_ns = dp_clock_coarse_ns() - (ago_ns > 0 ? ago_ns : 0);
}

static bool has_cursor(const struct dp_serve_cursors *all, const struct dp_serve_cursor *c)
{
    for (size_t i = 0; i < all->at.n; i++)
        if (all->at.at[i] == c)
            return true;
    return false;
}

/* A reply of a cursor that begins anew is none of its replies, and one of a cursor that was removed is nobody's. */
static void forget_replies(struct reading *r, const struct dp_serve_cursor *c)
{
    for (size_t i = 0; i < r->replies.n; i++)
        if (r->replies.at[i].cursor == c || !has_cursor(&r->family->cursors, r->replies.at[i].cursor))
            r->replies.at[i].cursor = NULL;
}

static struct dp_serve_cursor *find_cursor(const struct reading *r, const struct dp_serve_saved_part *part)
{
    return dp_serve_cursors_find(&r->family->cursors, part->name, part->kind, part->pid);
}

static void use_cursor(struct reading *r, const struct dp_serve_saved_part *part)
{
    bool is_new;
    struct dp_serve_cursors *all = &r->family->cursors;
    struct dp_serve_cursor *c = dp_serve_cursors_get(all, part->name, part->kind, part->pid, false, &is_new);
    r->cursor = c;
    forget_replies(r, c);
    if (!c)
        return;
    dp_serve_deltas_clear(&c->pending);
    dp_serve_cursor_clear_sent(c);
    c->first = part->first;
    c->seq = part->seq;
    c->is_sent = part->flags & DP_SERVE_SAVED_IS_SENT;
    note_use(c, part);
}

static int use_deltas(struct reading *r, const struct dp_serve_saved_part *part, struct dp_serve_delta *delta)
{
    if (!r->cursor)
        return 0;
    struct dp_serve_deltas *to = part->type == DP_SERVE_SAVED_SENDING ? &r->cursor->sent : &r->cursor->pending;
    to->from_ns = part->from_ns;
    if (delta)
        delta->has_pids = true;
    return add_delta(to, delta);
}

static int use_detach(struct reading *r, const struct dp_serve_saved_part *part)
{
    struct dp_serve_cursor *c = find_cursor(r, part);
    if (!c)
        return 0;
    struct reply *reply = dp_vec_push(&r->replies);
    bool went_back = part->flags & DP_SERVE_SAVED_WENT_BACK;
    if (!reply || (went_back && dp_serve_cursor_put_back(c, &c->sent)))
        return -ENOMEM;
    dp_serve_cursor_clear_sent(c);
    *reply = (struct reply){.cursor = c, .seq = part->seq, .acknowledges = part->flags & DP_SERVE_SAVED_ACKNOWLEDGES};
    dp_serve_cursor_detach(c, &reply->taken, part->from_ns);
    c->seq = part->seq;
    note_use(c, part);
    return 0;
}

static int settle(struct reply *reply, enum dp_serve_saved_end end)
{
    struct dp_serve_cursor *c = reply->cursor;
    int err = 0;
    if (c && end == DP_SERVE_SAVED_BACK) {
        err = dp_serve_cursor_put_back(c, &reply->taken);
    } else if (c && end == DP_SERVE_SAVED_SENT) {
        dp_serve_cursor_clear_sent(c);
        c->sent = reply->taken;
        c->is_sent = true;
        memset(&reply->taken, 0, sizeof reply->taken);
    }
    dp_serve_deltas_clear(&reply->taken);
    return err;
}

static int use_settle(struct reading *r, const struct dp_serve_saved_part *part)
{
    struct dp_serve_cursor *c = find_cursor(r, part);
    for (size_t i = 0; c && i < r->replies.n; i++)
        if (r->replies.at[i].cursor == c && r->replies.at[i].seq == part->seq) {
            int err = settle(&r->replies.at[i], (enum dp_serve_saved_end)part->first);
            r->replies.at[i] = r->replies.at[--r->replies.n];
            return err;
        }
    return 0;
}

static int use_part(struct reading *r, const struct dp_serve_saved_part *part, struct dp_serve_delta *delta)
{
    int err;
    switch (part->type) {
    case DP_SERVE_SAVED_HEAD:
        use_head(&r->family->workers, part);
        return 0;
    case DP_SERVE_SAVED_PROCESS:
    case DP_SERVE_SAVED_TOTAL:
        return add_total(r, part, delta);
    case DP_SERVE_SAVED_ENDED:
        return add_delta(&r->ended[part->kind], delta);
    case DP_SERVE_SAVED_CURSOR:
        use_cursor(r, part);
        return 0;
    case DP_SERVE_SAVED_PENDING:
    case DP_SERVE_SAVED_SENDING:
        return use_deltas(r, part, delta);
    case DP_SERVE_SAVED_DELTA:
        note_process(&r->family->workers, part);
        err = add_total(r, part, delta);
        return err || !delta ? err : dp_serve_cursors_add(&r->family->cursors, delta);
    case DP_SERVE_SAVED_DETACH:
        return use_detach(r, part);
    case DP_SERVE_SAVED_SETTLE:
        return use_settle(r, part);
    default:
        return 0;
    }
}

/* ---- the end ---- */

/* The last first: they come back to the front. */
static int end_replies(struct reading *r)
{
    int err = 0;
    while (r->replies.n) {
        struct reply *reply = &r->replies.at[--r->replies.n];
        bool is_sent = reply->cursor && reply->acknowledges && reply->cursor->seq == reply->seq;
        int its = settle(reply, is_sent ? DP_SERVE_SAVED_SENT : DP_SERVE_SAVED_BACK);
        err = err ? err : its;
    }
    return err;
}

/* The sum of these deltas; NULL, and -ENOMEM or 0: there are none. */
static int join_deltas(const struct dp_serve_deltas *deltas, unsigned kind, struct dp_serve_delta **sum)
{
    const struct dp_serve_join join = {
        .deltas = deltas->at.at, .n = deltas->at.n, .is_flow_only = true, .without_pids = true};
    *sum = NULL;
    if (deltas->at.n == 1)
        *sum = dp_serve_delta_keep(deltas->at.at[0]);
    else if (deltas->at.n && (*sum = dp_serve_join_make(&join, kind)))
        (*sum)->pid = deltas->at.at[0]->pid;
    return deltas->at.n && !*sum ? -ENOMEM : 0;
}

/* The process of a table that is gone has ended while no server ran, and what it did last is not known. */
static int end_process(struct reading *r, int dir, const struct process *p)
{
    struct dp_serve_workers *all = &r->family->workers;
    struct stat st;
    bool is_gone = fstatat(dir, p->name, &st, AT_SYMLINK_NOFOLLOW);
    int err = is_gone ? 0 : dp_serve_workers_begin_at(all, p->name, NULL);
    all->n_ended += is_gone;
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++) {
        struct dp_serve_delta *sum;
        err = join_deltas(&p->total[kind], kind, &sum);
        if (!err && sum)
            err = is_gone ? add_delta(&r->ended[kind], sum) : dp_serve_workers_begin_at(all, p->name, sum);
        dp_serve_delta_drop(sum);
    }
    return err;
}

static int end_reading(struct reading *r, int dir)
{
    int err = end_replies(r);
    for (size_t i = 0; !err && i < r->processes.n; i++)
        err = end_process(r, dir, &r->processes.at[i]);
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++) {
        struct dp_serve_delta *sum;
        err = join_deltas(&r->ended[kind], kind, &sum);
        err = err || !sum ? err : dp_serve_workers_add_ended(&r->family->workers, sum);
        dp_serve_delta_drop(sum);
    }
    return err;
}

static void free_reading(struct reading *r)
{
    for (size_t i = 0; i < r->replies.n; i++)
        dp_serve_deltas_clear(&r->replies.at[i].taken);
    for (size_t i = 0; i < r->processes.n; i++)
        for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
            dp_serve_deltas_clear(&r->processes.at[i].total[kind]);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        dp_serve_deltas_clear(&r->ended[kind]);
    dp_vec_fini(&r->replies);
    dp_vec_fini(&r->processes);
}

static int use(struct dp_serve_family *f, int dir, const struct dp_recover_bytes *file)
{
    struct reading r = {.family = f};
    struct dp_serve_saved_part part;
    const uint8_t *profile;
    int err = is_valid(file) ? 0 : -EBADMSG;
    for (size_t at = 0; !err && next_part(file, &at, &part, &profile) > 0;) {
        struct dp_serve_delta *delta;
        err = inflate(&part, profile, &delta);
        err = err ? err : use_part(&r, &part, delta);
        dp_serve_delta_drop(delta);
    }
    err = err ? err : end_reading(&r, dir);
    free_reading(&r);
    return err;
}

/* -ENOENT: there is no file, or an old one, which is deleted. */
static int read_file(int dir, struct dp_recover_bytes *file)
{
    struct stat st;
    int fd = openat(dir, DP_SERVE_SAVED_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) ? -errno : !S_ISREG(st.st_mode) || st.st_size > BYTES_MOST ? -EBADMSG : 0;
    if (!err && dp_clock_wall_ns() / 1000000000 - (int64_t)st.st_mtim.tv_sec > DP_TABLES_CURSORS_S)
        err = unlinkat(dir, DP_SERVE_SAVED_NAME, 0) ? -errno : -ENOENT;
    if (!err && !dp_vec_room(&file->at, (size_t)st.st_size + 1))
        err = -ENOMEM;
    if (!err) {
        ssize_t n = dp_io_read(fd, file->at.at, (size_t)st.st_size);
        err = n < 0 ? (int)n : 0;
        file->at.n = n < 0 ? 0 : (size_t)n;
    }
    close(fd);
    return err;
}

int dp_serve_saved_read(struct dp_serve_family *f, const char *directory)
{
    const char *what;
    struct dp_recover_bytes file = {.at = {0}};
    int dir = dp_tables_place_open(directory, false, &what);
    int err = dir < 0 ? dir : read_file(dir, &file);
    if (!err)
        err = use(f, dir, &file);
    if (err && err != -ENOENT) {
        dp_serve_cursors_fini(&f->cursors);
        dp_serve_workers_fini(&f->workers);
        memset(&f->cursors, 0, sizeof f->cursors);
        f->workers =
            (struct dp_serve_workers){.directory = f->workers.directory, .interval_ns = f->workers.interval_ns};
        if (dir >= 0)
            unlinkat(dir, DP_SERVE_SAVED_NAME, 0);
    }
    if (dir >= 0)
        close(dir);
    dp_vec_fini(&file.at);
    return err == -ENOENT ? 0 : err ? err : 1;
}
