/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.c - the front desk: the public API, and the only file that knows all floors.
 */
#include <deltaprof/deltaprof.h>

#include "base/log.h"
#include "report/profile.h"

#include <errno.h>

const char *deltaprof_version(void)
{
    return DELTAPROF_VERSION;
}

/* ---- deltas: a consumer by its public name ---------------------------------------------------------------------- */

static struct dp_consumer *consumer(struct deltaprof_delta *delta)
{
    return (struct dp_consumer *)delta;
}

struct deltaprof_delta *deltaprof_delta_new(enum deltaprof_kind kind)
{
    return (struct deltaprof_delta *)dp_consumer_new((unsigned)kind, NULL);
}

void deltaprof_delta_free(struct deltaprof_delta *delta)
{
    dp_consumer_free(consumer(delta));
}

int deltaprof_delta_set(struct deltaprof_delta *delta, const char *text)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_consumer_configuration(consumer(delta), &conf);
    int err = dp_config_parse_delta(&conf, text, &error);
    if (err)
        dp_log(DP_LOG_ERROR, "deltaprof_delta_set: %s", error.line);
    else
        dp_consumer_configure(consumer(delta), &conf);
    return err;
}

int deltaprof_delta_set_frames(struct deltaprof_delta *delta, deltaprof_name_fn fn, void *ctx)
{
    dp_consumer_set_frames(consumer(delta), fn, ctx);
    return 0;
}

int deltaprof_delta_skip(struct deltaprof_delta *delta)
{
    return dp_consumer_skip(consumer(delta));
}

int deltaprof_delta_write_uncommitted(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx)
{
    return dp_consumer_write(consumer(delta), 0, fn, ctx, NULL);
}

int deltaprof_delta_write(struct deltaprof_delta *delta, deltaprof_write_fn fn, void *ctx)
{
    int err = deltaprof_delta_write_uncommitted(delta, fn, ctx);
    return err ? err : dp_consumer_commit(consumer(delta));
}

int deltaprof_delta_commit(struct deltaprof_delta *delta)
{
    return dp_consumer_commit(consumer(delta));
}

int deltaprof_delta_abandon(struct deltaprof_delta *delta)
{
    return dp_consumer_abandon(consumer(delta));
}
