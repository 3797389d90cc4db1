/* SPDX-License-Identifier: MIT */
/*
 * host/http/body.c - a ring of 64 KiB between a producing thread and a reader that never waits.
 *
 * Invariants
 *
 * B1. Only the producer moves `head`, only the reader moves `tail`; head - tail bytes lie in the ring, at most its
 * size.
 *
 * B2. `state` collects three bits: ENDED (the producer's last access, unless GONE was set), LEFT (the reader wants no
 * more) and GONE (the reader's last access). The thread that sets the second of ENDED and GONE frees the ring. A reader
 * that sets LEFT and finds ENDED is the last and frees it at once. A producer that sets ENDED and finds LEFT passes its
 * arg to orphan.
 *
 * B3. The reader never waits. The producer waits only on `tail`, and a reader that leaves wakes it.
 *
 * Memory order: [FILL] `head` publishes the producer's bytes; without it the reader could copy old bytes of the ring.
 * [DRAIN] `tail` publishes that the reader has copied bytes; without it the producer could overwrite bytes that are
 * still being copied. [WAKE] is explained at push. [STATE] ENDED publishes the result.
 */
#include "host/http/body.h"

#include "base/atomic.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/relay.h"
#include "host/agent/signals.h"
#include "host/agent/spawn.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define RING_BYTES  (64u << 10)
#define BODIES_MAX  16
#define STACK_BYTES (512u << 10)

enum { ENDED = 1, LEFT = 2, GONE = 4 };

struct dp_http_body {
    _Atomic uint32_t head, tail; /* modulo 2^32; [FILL] and [DRAIN] */
    _Atomic uint32_t wake;       /* changes with each drain and when the reader leaves; the producer sleeps on it */
    _Atomic uint32_t state;      /* B2 */
    int result;                  /* result of produce; valid after ENDED [STATE] */
    int (*produce)(void *arg, dp_pprof_write_fn fn, void *ctx);
    void (*orphan)(void *arg, int result);
    void *arg;
    bool relayed; /* the creating thread has its own descriptor table, so the producer has one too */
    uint8_t ring[RING_BYTES];
};

static _Atomic unsigned n_bodies;

static int push(void *ctx, const void *bytes, size_t n_bytes)
{
    struct dp_http_body *b = ctx;
    const uint8_t *from = bytes;
    while (n_bytes) {
        /*
         * [WAKE] read before tail and state: if a drain or a leave is missed below, wake has changed, and no sleep
         * begins
         */
        uint32_t wake = dp_load_acquire(&b->wake);
        if (dp_load_acquire(&b->state) & LEFT)
            return -EPIPE;
        uint32_t head = dp_load_relaxed(&b->head), tail = dp_load_acquire(&b->tail); /* [DRAIN] */
        uint32_t room = RING_BYTES - (head - tail), at = head % RING_BYTES;
        if (!room) {
            dp_futex_wait(&b->wake, wake, INT64_MAX);
            continue;
        }
        if (room > RING_BYTES - at)
            room = RING_BYTES - at;
        if (room > n_bytes)
            room = (uint32_t)n_bytes;
        memcpy(b->ring + at, from, room);
        dp_store_release(&b->head, head + room); /* [FILL] */
        from += room;
        n_bytes -= room;
    }
    return 0;
}

static void drop(struct dp_http_body *b)
{
    dp_mem_unmap(b, sizeof *b);
    dp_sub_relaxed(&n_bodies, 1);
}

static void *run(void *arg)
{
    struct dp_http_body *b = arg;
    dp_thread_mark_own();
    dp_mem_yield(true);
    dp_agent_signals_unblock_crashes();
    if (b->relayed)
        dp_relay_use();
    void (*orphan)(void *, int) = b->orphan;
    void *of_the_reply = b->arg;
    int result = b->result = b->produce(b->arg, push, b);
    /* [STATE] result is written before ENDED; a reader that sees ENDED reads it */
    uint32_t before = dp_or_acq_rel(&b->state, ENDED);
    if (before & GONE)
        drop(b);
    if (before & LEFT)
        orphan(of_the_reply, result);
    return NULL;
}

struct dp_http_body *dp_http_body_start(int (*produce)(void *arg, dp_pprof_write_fn fn, void *ctx),
                                        void (*orphan)(void *arg, int result), void *arg, int *err)
{
    if (dp_add_relaxed(&n_bodies, 1) >= BODIES_MAX) {
        dp_sub_relaxed(&n_bodies, 1);
        *err = -EBUSY;
        return NULL;
    }
    struct dp_http_body *b = dp_mem_map(sizeof *b);
    if (!b) {
        *err = -ENOMEM;
        goto out;
    }
    b->produce = produce;
    b->orphan = orphan;
    b->arg = arg;
    b->relayed = dp_relay_is_used();
    *err = dp_agent_spawn(NULL, STACK_BYTES, run, b);
    if (!*err)
        return b;
    dp_mem_unmap(b, sizeof *b);
out:
    dp_sub_relaxed(&n_bodies, 1);
    return NULL;
}

static void wake_producer(struct dp_http_body *b)
{
    dp_add_release(&b->wake, 1); /* [WAKE] */
    dp_futex_wake(&b->wake);
}

ssize_t dp_http_body_read(struct dp_http_body *b, void *buf, size_t n_bytes)
{
    uint8_t *to = buf;
    size_t n = 0;
    uint32_t state = dp_load_acquire(&b->state); /* before head: all bytes pushed before ENDED are then visible */
    uint32_t tail = dp_load_relaxed(&b->tail), head = dp_load_acquire(&b->head); /* [FILL] */
    while (n < n_bytes && head != tail) {
        uint32_t at = tail % RING_BYTES, piece = head - tail;
        if (piece > RING_BYTES - at)
            piece = RING_BYTES - at;
        if (piece > n_bytes - n)
            piece = (uint32_t)(n_bytes - n);
        memcpy(to + n, b->ring + at, piece);
        n += piece;
        tail += piece;
    }
    if (n) {
        dp_store_release(&b->tail, tail); /* [DRAIN] */
        wake_producer(b);
        return (ssize_t)n;
    }
    if (!n_bytes && head != tail)
        return -EAGAIN;
    if (state & ENDED)
        return b->result;
    return -EAGAIN;
}

bool dp_http_body_is_status_fixed(struct dp_http_body *b)
{
    return (dp_load_acquire(&b->state) & ENDED) ||
           dp_load_acquire(&b->head) - dp_load_relaxed(&b->tail) >= RING_BYTES / 2;
}

bool dp_http_body_failed(struct dp_http_body *b)
{
    return (dp_load_acquire(&b->state) & ENDED) && b->result; /* [STATE] */
}

bool dp_http_body_ready(struct dp_http_body *b)
{
    return (dp_load_acquire(&b->state) & ENDED) || dp_load_acquire(&b->head) != dp_load_relaxed(&b->tail);
}

int dp_http_body_close(struct dp_http_body *b, int *result)
{
    if (dp_or_acq_rel(&b->state, LEFT) & ENDED) { /* [STATE] */
        *result = b->result;
        drop(b);
        return 1;
    }
    wake_producer(b);
    if (dp_or_acq_rel(&b->state, GONE) & ENDED)
        drop(b);
    return 0;
}

unsigned dp_http_body_count(void)
{
    return dp_load_relaxed(&n_bodies);
}

DP_IN_CHILD void dp_http_body_fork_child(void)
{
    dp_store_relaxed(&n_bodies, 0);
}
