/* SPDX-License-Identifier: MIT */
/*
 * report/write_buffers.c - keeps one set of write buffers for the next write. New memory costs about a microsecond per
 * page, which is most of the cost of a small profile. Consumers mostly write one after the other; if two write at the
 * same time, each has a set, and one set is freed afterwards.
 *
 * [BUFFERS] A get is an acquire and a put a release: the next writer sees all that the last one wrote. If another
 * thread was writing at a fork, its set is lost in the child, with its memory.
 */
#include "report/write_buffers.h"

#include "base/atomic.h"

static _Atomic(struct dp_write_buffers *) spare;

struct dp_write_buffers *dp_write_buffers_get(void)
{
    struct dp_write_buffers *buffers = dp_swap_acq_rel(&spare, NULL); /* [BUFFERS] */
    return buffers ? buffers : dp_mem_map(sizeof *buffers);
}

static void put_away(struct dp_write_buffers *buffers)
{
    if (!buffers)
        return;
    dp_vec_fini(&buffers->rows);
    dp_locations_fini(&buffers->locations);
    dp_encode_free(buffers->encode);
    dp_gzip_free(buffers->gzip);
    dp_mem_unmap(buffers, sizeof *buffers);
}

static size_t bytes_of(const struct dp_write_buffers *buffers)
{
    return sizeof *buffers + buffers->rows.cap * sizeof *buffers->rows.at + dp_locations_bytes(&buffers->locations) +
           dp_encode_bytes(buffers->encode) + dp_gzip_bytes(buffers->gzip);
}

void dp_write_buffers_put(struct dp_write_buffers *buffers, size_t keep_bytes)
{
    if (!buffers)
        return;
    dp_vec_clear(&buffers->rows);
    struct dp_write_buffers *other = buffers;
    if (bytes_of(buffers) <= keep_bytes)
        other = dp_swap_acq_rel(&spare, buffers); /* [BUFFERS] */
    put_away(other);
}
