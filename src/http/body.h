/* SPDX-License-Identifier: MIT */
/*
 * http/body.h - bytes that one thread pushes and another pulls: a profile is made on a thread of ours and read by the
 * host's event loop, which must never wait.
 */
#pragma once

#include "pprof/gzip.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_body;

/*
 * Makes a thread that runs produce(arg, fn, ctx), whose bytes read gives; its result ends them. If the reader went away
 * meanwhile, the thread then calls orphan(arg, result). NULL and *error: no memory, no thread, or too many under way
 * (-EBUSY). Ownership: arg is the thread's until read gave the result, or leave said 1.
 */
struct dp_body *dp_body_start(int (*produce)(void *arg, dp_write_fn fn, void *ctx),
                              void (*orphan)(void *arg, int result), void *arg, int *error);

/* As deltaprof_http_read. Never waits. */
ssize_t dp_body_read(struct dp_body *, void *buf, size_t n_bytes);
bool dp_body_ready(struct dp_body *); /* read would not say -EAGAIN */
/* Before the first read: the producer has ended, or the reply is long. One that fails early is seen to fail here. */
int dp_body_is_settled(struct dp_body *);
bool dp_body_failed(struct dp_body *);

/*
 * The reader is through, at any moment; b is gone for it. 1: the producer had ended with *result, and arg is the
 * caller's again. 0: it is still at work, notices soon, and then calls orphan.
 */
int dp_body_close(struct dp_body *, int *result);

/* How many producers are at work. */
unsigned dp_body_count(void);
/* In a forked child no producer lives on. Only stores. */
void dp_body_fork_child(void);
