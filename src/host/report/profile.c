/* SPDX-License-Identifier: MIT */
/*
 * host/report/profile.c - writes the profiles of a consumer: computes the delta (delta.c), writes its rows (emit.c),
 * then commits or abandons.
 *
 * 1. A consumer's lock is held for its whole write, sink calls included. During a sink call no other lock is held: a
 *    slow sink delays no other consumer.
 * 2. The delivered values stay in `rows`, a private copy, until commit adds them to the baseline or abandon drops them.
 *    A failed write drops them, and the next write covers the time of the failed one as well.
 * 3. In a forked child a consumer starts anew at its first use: its baseline is the fork, nothing is pending. If the
 *    consumer's lock was held at the fork, its memory is in an unknown state and is dropped, not freed. If a sink
 *    forks, the sink returns in the child too; there the parent's write ends with -ECANCELED and changes nothing.
 */
#include "host/report/profile.h"
#include "host/report/published_trace.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/stats.h"
#include "host/report/consumer.h"
#include "host/report/recorded.h"
#include "host/report/settings.h"
#include "host/report/table_source.h"
#include "host/table/table.h"
#include "host/shared/shared.h"
#include "host/symbols/loader_sync.h"
#include "host/symbols/outside.h"
#include "host/symbols/symbol.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* Less than an hour: Pyroscope refuses profiles that began earlier. */
#define STATED_MOST_NS (50 * 60 * INT64_C(1000000000))

/*
 * To be called when a report begins: copies the process's setting of `symbolize`, which may have changed, to a consumer
 * that follows it. Without `wait`, if another thread is changing the settings, the consumer keeps its present value.
 */
static void follow(struct dp_consumer *c, bool wait)
{
    if (!c->follows)
        return;
    const struct dp_config *defaults = dp_report_settings_lock(wait);
    if (!defaults)
        return;
    c->symbolize = defaults->symbolize;
    dp_report_settings_unlock();
}

/* The next window begins at this edge; off_ns: until then, the time in which the kind was not recorded. */
static void begin_at(struct dp_consumer *c, struct dp_window_edge edge, int64_t off_ns)
{
    c->from = edge;
    c->off_from_ns = off_ns;
    dp_store_relaxed(&c->covered_ns, edge.mono_ns);
}

/* The window of the present write ends now. */
static void end_now(struct dp_consumer *c)
{
    c->to = dp_report_now();
    c->off_to_ns = dp_report_recorded_off_ns(c->kind, c->to.mono_ns);
}

struct dp_consumer *dp_consumer_new(unsigned kind, const struct dp_config *conf)
{
    bool mixed = kind & DELTAPROF_MIXED_SIZES;
    struct dp_columns columns;
    kind &= ~(unsigned)DELTAPROF_MIXED_SIZES;
    if (dp_columns_choose(kind, DP_TYPES_ALL, &columns) || (mixed && !dp_kind_has_levels(kind))) {
        errno = EINVAL;
        return NULL;
    }
    struct dp_consumer *c = dp_mem_map(sizeof *c);
    if (!c) {
        errno = ENOMEM;
        return NULL;
    }
    c->kind = kind;
    c->source_of_kind = dp_kind_source_of(kind);
    c->mixed_sizes = mixed;
    const struct dp_config *defaults = dp_report_settings_lock(true);
    struct dp_window_edge origin = dp_report_origin();
    c->depth = defaults->depth ? (size_t)defaults->depth : 128;
    c->memory_bytes = (size_t)(defaults->memory ? defaults->memory : 64 << 20);
    c->epoch = dp_epoch();
    /* wall_ns is 0 without deltaprof_start, which records.h does not need. */
    begin_at(c, origin.wall_ns ? origin : dp_report_now(), 0);
    dp_consumer_configure(c, conf ? conf : defaults);
    c->follows = !conf;
    dp_report_settings_unlock();
    return c;
}

void dp_consumer_free(struct dp_consumer *c)
{
    if (!c)
        return;
    dp_consumer_lock(c, true);
    dp_consumer_put_buffers(c);
    dp_vec_fini(&c->base);
    if (c->source_of_kind->free_delivered)
        c->source_of_kind->free_delivered(&c->delivered);
    if (c->dumps)
        c->dumps->free(c->dumps);
    dp_mem_unmap(c, sizeof *c);
}

/* ---- locking and unlocking -------------------------------------------------------------------------------------- */

int dp_consumer_lock(struct dp_consumer *c, bool wait)
{
    int taken = dp_epoch_lock(&c->lock, wait);
    if (taken < 0)
        return taken;
    if (taken == 1) {
        c->buffers = NULL;
        memset(&c->base, 0, sizeof c->base);
        memset(&c->delivered, 0, sizeof c->delivered);
        memset(&c->more, 0, sizeof c->more);
        c->dumps = NULL;
    }
    if (c->epoch != dp_epoch()) {
        c->epoch = dp_epoch();
        dp_consumer_put_buffers(c);
        c->showed_inuse = false;
        c->skip_next = true; /* a runtime's counters keep their values in the child: its first dump is the baseline */
        begin_at(c, dp_report_origin(), 0);
        dp_delta_restart(&c->base);
        if (c->source_of_kind->restart)
            c->source_of_kind->restart(&c->delivered);
    }
    follow(c, wait);
    return 0;
}

