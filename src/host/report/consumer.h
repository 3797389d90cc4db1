/* SPDX-License-Identifier: MIT */
/*
 * host/report/consumer.h - the struct of a consumer, for consumer.c and the two files that write its profiles:
 * profile.c (events recorded by hooks) and runtime_source.c (records of a runtime).
 */
#pragma once

#include "base/epoch.h"
#include "host/report/emit.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/report/settings.h"

enum dp_consumer_source { DP_SOURCE_NONE, DP_SOURCE_HOOKS, DP_SOURCE_RECORDS };

/* Memory of a consumer whose rows are the records of a runtime (runtime_source.c), with what is done to it. */
struct dp_dump_memory {
    void (*commit)(struct dp_dump_memory *, const struct dp_rows *);
    void (*free)(struct dp_dump_memory *);
};

struct dp_consumer {
    struct dp_epoch_lock lock;
    uint32_t epoch; /* dp_epoch at which the fields below were set */
    unsigned kind;
    const struct dp_kind_source *source_of_kind;
    unsigned locks; /* bit k: the rows of lock kind k; 0: all rows */
    bool mixed_sizes;
    bool pending;      /* a write waits for commit or abandon */
    bool skip_next;    /* records: the next dump becomes the baseline */
    bool showed_inuse; /* hooks: the last delivered profile had blocks in use, so an empty one is news */
    enum dp_consumer_source source;
    bool follows; /* symbolize follows the process's setting at the begin of each report */
    enum dp_symbolize symbolize;
    enum dp_address address;
    enum dp_types types;
    int64_t max_samples;
    bool age;
    struct dp_window_edge from, to;          /* last success; end of the pending write's window */
    int64_t off_from_ns, off_to_ns;          /* until these edges, the time in which the kind was not recorded */
    _Atomic int64_t covered_ns;              /* from.mono_ns, for other threads; relaxed: one number */
    struct dp_report_write_buffers *buffers; /* of the current write; then its pending rows; else NULL */
    struct dp_baseline base;                 /* hooks */
    struct dp_kind_state delivered, more;    /* hooks: memory of the kind's source */
    struct dp_dump_memory *dumps;            /* records; NULL until the first dump */
    size_t depth;                            /* records: number of leafmost frames used */
    size_t memory_bytes;                     /* the value of `memory` */
    const char *default_type;                /* NULL: the kind's own */
    struct dp_symbols_files *files;          /* hooks: shared by several writes; NULL: each write opens its own */
    deltaprof_name_fn name_fn;
    void *name_ctx;
};

/* Locks the consumer; in a forked child it starts anew. 0, or -EAGAIN. */
int dp_consumer_lock(struct dp_consumer *c, bool wait);
void dp_consumer_unlock(struct dp_consumer *c);

/* Before a write: gets write buffers without rows. -ENOMEM. */
int dp_consumer_get_buffers(struct dp_consumer *c);
/* After a write: nothing is pending, the write buffers are given back. */
void dp_consumer_put_buffers(struct dp_consumer *c);

/*
 * Writes the rows in the write buffers as the profile of [c->from, now): the part that both sources share. Returns 0; 1
 * (no row, DP_WRITE_SKIP_EMPTY); or an error. -ECANCELED: the sink forked and this is the child; then c must not be
 * used or unlocked.
 */
int dp_consumer_emit(struct dp_consumer *c, unsigned flags, struct dp_emission *emission,
                     const struct dp_emit_source *source, dp_pprof_write_fn fn, void *ctx,
                     struct dp_profile_info *info);
