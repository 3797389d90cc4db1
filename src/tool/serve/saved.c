/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved.c - writes and reads the file of cursors. It has what each cursor has not sent, or sent without an
 * answer, and of each process a profile since its start. A later server subtracts that profile from the first delta
 * that it reads of the process, which begins at the start, too.
 *
 * The file is deleted before its cursors are used, so none goes on twice. It gets its name when it is complete, and
 * ends with a hash of all before, which is checked before anything of it is used: either all cursors go on, or none.
 */
#include "tool/serve/saved.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "pprof/decode_input.h"
#include "pprof/gzip.h"
#include "tool/serve/join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME     "cursors"
#define NAME_NEW NAME DP_TABLE_FILE_NEW
#define UNUSED_S 86400
#define MAGIC    "deltaprof-cursors 2" /* changes with struct part */
enum { BYTES_MOST = 1 << 30 };

enum { HEAD, PROCESS, TOTAL, ENDED, CURSOR, PENDING, SENT, END };

/* The file consists of parts and the hash. TOTAL is of a process and a kind; PENDING and SENT belong to the CURSOR
 * before them. */
struct part {
    uint32_t type, kind;
    int32_t pid;
    uint32_t is_sent;
    uint64_t first, seq;            /* of a cursor; HEAD: n_ended in first */
    int64_t from_ns;                /* HEAD: first_ns */
    uint64_t n_bytes;               /* of a gzipped profile that follows; 0: none */
    char name[72];                  /* of a cursor or a table; HEAD: MAGIC */
    uint8_t was_on[DP_KIND_TABLES]; /* HEAD */
};
_Static_assert(DP_CURSOR_NAME_MAX < 72 && DP_TABLE_NAME_MAX <= 72, "a name fits");

/* ---- writing ---- */

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
static int add_part(struct dp_recover_bytes *file, struct part part, const struct dp_serve_delta *delta)
{
    struct dp_recover_bytes bytes = {.at = {0}};
    int err = delta ? compress(delta, &bytes) : 0;
    part.n_bytes = bytes.at.n;
    err = err ? err : dp_recover_append(file, &part, sizeof part);
    err = err || !bytes.at.n ? err : dp_recover_append(file, bytes.at.at, bytes.at.n);
    dp_vec_fini(&bytes.at);
    return err;
}

/* What is in use is read again. */
static int add_deltas(struct dp_recover_bytes *file, uint32_t type, unsigned kind, const struct dp_serve_deltas *deltas)
{
    const struct dp_serve_join join = {.deltas = deltas->at.at, .n = deltas->at.n, .is_flow_only = true};
    struct dp_serve_delta *sum = deltas->at.n ? dp_serve_join_make(&join, kind) : NULL;
    if (deltas->at.n && !sum)
        return -ENOMEM;
    int err = add_part(file, (struct part){.type = type, .kind = kind, .from_ns = deltas->from_ns}, sum);
    dp_serve_delta_drop(sum);
    return err;
}

static int add_cursor(struct dp_recover_bytes *file, const struct dp_serve_cursor *c)
{
    struct part part = {
        .type = CURSOR, .kind = c->kind, .pid = c->pid, .is_sent = c->is_sent, .first = c->first, .seq = c->seq};
    memcpy(part.name, c->name, sizeof c->name);
    int err = add_part(file, part, NULL);
    err = err ? err : add_deltas(file, PENDING, c->kind, &c->pending);
    return err ? err : add_deltas(file, SENT, c->kind, &c->sent);
}

static int add_total(void *ctx, const struct dp_serve_worker *w, struct dp_serve_delta *delta)
{
    struct part part = {.type = TOTAL, .kind = delta->kind, .pid = delta->pid};
    memcpy(part.name, w->table.name, sizeof w->table.name);
    return add_part(ctx, part, delta);
}

