/* SPDX-License-Identifier: MIT */
/* tool/serve/waits.h - writes who waits now, in all processes. Context: with the lock of the family held. */
#pragma once

#include "pprof/gzip.h"
#include "tool/serve/family.h"

/*
 * As the page `waits` of one process, whose threads are named with their process. Processes whose locks are off are
 * left out. 0 or a negative errno.
 */
int dp_serve_waits_write(struct dp_serve_family *, dp_pprof_write_fn fn, void *ctx);
