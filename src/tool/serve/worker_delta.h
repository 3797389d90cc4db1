/* SPDX-License-Identifier: MIT */
/* tool/serve/worker_delta.h - the deltas of one process, from its reader. */
#pragma once

#include "tool/serve/workers.h"

/* Asks for a profile since the last one (SINCE_LAST), or another one. One of the next two follows. */
void dp_serve_worker_ask(struct dp_serve_worker *, unsigned kind, unsigned flags);
/* Receives it. 0 with *delta, which is NULL if the kind is off; or a negative errno. */
int dp_serve_worker_receive(struct dp_serve_worker *, unsigned kind, unsigned turn, struct dp_serve_delta **delta);
/* Receives it and passes it to fn. An unreadable one is no error: its process is counted. */
int dp_serve_worker_pass(struct dp_serve_workers *, struct dp_serve_worker *, unsigned kind, unsigned flags,
                         unsigned turn, dp_serve_delta_fn fn, void *ctx);
