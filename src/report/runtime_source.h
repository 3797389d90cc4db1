/* SPDX-License-Identifier: MIT */
/*
 * report/runtime_source.h - a consumer's profile of records that a runtime handed in.
 */
#pragma once

#include "report/profile.h"
#include "report/records.h"

/*
 * Writes what changed, uncommitted, as dp_consumer_write does. The dump's mixed_sizes and depth are filled in here. fn
 * NULL: nothing is written, and the dump becomes the baseline at once. -EINVAL: the wrong kind, a consumer of hooks, a
 * NULL where there should be records or a stack. -ENOMEM: too many stacks for `memory`; the baseline stays.
 */
int dp_consumer_write_dump(struct dp_consumer *, struct dp_dump dump, int64_t rate_bytes, dp_write_fn fn, void *ctx);

/* The ids of records to come have nothing to do with those before. */
void dp_consumer_forget_ids(struct dp_consumer *);
