/* SPDX-License-Identifier: MIT */
/*
 * host/http/body.h - passes the bytes of a profile from the thread that makes it to the host's event loop, which must
 * never wait.
 */
#pragma once

#include "pprof/gzip.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_http_body;

/*
 * Creates a thread that runs produce(arg, fn, ctx). read returns the bytes given to fn, then produce's result. If the
 * reader closes before the end, the thread calls orphan(arg, result). NULL and *err: no memory, no thread, or too
 * many bodies at work (-EBUSY). Ownership: arg belongs to the thread until read returned the result, or close returned
 * 1.
 */
struct dp_http_body *dp_http_body_start(int (*produce)(void *arg, dp_pprof_write_fn fn, void *ctx),
                                        void (*orphan)(void *arg, int result), void *arg, int *err);

/* As deltaprof_http_read. Never waits. */
ssize_t dp_http_body_read(struct dp_http_body *, void *buf, size_t n_bytes);
bool dp_http_body_ready(struct dp_http_body *); /* whether read would not return -EAGAIN */
/* Before the first read: whether an early failure would be known: the producer has ended, or the reply is long. */
bool dp_http_body_is_status_fixed(struct dp_http_body *);
bool dp_http_body_failed(struct dp_http_body *);

/*
 * The reader ends, at any time, and must not use b again. Returns 1: the producer had ended with *result, and arg
 * belongs to the caller again. 0: the producer is still at work; it notices soon, and then calls orphan.
 */
int dp_http_body_close(struct dp_http_body *, int *result);

/* The number of producers at work. */
unsigned dp_http_body_count(void);
/* Resets the count in a forked child, which has no producer. Only stores. */
void dp_http_body_fork_child(void);
