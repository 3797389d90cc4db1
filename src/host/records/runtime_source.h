/* SPDX-License-Identifier: MIT */
/* host/records/runtime_source.h - writes a consumer's profile of records that a runtime passed in. */
#pragma once

#include "host/records/records.h"
#include "host/report/profile.h"

/*
 * Writes the changes, uncommitted, as dp_consumer_write does. Fills in the dump's mixed_sizes and depth. fn NULL:
 * nothing is written, and the dump becomes the baseline at once. -EINVAL: the wrong kind, a consumer of hooks, or NULL
 * for records or a stack. -ENOMEM: too many stacks for `memory`; the baseline stays.
 */
int dp_records_consumer_write_dump(struct dp_consumer *, struct dp_records_dump dump, int64_t rate_bytes,
                                   dp_pprof_write_fn fn, void *ctx);

/* Forgets all ids: later records may use the same ids for other stacks. */
void dp_records_consumer_reset_ids(struct dp_consumer *);
