/* SPDX-License-Identifier: MIT */
/*
 * host/report/write_buffers.c - keeps one set of write buffers for the next profile, because new memory costs about a
 * microsecond per page, which is most of the cost of a small profile. If two threads write at the same time, each has a
 * set; the set that was kept first is then freed.
 *
 * [BUFFERS] get acquires and put releases: else a writer could see buffers without the last writer's stores. A set that
 * another thread was using at a fork is lost in the child, with its memory.
 */
#include "host/report/write_buffers.h"

#include "base/atomic.h"

#include <errno.h>

enum { SMALL_PROFILE_BYTES = 88 << 10 }; /* the buffers of a small profile, which are mappings of a few pages each */

static _Atomic(struct dp_report_write_buffers *) spare;

struct dp_report_write_buffers *dp_report_write_buffers_get(void)
{
    struct dp_report_write_buffers *buffers = dp_swap_acq_rel(&spare, NULL); /* [BUFFERS] */
    if (buffers)
        return buffers;
    dp_mem_fill(SMALL_PROFILE_BYTES);
    return dp_mem_map(sizeof *buffers);
}

static void free_buffers(struct dp_report_write_buffers *buffers)
{
    if (!buffers)
        return;
    dp_vec_fini(&buffers->rows);
    dp_locations_fini(&buffers->locations);
    dp_encode_free(buffers->encode);
    dp_gzip_free(buffers->gzip);
    dp_mem_unmap(buffers, sizeof *buffers);
}

static size_t bytes_of(const struct dp_report_write_buffers *buffers)
{
    return sizeof *buffers + buffers->rows.cap * sizeof *buffers->rows.at + dp_locations_bytes(&buffers->locations) +
           dp_encode_bytes(buffers->encode) + dp_gzip_bytes(buffers->gzip);
}

void dp_report_write_buffers_put(struct dp_report_write_buffers *buffers, size_t keep_bytes)
{
    if (!buffers)
        return;
    dp_vec_clear(&buffers->rows);
    struct dp_report_write_buffers *surplus = buffers;
    if (bytes_of(buffers) <= keep_bytes)
        surplus = dp_swap_acq_rel(&spare, buffers); /* [BUFFERS] */
    free_buffers(surplus);
}

int dp_report_write_buffers_prepare(struct dp_report_write_buffers *buffers, bool raw)
{
    struct dp_encode *encode = dp_report_write_buffers_open(buffers, raw, dp_gzip_write, NULL);
    if (!encode)
        return -ENOMEM;
    dp_encode_string(encode, "x", 1); /* allocates the encoder's tables of strings and functions */
    dp_encode_function(encode, 1, 1, 1, 1);
    return dp_encode_error(encode) ? -ENOMEM : dp_locations_prepare(&buffers->locations);
}

struct dp_encode *dp_report_write_buffers_open(struct dp_report_write_buffers *buffers, bool raw, dp_pprof_write_fn fn,
                                               void *ctx)
{
    if (!raw) {
        buffers->gzip = dp_gzip_again(buffers->gzip, fn, ctx);
        if (!buffers->gzip)
            return NULL;
        fn = dp_gzip_write;
        ctx = buffers->gzip;
    }
    if (buffers->encode)
        dp_encode_reset(buffers->encode, fn, ctx);
    else
        buffers->encode = dp_encode_new(fn, ctx);
    return buffers->encode;
}

int dp_report_write_buffers_close(struct dp_report_write_buffers *buffers, bool raw, int err)
{
    if (!err)
        err = raw ? dp_encode_finish(buffers->encode) : dp_encode_finish_by(buffers->encode, dp_gzip_write_last);
    return err || raw ? err : dp_gzip_finish(buffers->gzip);
}
