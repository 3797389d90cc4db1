/* SPDX-License-Identifier: MIT */
/* host/api/outside.c - the public functions that write profiles of another process, from its copied tables. */
#include <deltaprof/outside.h>

#include "host/api/adopt.h"
#include "host/locks/waits_page.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/shared/table_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COLUMNS_LOCK = 1, LOCK_TRIES = 500, LOCK_US = 10000 }; /* the byte of the lock; byte 0 is tool/recover's */

/* By kind. */
static struct {
    int column;               /* of its last file; -1: no file was written */
    struct dp_consumer *last; /* of SINCE_LAST */
    struct dp_consumer *file; /* of a write without SINCE_*: begins at the column; NULL: none */
    bool is_ahead;            /* file was written, and its state is not the valid column yet */
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
    unsigned how =
        DP_WRITE_TABLES | (flags & DELTAPROF_OUTSIDE_KILLED ? DP_WRITE_ENDED | DP_WRITE_KILLED | DP_WRITE_EXIT : 0u) |
        (flags & DELTAPROF_OUTSIDE_ENDED ? DP_WRITE_ENDED : 0u) |
        (flags & DELTAPROF_OUTSIDE_SKIP_EMPTY ? DP_WRITE_SKIP_EMPTY : 0u) |
        (flags & DELTAPROF_OUTSIDE_RAW ? DP_WRITE_RAW : 0u) | (flags & DELTAPROF_OUTSIDE_OWN ? DP_WRITE_OWN : 0u);
    int err = dp_consumer_write(c, how, fn, ctx, &info);
    if (err == 0)
        dp_consumer_commit(c);
    if (profile)
        *profile =
            (struct deltaprof_outside_profile){info.from_ns, info.to_ns, info.n_rows, info.inuse_bytes, info.worst};
    return err;
}

/* The consumer that begins where the last file ended. NULL: no memory. */
static struct dp_consumer *consumer_of_files(unsigned kind)
{
    struct dp_consumer **file = &kinds[kind].file;
    if (kinds[kind].is_ahead) { /* its profile never became a file */
        dp_consumer_free(*file);
        *file = NULL;
    }
    kinds[kind].is_ahead = false;
    if (!*file && (*file = dp_consumer_new(kind, NULL)) && kinds[kind].column >= 0)
        dp_consumer_baseline_adopt(*file, (unsigned)kinds[kind].column);
    return *file;
}

static int write_profile(unsigned kind, unsigned flags, deltaprof_write_fn fn, void *ctx,
                         struct deltaprof_outside_profile *profile)
{
    if (kind >= DP_KIND_TABLES)
        return -EINVAL;
    bool is_last = flags & DELTAPROF_OUTSIDE_SINCE_LAST, is_once = flags & DELTAPROF_OUTSIDE_SINCE_START;
    struct dp_consumer *c = is_last && kinds[kind].last ? kinds[kind].last
                            : is_last || is_once        ? dp_consumer_new(kind, NULL)
                                                        : consumer_of_files(kind);
    if (!c)
        return -ENOMEM;
    int err = write_once(c, flags, fn, ctx, profile);
    if (is_last)
        kinds[kind].last = c;
    else if (is_once)
        dp_consumer_free(c);
    else
        kinds[kind].is_ahead = err == 0;
    return err;
}

/*
 * A reader whose parent was killed may be about to write, too: it has the lock until it ends, which is soon. What it
 * wrote since this reader copied the tables is overwritten.
 */
static int lock_columns(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = COLUMNS_LOCK, .l_len = 1};
    int tries = 0;
    while (fcntl(fd, F_OFD_SETLK, &lock)) {
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || ++tries > LOCK_TRIES)
            return -errno;
        usleep(LOCK_US);
    }
    return 0;
}

/* The end of an ended process's window is told by the time of its file, which stays as it is. */
static int store_column(int fd, unsigned kind, uint32_t seq)
{
    struct stat st = {0};
    int column = kinds[kind].column, err = fstat(fd, &st) ? -errno : 0;
    if (!err && column >= 0) /* where only the file with its number made it valid */
        err = dp_consumer_baseline_choose(fd, kind, (unsigned)column);
    if (!err)
        err = dp_consumer_baseline_store(kinds[kind].file, fd, column == 0, seq);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
    return !err && futimens(fd, times) ? -errno : err;
}

static int store_state(int fd, unsigned kind, uint32_t seq)
{
    if (kind >= DP_KIND_TABLES || !kinds[kind].is_ahead)
        return -EINVAL;
    int err = lock_columns(fd);
    return err ? err : store_column(fd, kind, seq);
}

static int choose_state(int fd, unsigned kind)
{
    if (kind >= DP_KIND_TABLES || !kinds[kind].is_ahead)
        return -EINVAL;
    unsigned column = kinds[kind].column == 0;
    int err = dp_consumer_baseline_choose(fd, kind, column);
    if (!err) {
        kinds[kind].column = (int)column;
        kinds[kind].is_ahead = false;
    }
    return err;
}

static uint32_t highest(void)
{
    const struct dp_tables_file *header = dp_shared_file_header();
    uint32_t most = 0;
    for (unsigned which = 0; which < 2; which++)
        for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
            if (header->columns[which][kind].seq > most)
                most = header->columns[which][kind].seq;
    return most;
}

static int settle_kind(int fd, unsigned kind)
{
    const struct dp_tables_file *header = dp_shared_file_header();
    unsigned current = dp_load_relaxed(&header->current[kind]), next = current == 1;
    if (kinds[kind].column == (int)next)
        return dp_consumer_baseline_choose(fd, kind, next);
    return header->columns[next][kind].seq ? dp_consumer_baseline_discard(fd, kind, next) : 0;
}

static int settle(int fd)
{
    int err = lock_columns(fd);
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++)
        err = settle_kind(fd, kind);
    return err;
}

const struct deltaprof_outside *deltaprof_outside(void)
{
    static const struct deltaprof_outside functions = {
        3, adopt, write_profile, store_state, choose_state, highest, dp_waits_write, settle};
    return &functions;
}
