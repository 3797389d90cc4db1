/* SPDX-License-Identifier: MIT */
/* Families that write and read a file of cursors, and their states as text. */
#pragma once

#include "tool/serve/saved.h"

#include "pprof/encode.h"
#include "pprof/gzip.h"
#include "support/bytes.h"
#include "tool/serve/family.h"
#include "tool/serve/join.h"

#include "support/unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct dp_gzip_ops dp_module_gzip; /* linked in here, so no module is opened */
static const struct dp_gzip_ops *const linked_in __attribute__((used)) = &dp_module_gzip;

static char directory[] = "/dev/shm/deltaprof-test-XXXXXX", path[64];
static struct dp_serve_family here, later;

/* ---- what a family has, as text ---- */

static char text[4096];
static size_t n_text;

__attribute__((format(printf, 1, 2))) static void write_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    n_text += (size_t)vsnprintf(text + n_text, sizeof text - n_text, format, args);
    va_end(args);
    assert_true(n_text < sizeof text);
}

/* The flows, and a ! behind them if anything is in use. */
static inline void write_sums(struct dp_serve_delta *const *deltas, size_t n)
{
    int64_t sums[DP_KIND_TYPES_MAX], all[DP_KIND_TYPES_MAX] = {0};
    bool in_use = false;
    for (size_t i = 0; i < n; i++) {
        dp_serve_join_sums(deltas[i], sums);
        for (unsigned k = 0; k < DP_KIND_TYPES_MAX; k++)
            all[k] += sums[k];
    }
    for (unsigned k = 2; n && deltas[0]->kind == DP_KIND_HEAP && k < 4; k++)
        in_use |= all[k] != 0;
    write_text(" %lld/%lld%s", (long long)all[0], (long long)all[1], in_use ? "!" : "");
}

static inline void write_cursor(const struct dp_serve_cursor *c)
{
    write_text("%s.%s.%d", c->name, dp_kind_table[c->kind].name, (int)c->pid);
    write_text(" %llu-%llu%s", (unsigned long long)c->first, (unsigned long long)c->seq, c->is_sent ? " sent" : "");
    write_sums(c->pending.at.at, c->pending.at.n);
    write_text("@%lld", (long long)c->pending.from_ns);
    if (c->is_sent)
        write_sums(c->sent.at.at, c->sent.at.n), write_text("@%lld", (long long)c->sent.from_ns);
    write_text("\n");
}

static inline const char *describe(const struct dp_serve_family *f)
{
    n_text = 0;
    write_text("ended %llu begin %lld on", (unsigned long long)f->workers.n_ended, (long long)f->workers.first_ns);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        write_text("%s%s", f->workers.was_on[kind] ? " " : "", f->workers.was_on[kind] ? dp_kind_table[kind].name : "");
    write_text("\n");
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        if (f->workers.ended[kind])
            write_text("all %s", dp_kind_table[kind].name), write_sums(&f->workers.ended[kind], 1), write_text("\n");
    for (size_t i = 0; i < f->workers.before.n; i++) {
        const struct dp_serve_before *b = &f->workers.before.at[i];
        write_text("table %s", b->name);
        if (b->delta)
            write_text(" %s of %d", dp_kind_table[b->delta->kind].name, (int)b->delta->pid), write_sums(&b->delta, 1);
        write_text("\n");
    }
    for (size_t i = 0; i < f->cursors.at.n; i++)
        write_cursor(f->cursors.at.at[i]);
    return text;
}

static inline const char *cursor_text(void)
{
    n_text = 0;
    assert_int_equal(later.cursors.at.n, 1);
    write_cursor(later.cursors.at.at[0]);
    return text;
}

/* ---- families ---- */

