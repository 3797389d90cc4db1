/* SPDX-License-Identifier: MIT */
/*
 * modules/gzip_zlib.c - the gzip module of fully static programs, by zlib: there may be no static ISA-L to link, and
 * libelf.a needs zlib anyway. It only compresses. zlib's allocations come from the state's memory.
 */
#include "pprof/gzip.h"

#include <errno.h>
#include <zlib.h>

#define LEVEL        1
#define GZIP_WRAPPER (15 + 16)   /* the largest window */
#define MEMORY_BYTES (512 << 10) /* zlib takes 268 KB, compatible libraries a little more */

struct deflate_state {
    z_stream stream;
    size_t used;
    char memory[MEMORY_BYTES] __attribute__((aligned(64)));
};

static void *allocate(void *opaque, unsigned count, unsigned size)
{
    struct deflate_state *state = opaque;
    size_t want = ((size_t)count * size + 63) & ~(size_t)63;
    if (want > MEMORY_BYTES - state->used)
        return Z_NULL;
    state->used += want;
    return state->memory + state->used - want;
}

static void free_nothing(void *opaque, void *address) {}

/* If it fails, every call of deflate fails. */
static void deflate_init(void *memory)
{
    struct deflate_state *state = memory;
    state->used = 0;
    state->stream = (z_stream){.zalloc = allocate, .zfree = free_nothing, .opaque = state};
    deflateInit2(&state->stream, LEVEL, Z_DEFLATED, GZIP_WRAPPER, 8, Z_DEFAULT_STRATEGY);
}

static unsigned at_most_4g(size_t n)
{
    return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

static int deflate_step(void *memory, struct dp_gzip_io *io, int finish)
{
    z_stream *stream = &((struct deflate_state *)memory)->stream;
    unsigned n_in = at_most_4g(io->n_in), n_out = at_most_4g(io->n_out);
    stream->next_in = (uint8_t *)io->in;
    stream->avail_in = n_in;
    stream->next_out = io->out;
    stream->avail_out = n_out;
    int answer = deflate(stream, finish && n_in == io->n_in ? Z_FINISH : Z_NO_FLUSH);
    io->in += n_in - stream->avail_in;
    io->n_in -= n_in - stream->avail_in;
    io->out += n_out - stream->avail_out;
    io->n_out -= n_out - stream->avail_out;
    return answer == Z_STREAM_END ? 1 : answer == Z_OK || answer == Z_BUF_ERROR ? 0 : -EIO;
}

__attribute__((visibility("default"))) const struct dp_gzip_ops dp_module_gzip = {
    .base = {.abi = DP_MODULE_ABI, .file = "libz", .probe = (const void *)deflate},
    .deflate_bytes = sizeof(struct deflate_state),
    .deflate_init = deflate_init,
    .deflate = deflate_step,
};
