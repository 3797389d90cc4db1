/* SPDX-License-Identifier: MIT */
/*
 * sink/cursor.c - a bounded array of cursors under one lock that covers only looking up and marking.
 *
 * A cursor is {settled, sent, open}: `settled` is the last reply whose bytes are known to have arrived, `sent` the last
 * one that was begun, `open` says that sent's write ended well and only the client knows whether it arrived. The
 * consumer holds the matching pending copy, so commit and abandon are the only two ways on:
 *
 *     settled --write--> open --after=sent--> settled (committed)
 *                             --anything else--> settled (abandoned; the next reply covers that time as well)
 *
 * An idle cursor beyond its time to live gives its place, and its baseline's memory, to the next new one.
 */
#include "sink/cursor.h"

#include "base/clock.h"
#include "base/lock.h"
#include "sink/request.h"

#include <errno.h>
#include <string.h>

struct dp_cursor {
    struct dp_consumer *consumer; /* NULL: a free place */
    char name[DP_CURSOR_NAME_MAX + 1];
    unsigned kind;
    bool taken, open;
    uint64_t settled, sent;
    int64_t used_ns;
};

static struct dp_lock lock;
static struct dp_cursor cursors[DP_CURSORS_MAX];
static int64_t ttl_ns;

void dp_cursor_init(int64_t ttl)
{
    dp_lock_take(&lock);
    ttl_ns = ttl;
    dp_lock_give(&lock);
}

static struct dp_cursor *find(unsigned kind, const char *name)
{
    for (size_t i = 0; i < DP_CURSORS_MAX; i++)
        if (cursors[i].consumer && cursors[i].kind == kind && !strcmp(cursors[i].name, name))
            return &cursors[i];
    return NULL;
}

static struct dp_cursor *vacant(int64_t now)
{
    struct dp_cursor *oldest = NULL;
    for (size_t i = 0; i < DP_CURSORS_MAX; i++) {
        struct dp_cursor *c = &cursors[i];
        if (!c->consumer)
            return c;
        if (!c->taken && *c->name && now - c->used_ns > ttl_ns && (!oldest || c->used_ns < oldest->used_ns))
            oldest = c;
    }
    if (oldest) {
        dp_consumer_free(oldest->consumer);
        memset(oldest, 0, sizeof *oldest);
    }
    return oldest;
}

struct dp_cursor *dp_cursor_take(unsigned kind, const char *name, bool from_now, const struct dp_config *conf,
                                 int *error)
{
    int64_t now = dp_clock_ns();
    dp_lock_take(&lock);
    struct dp_cursor *c = find(kind, name);
    if (c && c->taken) {
        *error = -EBUSY;
        c = NULL;
        goto out;
    }
    if (!c) {
        c = vacant(now);
        if (!c) {
            *error = -ENOSPC;
            goto out;
        }
        c->consumer = dp_consumer_new(kind, conf);
        if (!c->consumer) {
            *error = -ENOMEM;
            c = NULL;
            goto out;
        }
        if (from_now)
            dp_consumer_skip(c->consumer);
        c->kind = kind;
        strncpy(c->name, name, DP_CURSOR_NAME_MAX);
    }
    c->taken = true;
    c->used_ns = now;
out:
    dp_lock_give(&lock);
    return c;
}

void dp_cursor_release(struct dp_cursor *c)
{
    dp_lock_take(&lock);
    c->taken = false;
    c->used_ns = dp_clock_ns();
    dp_lock_give(&lock);
}

struct dp_consumer *dp_cursor_consumer(struct dp_cursor *c)
{
    return c->consumer;
}

int dp_cursor_next(struct dp_cursor *c, bool acknowledges, uint64_t after, uint64_t *seq)
{
    bool has_it = acknowledges && c->open && after == c->sent;
    if (acknowledges && !has_it && after != c->settled)
        return -ESTALE;
    if (c->open) {
        if (has_it) {
            dp_consumer_commit(c->consumer);
            c->settled = c->sent;
        } else {
            dp_consumer_abandon(c->consumer);
        }
        c->open = false;
    }
    *seq = ++c->sent;
    return 0;
}

void dp_cursor_settle(struct dp_cursor *c, uint64_t seq, enum dp_cursor_fate fate)
{
    switch (fate) {
    case DP_CURSOR_ARRIVED:
        dp_consumer_commit(c->consumer);
        c->settled = seq;
        break;
    case DP_CURSOR_LOST:
        dp_consumer_abandon(c->consumer);
        break;
    case DP_CURSOR_OPEN:
        c->open = true;
        break;
    }
}

uint64_t dp_cursor_peek(unsigned kind, const char *name)
{
    dp_lock_take(&lock);
    struct dp_cursor *c = find(kind, name);
    uint64_t settled = c ? c->settled : 0;
    dp_lock_give(&lock);
    return settled;
}

void dp_cursor_fork_child(void)
{
    dp_lock_reset(&lock);
    memset(cursors, 0, sizeof cursors);
}