static int add_all(struct dp_recover_bytes *file, struct dp_serve_family *f)
{
    struct part head = {.type = HEAD, .first = f->workers.n_ended, .from_ns = f->workers.first_ns, .name = MAGIC};
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        head.was_on[kind] = f->workers.was_on[kind];
    int err = add_part(file, head, NULL);
    for (size_t i = 0; i < f->workers.at.n && !err; i++) {
        struct part process = {.type = PROCESS};
        memcpy(process.name, f->workers.at.at[i]->table.name, sizeof f->workers.at.at[i]->table.name);
        err = add_part(file, process, NULL);
    }
    dp_serve_workers_refresh(&f->workers);
    for (unsigned kind = 0; kind < DP_KIND_TABLES && !err; kind++) {
        if (!dp_serve_workers_tell(kind))
            continue;
        err = dp_serve_workers_collect(&f->workers, kind, 0, dp_serve_cursors_add, &f->cursors);
        err = err ? err : dp_serve_workers_totals(&f->workers, kind, add_total, file);
        if (!err && f->workers.ended[kind])
            err = add_part(file, (struct part){.type = ENDED, .kind = kind}, f->workers.ended[kind]);
    }
    for (size_t i = 0; i < f->cursors.at.n && !err; i++)
        if (!f->cursors.at.at[i]->is_window)
            err = add_cursor(file, f->cursors.at.at[i]);
    return err ? err : add_part(file, (struct part){.type = END}, NULL);
}

static int add_hash(struct dp_recover_bytes *file)
{
    uint64_t hash = dp_hash_bytes(file->at.at, file->at.n, 0);
    return dp_recover_append(file, &hash, sizeof hash);
}

