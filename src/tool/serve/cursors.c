/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/cursors.c - lists of deltas by client. A list that has grown long is joined into one delta, so that a
 * client that stays away costs the memory of its stacks, not of its absence.
 */
#include "tool/serve/cursors.h"

#include "base/clock.h"
#include "tool/serve/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED_NS INT64_C(86400000000000)
#define IDLE_NS   INT64_C(600000000000)
enum { DELTAS_MOST = 512 };

void dp_serve_deltas_clear(struct dp_serve_deltas *deltas)
{
    for (size_t i = 0; i < deltas->at.n; i++)
        dp_serve_delta_drop(deltas->at.at[i]);
    dp_vec_fini(&deltas->at);
    memset(deltas, 0, sizeof *deltas);
}

void dp_serve_cursors_remove(struct dp_serve_cursors *all, struct dp_serve_cursor *c)
{
    for (size_t i = 0; i < all->at.n; i++)
        if (all->at.at[i] == c)
            all->at.at[i] = all->at.at[--all->at.n];
    dp_serve_deltas_clear(&c->pending);
    dp_serve_deltas_clear(&c->sent);
    free(c);
}

struct dp_serve_cursor *dp_serve_cursors_find(const struct dp_serve_cursors *all, const char *name, unsigned kind,
                                              pid_t pid)
{
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_cursor *c = all->at.at[i];
        if (!c->is_window && c->kind == kind && c->pid == pid && !strcmp(c->name, name))
            return c;
    }
    return NULL;
}

static void remove_unused(struct dp_serve_cursors *all, int64_t now_ns)
{
    for (size_t i = all->at.n; i-- > 0;)
        if (!all->at.at[i]->is_window && now_ns - all->at.at[i]->used_ns > UNUSED_NS)
            dp_serve_cursors_remove(all, all->at.at[i]);
}

static bool is_page(const struct dp_serve_cursor *c)
{
    return !strncmp(c->name, DP_SERVE_CURSOR_PAGE, sizeof DP_SERVE_CURSOR_PAGE - 1);
}

/*
 * A page that was closed does not say so, nor a client that will not ask again; a page that is still open goes on with
 * another cursor. The one without a name, of all processes, stays.
 */
static void remove_idle(struct dp_serve_cursors *all, int64_t now_ns)
{
    struct dp_serve_cursor *idle = NULL;
    for (size_t i = 0; i < all->at.n; i++) {
        struct dp_serve_cursor *c = all->at.at[i];
        bool can_go = is_page(c) || (!c->is_window && (*c->name || c->pid) && now_ns - c->used_ns > IDLE_NS);
        if (can_go &&
            (!idle || is_page(c) > is_page(idle) || (is_page(c) == is_page(idle) && c->used_ns < idle->used_ns)))
            idle = c;
    }
    if (idle)
        dp_serve_cursors_remove(all, idle);
}

struct dp_serve_cursor *dp_serve_cursors_get(struct dp_serve_cursors *all, const char *name, unsigned kind, pid_t pid,
                                             bool is_window, bool *is_new)
{
    int64_t now_ns = dp_clock_coarse_ns();
    struct dp_serve_cursor *c = is_window ? NULL : dp_serve_cursors_find(all, name, kind, pid);
    *is_new = !c;
    if (!c) {
        remove_unused(all, now_ns);
        if (all->at.n >= DP_SERVE_CURSORS_MOST)
            remove_idle(all, now_ns);
        if (all->at.n >= DP_SERVE_CURSORS_MOST || !dp_vec_room(&all->at, 1) || !(c = calloc(1, sizeof *c)))
            return NULL;
        strcpy(c->name, name);
        c->kind = kind;
        c->pid = pid;
        c->is_window = is_window;
        c->first = c->seq = (uint64_t)dp_clock_wall_ns() / 1000;
        all->at.at[all->at.n++] = c;
    }
    c->used_ns = now_ns;
    return c;
}

static int join_pending(struct dp_serve_cursor *c)
{
    const struct dp_serve_join join = {.deltas = c->pending.at.at, .n = c->pending.at.n, .is_flow_only = true};
    struct dp_serve_delta *sum = dp_serve_join_make(&join, c->kind);
    if (!sum)
        return -ENOMEM;
    for (size_t i = 0; i < c->pending.at.n; i++)
        dp_serve_delta_drop(c->pending.at.at[i]);
    c->pending.at.at[0] = sum;
    c->pending.at.n = 1;
    return 0;
}

int dp_serve_cursor_add(void *cursor, struct dp_serve_delta *delta)
{
    struct dp_serve_cursor *c = cursor;
    int err = c->pending.at.n >= DELTAS_MOST && c->pending.at.at[0]->turn != delta->turn ? join_pending(c) : 0;
    struct dp_serve_delta **to = err ? NULL : dp_vec_push(&c->pending.at);
    if (!to)
        return -ENOMEM;
    *to = dp_serve_delta_keep(delta);
    return 0;
}

int dp_serve_cursors_add(void *cursors, struct dp_serve_delta *delta)
{
    struct dp_serve_cursors *all = cursors;
    int err = 0;
    for (size_t i = 0; !err && i < all->at.n; i++) {
        struct dp_serve_cursor *c = all->at.at[i];
        if (c->kind == delta->kind && (!c->pid || c->pid == delta->pid))
            err = dp_serve_cursor_add(c, delta);
    }
    return err;
}

void dp_serve_cursor_clear_sent(struct dp_serve_cursor *c)
{
    dp_serve_deltas_clear(&c->sent);
    c->is_sent = false;
}

bool dp_serve_cursor_is_earlier(const struct dp_serve_cursor *c, uint64_t after)
{
    return after && after <= c->first;
}

bool dp_serve_cursor_acknowledge(struct dp_serve_cursor *c, uint64_t after)
{
    after = after ? after : c->first;
    if (c->seq != c->first && after + 1 == c->seq && c->is_sent) {
        if (dp_serve_cursor_put_back(c, &c->sent))
            return false;
        c->is_sent = false;
        c->seq--;
        return true;
    }
    if (after != c->seq)
        return false;
    dp_serve_cursor_clear_sent(c);
    return true;
}

void dp_serve_cursor_detach(struct dp_serve_cursor *c, struct dp_serve_deltas *taken, int64_t now_ns)
{
    *taken = c->pending;
    memset(&c->pending, 0, sizeof c->pending);
    c->pending.from_ns = now_ns;
}

int dp_serve_cursor_put_back(struct dp_serve_cursor *c, struct dp_serve_deltas *taken)
{
    size_t n = taken->at.n, n_after = c->pending.at.n;
    if (n && !dp_vec_room(&c->pending.at, n))
        return -ENOMEM;
    if (n_after)
        memmove(c->pending.at.at + n, c->pending.at.at, n_after * sizeof *c->pending.at.at);
    if (n)
        memcpy(c->pending.at.at, taken->at.at, n * sizeof *taken->at.at);
    c->pending.at.n = n + n_after;
    c->pending.from_ns = taken->from_ns;
    dp_vec_fini(&taken->at);
    memset(taken, 0, sizeof *taken);
    return 0;
}

void dp_serve_cursors_fini(struct dp_serve_cursors *all)
{
    while (all->at.n)
        dp_serve_cursors_remove(all, all->at.at[0]);
    dp_vec_fini(&all->at);
}