void dp_consumer_unlock(struct dp_consumer *c)
{
    dp_epoch_unlock(&c->lock);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* The sum of the in-use bytes of all rows; -1 if the profile does not have them. */
static int64_t inuse_of(const struct dp_consumer *c, const struct dp_emission *e)
{
    int64_t sum = 0;
    if (!dp_kind_has_levels(c->kind) || !dp_columns_have_last(c->kind, &e->columns))
        return -1;
    for (size_t i = 0; i < c->buffers->rows.n; i++)
        sum += c->buffers->rows.at[i].values[3];
    return sum;
}

static int64_t worst_of(const struct dp_consumer *c)
{
    int64_t worst = 0;
    for (size_t i = 0; i < c->buffers->rows.n; i++)
        if (c->buffers->rows.at[i].values[1] > worst)
            worst = c->buffers->rows.at[i].values[1];
    return worst;
}

int dp_consumer_emit(struct dp_consumer *c, unsigned flags, struct dp_emission *e, const struct dp_emit_source *source,
                     dp_pprof_write_fn fn, void *ctx, struct dp_profile_info *info)
{
    bool cumulative = flags & DP_WRITE_CUMULATIVE;
    if (info)
        *info = (struct dp_profile_info){cumulative ? dp_report_origin().wall_ns : c->from.wall_ns,
                                         c->to.wall_ns,
                                         c->buffers->rows.n,
                                         inuse_of(c, e),
                                         worst_of(c),
                                         0};
    if (!c->buffers->rows.n && !c->showed_inuse && !e->has_stuck && (flags & DP_WRITE_SKIP_EMPTY))
        return 1;
    if (c->buffers->rows.n && !(flags & DP_WRITE_NO_WAIT))
        dp_symbols_load(c->symbolize);
    if (!(flags & (DP_WRITE_NO_WAIT | DP_WRITE_RAW)))
        dp_report_load_gzip();
    int64_t off_ns = c->off_to_ns - c->off_from_ns, duration_ns = c->to.mono_ns - c->from.mono_ns - off_ns;
    int64_t begin_ns = off_ns ? c->to.wall_ns - duration_ns : c->from.wall_ns;
    if (cumulative || e->columns.levels_only)
        duration_ns = 0;
    else if (duration_ns <= 0)
        duration_ns = 1;
    e->locations =
        (struct dp_location_settings){c->symbolize, c->address, flags & DP_WRITE_NO_WAIT, e->locations.files};
    e->max_samples = c->max_samples;
    e->time_ns = duration_ns ? begin_ns : c->to.wall_ns;
    e->duration_ns = duration_ns;
    if (duration_ns && flags & DP_WRITE_SCRAPED && c->to.wall_ns - begin_ns > STATED_MOST_NS) {
        e->covered_ns = c->to.wall_ns - begin_ns;
        e->time_ns = c->to.wall_ns - STATED_MOST_NS;
        e->duration_ns = duration_ns < STATED_MOST_NS ? duration_ns : STATED_MOST_NS;
    }
    e->raw = flags & DP_WRITE_RAW;
    e->is_own = flags & DP_WRITE_OWN;
    e->marks = flags & (DP_WRITE_ENDED | DP_WRITE_EXIT | DP_WRITE_PEAK | DP_WRITE_KILLED | DP_WRITE_TABLES);
    uint32_t epoch = dp_epoch();
    int err = dp_emit(e, c->buffers, source, fn, ctx);
    if (info)
        info->n_missed = c->buffers->locations.n_missed;
    return epoch == dp_epoch() ? err : -ECANCELED;
}

static int write_locked(struct dp_consumer *c, unsigned flags, dp_pprof_write_fn fn, void *ctx,
                        struct dp_profile_info *info)
{
    bool cumulative = flags & DP_WRITE_CUMULATIVE;
    const struct dp_kind_source *kind = c->source_of_kind;
    int64_t rate = kind->period ? kind->period() : 1;
    struct dp_emission e = {.kind = c->kind, .more = &c->more, .period = rate > 0 ? rate : 1};
    struct dp_emit_source source = dp_report_table_source(c->kind);
    struct dp_symbols_files own = {0}, *files = c->files ? c->files : &own;
    e.locations.files = flags & DP_WRITE_NO_WAIT ? NULL : files;
    dp_columns_choose(c->kind, c->types, &e.columns);
    if (c->default_type && dp_columns_have(&e.columns, c->default_type))
        e.default_type = c->default_type;
    if (kind->prepare)
        kind->prepare(c, flags, &e);
    if (!(flags & DP_WRITE_NO_WAIT ? dp_shared_may_write_now() : dp_shared_may_write()))
        return -EAGAIN;
    if (!dp_symbols_outside.is_on)
        dp_objects_recheck();
    if (!(flags & DP_WRITE_NO_WAIT)) {
        dp_symbols_loader_sync();
        if (!dp_symbols_outside.is_on)
            dp_report_find_published_trace();
    }
    end_now(c);
    int err = dp_consumer_get_buffers(c);
    if (!err)
        err = dp_report_write_buffers_prepare(c->buffers, flags & DP_WRITE_RAW);
    if (!err && flags & DP_WRITE_AT_PEAK)
        err = dp_kind_source_scan_peak(c->kind, &c->base, &c->buffers->rows, &e.in_use_at_ns);
    else if (!err)
        err = dp_kind_source_scan(c->kind, c->locks, c->symbolize, e.locations.files, cumulative ? NULL : &c->base,
                                  &c->buffers->rows);
    if (!err && flags & DP_WRITE_SCRAPED && kind->summary)
        kind->summary(c->locks, &c->buffers->rows, e.summary, sizeof e.summary);
    if (!err && kind->add_more && !(flags & DP_WRITE_AT_PEAK))
        kind->add_more(c, flags, &e);
    if (!err)
        err = dp_consumer_emit(c, flags, &e, &source, fn, ctx, info);
    if (!(flags & DP_WRITE_NO_WAIT))
        dp_symbols_close(&own);
    if (err == -ECANCELED)
        return err;
    c->pending = !err && !cumulative;
    if (!c->pending)
        dp_consumer_put_buffers(c);
    return err;
}

/* A cumulative profile needs no commit, so it must not disturb a pending delta: a separate consumer writes it. */
static int write_cumulative(struct dp_consumer *c, unsigned flags, dp_pprof_write_fn fn, void *ctx,
                            struct dp_profile_info *info)
{
    struct dp_consumer once = {.kind = c->kind,
                               .source_of_kind = c->source_of_kind,
                               .default_type = c->default_type,
                               .locks = c->locks,
                               .source = DP_SOURCE_HOOKS,
                               .symbolize = c->symbolize,
                               .address = c->address,
                               .types = c->types,
                               .max_samples = c->max_samples,
                               .age = c->age,
                               .memory_bytes = c->memory_bytes};
    return write_locked(&once, flags, fn, ctx, info);
}

int dp_consumer_write(struct dp_consumer *c, unsigned flags, dp_pprof_write_fn fn, void *ctx,
                      struct dp_profile_info *info)
{
    if (flags & DP_WRITE_CUMULATIVE) {
        follow(c, true);
        return write_cumulative(c, flags, fn, ctx, info);
    }
    int err = dp_consumer_lock(c, !(flags & DP_WRITE_NO_WAIT));
    if (err)
        return err;
    if (c->source == DP_SOURCE_RECORDS)
        err = -EINVAL;
    else if (c->pending)
        err = -EBUSY;
    else
        err = write_locked(c, flags, fn, ctx, info);
    if (err == -ECANCELED)
        return err;
    if (err >= 0)
        c->source = DP_SOURCE_HOOKS;
    dp_consumer_unlock(c);
    return err;
}

/* ---- commit and abandon ----------------------------------------------------------------------------------------- */

static bool shows_inuse(const struct dp_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->at[i].values[2] | rows->at[i].values[3])
            return true;
    return false;
}