static int write_file(const char *directory, const struct dp_recover_bytes *file)
{
    const char *what;
    int dir = dp_tables_place_open(directory, false, &what);
    if (dir < 0)
        return dir;
    int fd = openat(dir, NAME_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = fd < 0 ? -errno : dp_io_write(fd, file->at.at, file->at.n);
    if (fd >= 0)
        close(fd);
    if (!err && renameat(dir, NAME_NEW, dir, NAME))
        err = -errno;
    if (err)
        unlinkat(dir, NAME_NEW, 0);
    close(dir);
    return err;
}

int dp_serve_saved_write(struct dp_serve_family *f, const char *directory)
{
    struct dp_recover_bytes file = {.at = {0}};
    bool some = false;
    for (size_t i = 0; i < f->cursors.at.n; i++)
        some |= !f->cursors.at.at[i]->is_window;
    if (!some)
        return 0;
    int err = add_all(&file, f);
    err = err ? err : add_hash(&file);
    err = err ? err : write_file(directory, &file);
    dp_vec_fini(&file.at);
    return err ? err : 1;
}

/* ---- reading ---- */

/* The next part, and the profile behind it. False: there is none, or it is broken. */
static bool next_part(const struct dp_recover_bytes *file, size_t *at, struct part *part, const uint8_t **profile)
{
    if (file->at.n - *at < sizeof *part)
        return false;
    memcpy(part, file->at.at + *at, sizeof *part);
    *at += sizeof *part;
    *profile = file->at.at + *at;
    if (part->n_bytes > file->at.n - *at || part->type > END || part->kind >= DP_KIND_TABLES || part->name[71] ||
        part->pid < 0 || (part->type == CURSOR && strlen(part->name) > DP_CURSOR_NAME_MAX) ||
        ((part->type == PROCESS || part->type == TOTAL) &&
         (strchr(part->name, '/') || strlen(part->name) >= DP_TABLE_NAME_MAX)))
        return false;
    *at += part->n_bytes;
    return true;
}

/* Takes the hash off the end. */
static bool has_hash(struct dp_recover_bytes *file)
{
    uint64_t hash;
    if (file->at.n < sizeof hash)
        return false;
    file->at.n -= sizeof hash;
    memcpy(&hash, file->at.at + file->at.n, sizeof hash);
    return hash == dp_hash_bytes(file->at.at, file->at.n, 0);
}

/* It begins with HEAD, ends with END, and lists belong to a cursor. */
static bool is_valid(const struct dp_recover_bytes *file)
{
    struct part part = {.type = END}, before = part;
    const uint8_t *profile;
    size_t at = 0, n = 0;
    while (next_part(file, &at, &part, &profile)) {
        bool is_list = part.type == PENDING || part.type == SENT;
        if ((n++ == 0) != (part.type == HEAD && !strcmp(part.name, MAGIC)) ||
            (is_list && (before.type != (part.type == PENDING ? CURSOR : PENDING) || part.kind != before.kind)))
            return false;
        if (part.type == END)
            return at == file->at.n;
        before = part;
    }
    return false;
}

static int inflate(const struct part *part, const uint8_t *profile, struct dp_serve_delta **delta)
{
    struct dp_decode_input input = {.bytes = {0}};
    *delta = NULL;
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

static void use_head(struct dp_serve_workers *all, const struct part *part)
{
    all->n_ended += part->first;
    all->first_ns = part->from_ns;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        all->was_on[kind] |= part->was_on[kind] != 0;
}

static int use_cursor(struct dp_serve_cursors *all, const struct part *part)
{
    bool is_new;
    struct dp_serve_cursor *c = dp_serve_cursors_get(all, part->name, part->kind, part->pid, false, &is_new);
    if (!c || !is_new)
        return c ? -EBADMSG : -ENOMEM;
    c->first = part->first;
    c->seq = part->seq;
    c->is_sent = part->is_sent;
    return 0;
}

static int use_deltas(struct dp_serve_deltas *to, const struct part *part, struct dp_serve_delta *delta)
{
    to->from_ns = part->from_ns;
    struct dp_serve_delta **at = delta ? dp_vec_push(&to->at) : NULL;
    if (!delta || !at)
        return delta ? -ENOMEM : 0;
    delta->has_pids = true;
    *at = dp_serve_delta_keep(delta);
    return 0;
}

/* The process of a table that is gone has ended while no server ran, and what it did last is not known. */
static bool has_table(int dir, const struct part *part)
{
    return !faccessat(dir, part->name, F_OK, AT_SYMLINK_NOFOLLOW);
}

static int use_part(struct dp_serve_family *f, int dir, const struct part *part, struct dp_serve_delta *delta)
{
    struct dp_serve_cursor *c = f->cursors.at.n ? f->cursors.at.at[f->cursors.at.n - 1] : NULL;
    switch (part->type) {
    case HEAD:
        use_head(&f->workers, part);
        return 0;
    case PROCESS:
        f->workers.n_ended += !has_table(dir, part);
        return 0;
    case TOTAL:
        return delta && has_table(dir, part) ? dp_serve_workers_begin_at(&f->workers, part->name, delta)
               : delta                       ? dp_serve_workers_add_ended(&f->workers, delta)
                                             : 0;
    case ENDED:
        return delta ? dp_serve_workers_add_ended(&f->workers, delta) : 0;
    case CURSOR:
        return use_cursor(&f->cursors, part);
    case PENDING:
    case SENT:
        return use_deltas(part->type == SENT ? &c->sent : &c->pending, part, delta);
    default:
        return 0;
    }
}

static int use(struct dp_serve_family *f, int dir, struct dp_recover_bytes *file)
{
    struct part part;
    const uint8_t *profile;
    int err = has_hash(file) && is_valid(file) ? 0 : -EBADMSG;
    for (size_t at = 0; !err && next_part(file, &at, &part, &profile);) {
        struct dp_serve_delta *delta = NULL;
        err = part.n_bytes ? inflate(&part, profile, &delta) : 0;
        err = err ? err : use_part(f, dir, &part, delta);
        dp_serve_delta_drop(delta);
    }
    return err;
}

/* -ENOENT: there is no file, or an old one. It is deleted. */
static int read_file(int dir, struct dp_recover_bytes *file)
{
    struct stat st;
    int fd = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) ? -errno : !S_ISREG(st.st_mode) || st.st_size > BYTES_MOST ? -EBADMSG : 0;
    if (!err && dp_clock_wall_ns() / 1000000000 - (int64_t)st.st_mtim.tv_sec > UNUSED_S)
        err = -ENOENT;
    if (!err && !dp_vec_room(&file->at, (size_t)st.st_size + 1))
        err = -ENOMEM;
    if (!err) {
        ssize_t n = dp_io_read(fd, file->at.at, (size_t)st.st_size);
        err = n < 0 ? (int)n : 0;
        file->at.n = n < 0 ? 0 : (size_t)n;
    }
    close(fd);
    return unlinkat(dir, NAME, 0) ? -errno : err;
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
    }
    if (dir >= 0)
        close(dir);
    dp_vec_fini(&file.at);
    return err == -ENOENT ? 0 : err;
}
