/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/waits.c - joins the texts of processes. Each begins with the number of its waiting threads; deadlocks and
 * waits are lines that begin with a word and a thread.
 */
#include "tool/serve/waits.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define THREAD   "thread "
#define DEADLOCK "deadlock: "

struct joined {
    struct dp_recover_bytes deadlocks, waits;
    unsigned long n_threads, n_processes;
};

static int append(struct dp_recover_bytes *to, const char *text, size_t n)
{
    return dp_recover_append(to, text, n);
}

/* The line, with the process behind its first n_head bytes. */
static int append_line(struct dp_recover_bytes *to, const char *line, size_t n, size_t n_head,
                       const struct dp_recover_table *t, const char *before, const char *after)
{
    char process[128];
    size_t n_process =
        dp_text_format(process, sizeof process, "%sprocess %d (%s)%s", before, (int)t->pid, t->program, after);
    int err = append(to, line, n_head);
    err = err ? err : append(to, process, n_process);
    return err ? err : append(to, line + n_head, n - n_head);
}

static int add_line(struct joined *all, const struct dp_recover_table *t, const char *line, size_t n)
{
    size_t n_thread = sizeof THREAD - 1, n_deadlock = sizeof DEADLOCK - 1;
    if (n > n_deadlock && !memcmp(line, DEADLOCK, n_deadlock))
        return append_line(&all->deadlocks, line, n, n_deadlock, t, "in ", ", ");
    if (n > n_thread && !memcmp(line, THREAD, n_thread))
        return append_line(&all->waits, line, n, n_thread + strspn(line + n_thread, "0123456789"), t, " of ", "");
    return append(&all->waits, line, n);
}

static int add_text(struct joined *all, const struct dp_recover_table *t, const struct dp_recover_bytes *text)
{
    const char *at = (const char *)text->at.at, *end = at + text->at.n, *first = memchr(at, '\n', text->at.n);
    int err = 0;
    if (!first)
        return 0;
    all->n_threads += strtoul(at, NULL, 10);
    all->n_processes++;
    for (at = first + 1; !err && at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
        err = add_line(all, t, at, n);
        at += n;
    }
    return err;
}

static bool has_waits(const struct dp_serve_worker *w)
{
    bool has = false;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        has |= dp_kind_table[kind].has_locks && w->table.samples[kind];
    return w->lives && has;
}

int dp_serve_waits_write(struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    struct joined all = {0};
    char line[96];
    int err = 0;
    dp_serve_workers_refresh(&f->workers);
    for (size_t i = 0; !err && i < f->workers.at.n; i++) {
        struct dp_serve_worker *w = f->workers.at.at[i];
        struct dp_recover_bytes text = {0};
        if (has_waits(w) && !dp_recover_waits(w->reader, dp_recover_append, &text))
            err = add_text(&all, &w->table, &text);
        dp_vec_fini(&text.at);
    }
    size_t n = dp_text_format(line, sizeof line, "%lu thread%s wait%s, of %lu process%s\n", all.n_threads,
                              all.n_threads == 1 ? "" : "s", all.n_threads == 1 ? "s" : "", all.n_processes,
                              all.n_processes == 1 ? "" : "es");
    err = err ? err : fn(ctx, line, n);
    if (!err && all.deadlocks.at.n)
        err = fn(ctx, all.deadlocks.at.at, all.deadlocks.at.n);
    if (!err && all.waits.at.n)
        err = fn(ctx, all.waits.at.at, all.waits.at.n);
    dp_vec_fini(&all.deadlocks.at);
    dp_vec_fini(&all.waits.at);
    return err;
}
