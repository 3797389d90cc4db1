/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/unwritten.h - processes that have ended, and whose last files could not be written, as the disk is full
 * for example. Cursors have had all of them. Their tables stay until the files are written, here or by a later server,
 * so what they did since their start is known apart from that of other ended processes.
 */
#pragma once

#include "tool/serve/workers.h"

/*
 * The last files of a process, or the deletion of its tables, failed with err, a negative errno, for the reason `why`.
 * Takes its profiles since the start.
 */
void dp_serve_unwritten_add(struct dp_serve_workers *, struct dp_serve_unwritten *, int err, const char *why);
/* Adds these profiles to those of all ended processes instead. Takes them. */
void dp_serve_unwritten_settle(struct dp_serve_workers *, struct dp_serve_unwritten *);
/* Tries again, when it is time: with `most` of them, or until one fails. */
void dp_serve_unwritten_retry(struct dp_serve_workers *, unsigned most);
bool dp_serve_unwritten_has(const struct dp_serve_workers *, const char *table);
/* Passes their profiles since the start to fn. 0 or fn's error. */
int dp_serve_unwritten_totals(struct dp_serve_workers *, unsigned kind, dp_serve_delta_fn fn, void *ctx);
void dp_serve_unwritten_fini(struct dp_serve_workers *);