static void commit(struct dp_consumer *c)
{
    if (c->source == DP_SOURCE_RECORDS)
        c->dumps->commit(c->dumps, &c->buffers->rows);
    else
        dp_delta_commit(&c->base, &c->buffers->rows);
    if (c->source_of_kind->commit)
        c->source_of_kind->commit(&c->delivered, &c->more);
    c->showed_inuse = shows_inuse(&c->buffers->rows);
    begin_at(c, c->to, c->off_to_ns);
}

static int finish(struct dp_consumer *c, bool success)
{
    dp_consumer_lock(c, true);
    int err = c->pending ? 0 : -EINVAL;
    if (!err && success)
        commit(c);
    if (!err)
        dp_consumer_put_buffers(c);
    dp_consumer_unlock(c);
    return err;
}

int dp_consumer_commit(struct dp_consumer *c)
{
    return finish(c, true);
}

int dp_consumer_abandon(struct dp_consumer *c)
{
    return finish(c, false);
}

/* The buffers are left to what was interrupted. */
void dp_consumer_unlock_crashed(struct dp_consumer *c)
{
    c->buffers = NULL;
    memset(&c->more, 0, sizeof c->more);
    dp_consumer_unlock(c);
}

static int skip(struct dp_consumer *c)
{
    dp_consumer_put_buffers(c);
    c->skip_next = true; /* used only if the next report is of records */
    if (c->source == DP_SOURCE_RECORDS)
        return 0;
    end_now(c);
    int err = dp_consumer_get_buffers(c);
    if (!err)
        err = c->source_of_kind->rules ? dp_delta_scan(c->source_of_kind->rules, c->locks, &c->base, &c->buffers->rows)
                                       : 0;
    if (!err && c->source_of_kind->skip)
        err = c->source_of_kind->skip(c);
    if (!err)
        commit(c);
    dp_consumer_put_buffers(c);
    return err;
}

int dp_consumer_skip(struct dp_consumer *c)
{
    dp_consumer_lock(c, true);
    int err = skip(c);
    dp_consumer_unlock(c);
    return err;
}