/* A profile with one row, of `function`: n events of 100 each, and memory in use. The caller frees it. */
static inline struct dp_serve_delta *make_delta(unsigned kind, pid_t pid, const char *table, const char *function,
                                                int64_t n)
{
    struct bytes bytes = {{0}};
    struct dp_encode_value_type types[4];
    size_t n_types = dp_kind_table[kind].n_values;
    for (size_t i = 0; i < n_types; i++)
        types[i] = (struct dp_encode_value_type){dp_kind_table[kind].types[i].name, dp_kind_table[kind].types[i].unit};
    struct dp_encode *e = dp_encode_new(keep, &bytes);
    dp_encode_header(e, &(struct dp_encode_header){.types = types, .n_types = n_types, .time_ns = 1});
    int64_t name = dp_encode_string(e, function, strlen(function));
    struct dp_encode_line line = {.function = dp_encode_function(e, name, name, 0, 0)};
    uint64_t id = dp_encode_location(e, 0, 0x1000, &line, 1);
    dp_encode_sample(e, &id, 1, (int64_t[]){n, 100 * n, 5, 500}, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    struct dp_serve_delta *delta = malloc(sizeof *delta + bytes.all.n);
    *delta = (struct dp_serve_delta){.n_users = 1, .kind = kind, .pid = pid, .n_bytes = bytes.all.n};
    memcpy(delta->bytes, bytes.all.at, bytes.all.n);
    snprintf(delta->table, sizeof delta->table, "%s", table);
    dp_vec_fini(&bytes.all);
    return delta;
}

static inline struct dp_serve_cursor *add_cursor(const char *name, unsigned kind, pid_t pid, int64_t from_ns)
{
    bool is_new;
    struct dp_serve_cursor *c = dp_serve_cursors_get(&here.cursors, name, kind, pid, false, &is_new);
    c->first = 10;
    c->seq = 12;
    c->pending.from_ns = from_ns;
    return c;
}

static inline void add_to(struct dp_serve_cursor *c, pid_t pid, const char *function, int64_t n)
{
    struct dp_serve_delta *delta = make_delta(c->kind, pid, "", function, n);
    assert_int_equal(dp_serve_cursor_add(c, delta), 0);
    dp_serve_delta_drop(delta);
}

/* A new process has written a delta. */
static inline void happen(pid_t pid, const char *table, int64_t n)
{
    struct dp_serve_delta *delta = make_delta(DP_KIND_HEAP, pid, table, "f", n);
    assert_int_equal(dp_serve_saved_add(&here, delta), 0);
    dp_serve_delta_drop(delta);
}

static inline void clear(struct dp_serve_family *f)
{
    dp_serve_cursors_fini(&f->cursors);
    dp_serve_workers_fini(&f->workers);
    dp_serve_saved_fini(&f->saved);
    *f = (struct dp_serve_family){.workers = {.directory = directory, .interval_ns = 77}};
    strcpy(f->workers.path, directory);
    f->saved.is_wanted = true;
}

static inline int begin(void **state)
{
    (void)state;
    clear(&here);
    clear(&later);
    return 0;
}

static inline int end(void **state)
{
    static const char *const names[] = {"cursors", "cursors.new", "a.1.1", "b.2.1", "c.3.1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
        rmdir(path);
    }
    snprintf(path, sizeof path, "%s/cursors", directory);
    return begin(state);
}

static inline void make_file(const char *name, const void *bytes, size_t n_bytes)
{
    char file[96];
    snprintf(file, sizeof file, "%s/%s", directory, name);
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes);
    close(fd);
}

static inline struct bytes read_file(void)
{
    struct bytes all = {{0}};
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && !fstat(fd, &st) && dp_vec_room(&all.all, (size_t)st.st_size));
    all.all.n = (size_t)read(fd, all.all.at, (size_t)st.st_size);
    assert_int_equal(all.all.n, st.st_size);
    close(fd);
    return all;
}

static inline int read_later(void)
{
    clear(&later);
    return dp_serve_saved_read(&later, directory);
}

/* Cursors of two kinds, a window, a reply without an answer; processes that live, ended, and have unwritten files. */
static inline void make_state(void)
{
    struct dp_serve_cursor *c = add_cursor("", DP_KIND_HEAP, 0, 500);
    add_to(c, 7, "f", 3);
    add_to(c, 8, "f", 4);
    c = add_cursor("a-b", DP_KIND_MUTEX, 7, 600);
    add_to(c, 7, "g", 5);
    dp_serve_cursor_detach(c, &c->sent, 700);
    add_to(c, 7, "g", 6);
    c->is_sent = true;
    bool is_new;
    c = dp_serve_cursors_get(&here.cursors, "window", DP_KIND_HEAP, 0, true, &is_new);
    add_to(c, 7, "f", 9);

    struct dp_serve_workers *w = &here.workers;
    w->n_ended = 5;
    w->first_ns = 400;
    w->was_on[DP_KIND_HEAP] = w->was_on[DP_KIND_WALL] = true;
    w->ended[DP_KIND_HEAP] = make_delta(DP_KIND_HEAP, 0, "", "f", 20);
    make_file("a.1.1", "", 0);
    make_file("b.2.1", "", 0);
    struct dp_serve_delta *before = make_delta(DP_KIND_HEAP, 1, "", "f", 30);
    assert_int_equal(dp_serve_workers_begin_at(w, "a.1.1", before), 0);
    assert_int_equal(dp_serve_workers_begin_at(w, "a.1.1", NULL), 0);
    assert_int_equal(dp_serve_workers_begin_at(w, "used", before), 0);
    w->before.at[2].is_used = true;
    dp_serve_delta_drop(before);
    struct dp_serve_unwritten *u = dp_vec_push(&w->unwritten);
    *u = (struct dp_serve_unwritten){.table = {.name = "b.2.1"}};
    u->totals[DP_KIND_HEAP] = make_delta(DP_KIND_HEAP, 0, "", "f", 40);
    u->totals[DP_KIND_MUTEX] = make_delta(DP_KIND_MUTEX, 0, "", "g", 50);
    u = dp_vec_push(&w->unwritten);
    *u = (struct dp_serve_unwritten){.table = {.name = "gone"}};
    u->totals[DP_KIND_MUTEX] = make_delta(DP_KIND_MUTEX, 0, "", "g", 60);
}

/* Of the group of tests. */
static inline int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/cursors", directory);
    return 0;
}

static inline int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}
