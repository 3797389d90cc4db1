/* SPDX-License-Identifier: MIT */
/*
 * host/http/cursor.c - keeps the cursors of the endpoint in an array of fixed size. One lock protects only look-ups and
 * marking.
 *
 * A cursor is {arrived, sent, open}: `arrived` is the last reply that is known to have arrived; `sent` is the last one
 * that was begun; `open` means that the write of `sent` succeeded and only the client knows whether it arrived. The
 * consumer holds the pending copy of `sent`, which is then committed or abandoned:
 *
 *     closed --write--> open --after=sent--> closed (committed)
 *                            --anything else--> closed (abandoned; the next reply covers that time as well)
 *
 * The shared default cursor of each kind has a slot of its own, if it has no filter. Any other cursor counts as named.
 * A named cursor that is idle longer than its time to live is freed. If all slots are used, or there is no memory for a
 * new cursor, the least recently used idle one is freed. So a client that uses many names can make other named cursors
 * lose their baseline, but cannot break the endpoint.
 */
#include "host/http/cursor.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/process.h"
#include "endpoint/request.h"
#include "host/table/table.h"

#include <errno.h>
#include <string.h>

struct dp_http_cursor {
    struct dp_consumer *consumer; /* NULL: a free slot */
    char name[DP_CURSOR_NAME_MAX + 1];
    unsigned kind, locks;
    bool locked, open;
    uint64_t arrived, sent;
    int64_t used_ns;
};

static struct dp_lock lock;
static struct dp_http_cursor defaults[DP_KIND_DELTAS], named[DP_CURSORS_MAX] DP_LARGE;
static int64_t ttl_ns;
static _Atomic bool used; /* relaxed: a cursor was asked for, in this process or before its fork */

void dp_http_cursor_init(int64_t ttl)
{
    dp_lock_lock(&lock);
    ttl_ns = ttl;
    dp_lock_unlock(&lock);
}

/* Finds an existing cursor; NULL: there is none. */
static struct dp_http_cursor *find(const struct dp_http_cursor_key *key)
{
    if (!*key->name && !key->locks)
        return defaults[key->kind].consumer ? &defaults[key->kind] : NULL;
    for (size_t i = 0; i < DP_CURSORS_MAX; i++)
        if (named[i].consumer && named[i].kind == key->kind && named[i].locks == key->locks &&
            !strcmp(named[i].name, key->name))
            return &named[i];
    return NULL;
}

static void drop(struct dp_http_cursor *c)
{
    dp_consumer_free(c->consumer);
    memset(c, 0, sizeof *c);
}

static void drop_expired(int64_t now)
{
    for (size_t i = 0; i < DP_CURSORS_MAX; i++)
        if (named[i].consumer && !named[i].locked && now - named[i].used_ns > ttl_ns)
            drop(&named[i]);
}

/* Frees the least recently used idle cursor. False: every named cursor is in use. */
static bool drop_oldest(void)
{
    struct dp_http_cursor *oldest = NULL;
    for (size_t i = 0; i < DP_CURSORS_MAX; i++)
        if (named[i].consumer && !named[i].locked && (!oldest || named[i].used_ns < oldest->used_ns))
            oldest = &named[i];
    if (oldest)
        drop(oldest);
    return oldest;
}

static struct dp_http_cursor *vacant(const struct dp_http_cursor_key *key)
{
    if (!*key->name && !key->locks)
        return &defaults[key->kind];
    do {
        for (size_t i = 0; i < DP_CURSORS_MAX; i++)
            if (!named[i].consumer)
                return &named[i];
    } while (drop_oldest());
    return NULL;
}

struct dp_http_cursor *dp_http_cursor_lock(const struct dp_http_cursor_key *key, bool from_now, int *err)
{
    int64_t now = dp_clock_ns();
    dp_store_relaxed(&used, true);
    dp_lock_lock(&lock);
    struct dp_http_cursor *c = find(key);
    if (c && c->locked) {
        *err = -EBUSY;
        c = NULL;
        goto out;
    }
    if (!c) {
        drop_expired(now);
        c = vacant(key);
        if (!c) {
            *err = -ENOSPC;
            goto out;
        }
        do
            c->consumer = dp_consumer_new(key->kind, NULL);
        while (!c->consumer && drop_oldest());
        if (!c->consumer) {
            *err = -ENOMEM;
            c = NULL;
            goto out;
        }
        dp_consumer_filter(c->consumer, key->locks);
        if (from_now)
            dp_consumer_skip(c->consumer);
        c->kind = key->kind;
        c->locks = key->locks;
        strncpy(c->name, key->name, DP_CURSOR_NAME_MAX);
    }
    c->locked = true;
    c->used_ns = now;
out:
    dp_lock_unlock(&lock);
    return c;
}

void dp_http_cursor_unlock(struct dp_http_cursor *c)
{
    dp_lock_lock(&lock);
    c->locked = false;
    c->used_ns = dp_clock_ns();
    dp_lock_unlock(&lock);
}

struct dp_consumer *dp_http_cursor_consumer(struct dp_http_cursor *c)
{
    return c->consumer;
}

int dp_http_cursor_next(struct dp_http_cursor *c, bool acknowledges, uint64_t after, uint64_t *seq)
{
    bool has_it = acknowledges && c->open && after == c->sent;
    if (acknowledges && !has_it && after != c->arrived)
        return -ESTALE;
    if (c->open) {
        if (has_it) {
            dp_consumer_commit(c->consumer);
            c->arrived = c->sent;
        } else {
            dp_consumer_abandon(c->consumer);
        }
        c->open = false;
    }
    *seq = ++c->sent;
    return 0;
}

void dp_http_cursor_end_write(struct dp_http_cursor *c, uint64_t seq, enum dp_http_cursor_outcome outcome)
{
    switch (outcome) {
    case DP_CURSOR_ARRIVED:
        dp_consumer_commit(c->consumer);
        c->arrived = seq;
        break;
    case DP_CURSOR_LOST:
        dp_consumer_abandon(c->consumer);
        break;
    case DP_CURSOR_OPEN:
        c->open = true;
        break;
    }
}

uint64_t dp_http_cursor_peek(const struct dp_http_cursor_key *key)
{
    dp_lock_lock(&lock);
    struct dp_http_cursor *c = find(key);
    uint64_t arrived = c ? c->arrived : 0;
    dp_lock_unlock(&lock);
    return arrived;
}

static void visit(const struct dp_http_cursor *c, void (*fn)(void *, const struct dp_http_cursor_key *, int64_t),
                  void *ctx)
{
    struct dp_http_cursor_key key = {c->kind, c->locks, c->name};
    if (c->consumer)
        fn(ctx, &key, dp_consumer_covered_ns(c->consumer));
}

void dp_http_cursor_visit(void (*fn)(void *ctx, const struct dp_http_cursor_key *, int64_t covered_ns), void *ctx)
{
    dp_lock_lock(&lock);
    for (size_t i = 0; i < DP_KIND_DELTAS; i++)
        visit(&defaults[i], fn, ctx);
    for (size_t i = 0; i < DP_CURSORS_MAX; i++)
        visit(&named[i], fn, ctx);
    dp_lock_unlock(&lock);
}

DP_IN_CHILD void dp_http_cursor_fork_child(void)
{
    dp_lock_reset(&lock);
    if (!dp_load_relaxed(&used))
        return; /* all is zero, and a write copies pages in each child */
    memset(defaults, 0, sizeof defaults);
    memset(named, 0, sizeof named);
}
