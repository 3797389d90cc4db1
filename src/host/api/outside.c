/* SPDX-License-Identifier: MIT */
/* host/api/outside.c - the public functions that write profiles of another process, from its copied tables. */
#include <deltaprof/outside.h>

#include "host/api/adopt.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/shared/table_file.h"

#include <errno.h>

/* For each kind the column of its last file, or none; and the consumer of SINCE_LAST. */
static struct {
    int column; /* -1: no file was written */
    struct dp_consumer *last;
} kinds[DP_KIND_TABLES];

static int adopt(int fd, const char *proc, bool (*written)(void *ctx, unsigned kind, uint32_t seq), void *ctx,
                 char *why, size_t n_why)
{
    int err = dp_outside_adopt(fd, proc, why, n_why);
    const struct dp_tables_file *header = dp_shared_file_header();
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++) {
        unsigned current = dp_load_relaxed(&header->current[kind]), next = current == 1;
        uint32_t seq = header->columns[next][kind].seq, seq_before = current ? header->columns[!next][kind].seq : 0;
        bool is_next = seq > seq_before && written && written(ctx, kind, seq);
        kinds[kind].column = is_next ? (int)next : (int)current - 1;
    }
    return err;
}

static int write_once(struct dp_consumer *c, unsigned flags, deltaprof_write_fn fn, void *ctx,
                      struct deltaprof_outside_profile *profile)
{
    struct dp_profile_info info = {.inuse_bytes = -1};
    unsigned how = (flags & DELTAPROF_OUTSIDE_KILLED ? DP_WRITE_ENDED | DP_WRITE_KILLED : 0u) |
                   (flags & DELTAPROF_OUTSIDE_SKIP_EMPTY ? DP_WRITE_SKIP_EMPTY : 0u) |
                   (flags & DELTAPROF_OUTSIDE_RAW ? DP_WRITE_RAW : 0u);
    int err = dp_consumer_write(c, how, fn, ctx, &info);
    if (err == 0)
        dp_consumer_commit(c);
    if (profile)
        *profile =
            (struct deltaprof_outside_profile){info.from_ns, info.to_ns, info.n_rows, info.inuse_bytes, info.worst};
    return err;
}

static int write_profile(unsigned kind, unsigned flags, deltaprof_write_fn fn, void *ctx,
                         struct deltaprof_outside_profile *profile)
{
    if (kind >= DP_KIND_TABLES)
        return -EINVAL;
    bool is_last = flags & DELTAPROF_OUTSIDE_SINCE_LAST;
    struct dp_consumer *c = is_last && kinds[kind].last ? kinds[kind].last : dp_consumer_new(kind, NULL);
    if (!c)
        return -ENOMEM;
    if (!is_last && !(flags & DELTAPROF_OUTSIDE_SINCE_START) && kinds[kind].column >= 0)
        dp_consumer_baseline_adopt(c, (unsigned)kinds[kind].column);
    int err = write_once(c, flags, fn, ctx, profile);
    if (is_last)
        kinds[kind].last = c;
    else
        dp_consumer_free(c);
    return err;
}

const struct deltaprof_outside *deltaprof_outside(void)
{
    static const struct deltaprof_outside functions = {1, adopt, write_profile};
    return &functions;
}
