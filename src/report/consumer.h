/* SPDX-License-Identifier: MIT */
/*
 * report/consumer.h - what a consumer is inside, for the two rooms that write from one: profile.c (what the hooks
 * recorded) and records.c (what a runtime handed in).
 */
#pragma once

#include "base/epoch.h"
#include "report/emit.h"
#include "report/profile.h"
#include "report/records.h"
#include "report/values.h"

struct dp_window_edge {
    int64_t wall_ns, mono_ns;
};

enum dp_consumer_source { DP_SOURCE_NONE, DP_SOURCE_HOOKS, DP_SOURCE_RECORDS };

struct dp_consumer {
    struct dp_epoch_lock lock;
    uint32_t epoch; /* dp_epoch in which what follows was made */
    unsigned kind;
    bool mixed_sizes;
    bool pending;      /* a write waits to be settled */
    bool skip_next;    /* records: the next dump is taken as the baseline */
    bool showed_inuse; /* hooks: the last one delivered had blocks in use, so an empty one says something */
    enum dp_consumer_source source;
    bool follows; /* symbolize is the process's, whenever a report begins */
    enum dp_symbolize symbolize;
    enum dp_address address;
    enum dp_types types;
    int64_t max_samples;
    struct dp_window_edge from, to;   /* last success; end of the pending write */
    struct dp_write_buffers *buffers; /* of the write under way; its rows then pending; else NULL */
    struct dp_baseline base;          /* hooks */
    struct dp_records *records;       /* records; NULL until the first dump */
    struct dp_values values;          /* records */
    size_t depth;                     /* records: leafmost frames that count */
    size_t memory_bytes;              /* what `memory` allows in all */
    deltaprof_name_fn name_fn;
    void *name_ctx;
};

/* Locks it, and begins anew in a forked child. 0, or -EAGAIN. */
int dp_consumer_lock(struct dp_consumer *c, bool wait);
void dp_consumer_unlock(struct dp_consumer *c);

/* Before a write: the write buffers without rows. -ENOMEM. */
int dp_consumer_get_buffers(struct dp_consumer *c);
/* After it: nothing is pending, the write buffers are for others. */
void dp_consumer_put_buffers(struct dp_consumer *c);

/*
 * Writes the write buffers' rows as the profile of [c->from, now): the part that both sources share. 0; 1 (no row,
 * DP_WRITE_SKIP_EMPTY); or an error, -ECANCELED when the sink forked and this is the child: then c is not to be
 * touched, nor left.
 */
int dp_consumer_emit(struct dp_consumer *c, unsigned flags, struct dp_emission *emission,
                     const struct dp_emit_source *source, dp_write_fn fn, void *ctx, struct dp_profile_info *info);
