/* SPDX-License-Identifier: MIT */
/*
 * deltas.c - the public functions of deltas: struct deltaprof_delta is a consumer (host/report/profile.h). Wrong
 * arguments are refused here.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/records.h>

#include "base/log.h"
#include "host/api/core.h"
#include "host/report/profile.h"
#include "host/records/runtime_source.h"

#include <errno.h>

static struct dp_consumer *consumer(struct deltaprof_delta *delta)
{
    return (struct dp_consumer *)delta;
}

struct deltaprof_delta *deltaprof_delta_new(enum deltaprof_kind kind)
{
    dp_core_init_once();
    return (struct deltaprof_delta *)dp_consumer_new((unsigned)kind, NULL);
}

void deltaprof_delta_free(struct deltaprof_delta *delta)
{
    dp_consumer_free(consumer(delta));
}

int deltaprof_delta_set(struct deltaprof_delta *delta, const char *text)
{
    static struct dp_log_bound mistakes;
    struct dp_config conf;
    struct dp_config_error error;
    if (!delta)
        return -EINVAL;
    dp_consumer_configuration(consumer(delta), &conf);
    int err = dp_config_parse_delta(&conf, text, &error);
    if (err)
        dp_log_bounded(&mistakes, "deltaprof_delta_set: %s", error.line);
    else
        dp_consumer_configure(consumer(delta), &conf);
    return err;
}

int deltaprof_delta_set_frames(struct deltaprof_delta *delta, deltaprof_name_fn fn, void *ctx)
{
    if (!delta)
        return -EINVAL;
    dp_consumer_set_frames(consumer(delta), fn, ctx);
    return 0;
}

int deltaprof_delta_skip(struct deltaprof_delta *delta)
{
    return delta ? dp_consumer_skip(consumer(delta)) : -EINVAL;
}

int deltaprof_delta_write_uncommitted(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx)
{
    return delta && fn ? dp_consumer_write(consumer(delta), 0, fn, ctx, NULL) : -EINVAL;
}

int deltaprof_delta_write(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx)
{
    int err = deltaprof_delta_write_uncommitted(delta, fn, ctx);
    return err ? err : dp_consumer_commit(consumer(delta));
}

int deltaprof_delta_reset_ids(struct deltaprof_delta *delta)
{
    if (!delta)
        return -EINVAL;
    dp_records_consumer_reset_ids(consumer(delta));
    return 0;
}

int deltaprof_delta_write_heap_records_uncommitted(struct deltaprof_delta *delta,
                                                   const struct deltaprof_heap_record *records, size_t n_records,
                                                   int64_t rate_bytes, deltaprof_write_fn fn, void *ctx)
{
    static const struct deltaprof_heap_record none;
    if (!delta || (!records && n_records))
        return -EINVAL;
    struct dp_records_dump dump = {.heap = records ? records : &none, .n = n_records};
    return dp_records_consumer_write_dump(consumer(delta), dump, rate_bytes, fn, ctx);
}

int deltaprof_delta_write_heap_records(struct deltaprof_delta *delta, const struct deltaprof_heap_record *records,
                                       size_t n_records, int64_t rate_bytes, deltaprof_write_fn fn, void *ctx)
{
    int err = deltaprof_delta_write_heap_records_uncommitted(delta, records, n_records, rate_bytes, fn, ctx);
    return err || !fn ? err : dp_consumer_commit(consumer(delta));
}

int deltaprof_delta_write_block_records_uncommitted(struct deltaprof_delta *delta,
                                                    const struct deltaprof_block_record *records, size_t n_records,
                                                    deltaprof_write_fn fn, void *ctx)
{
    static const struct deltaprof_block_record none;
    if (!delta || (!records && n_records))
        return -EINVAL;
    struct dp_records_dump dump = {.block = records ? records : &none, .n = n_records};
    return dp_records_consumer_write_dump(consumer(delta), dump, 1, fn, ctx);
}

int deltaprof_delta_write_block_records(struct deltaprof_delta *delta, const struct deltaprof_block_record *records,
                                        size_t n_records, deltaprof_write_fn fn, void *ctx)
{
    int err = deltaprof_delta_write_block_records_uncommitted(delta, records, n_records, fn, ctx);
    return err || !fn ? err : dp_consumer_commit(consumer(delta));
}

int deltaprof_delta_commit(struct deltaprof_delta *delta)
{
    return delta ? dp_consumer_commit(consumer(delta)) : -EINVAL;
}

int deltaprof_delta_abandon(struct deltaprof_delta *delta)
{
    return delta ? dp_consumer_abandon(consumer(delta)) : -EINVAL;
}
