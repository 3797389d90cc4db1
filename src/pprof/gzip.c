/* SPDX-License-Identifier: MIT */
/*
 * pprof/gzip.c - writes one gzip stream, through the module or as stored blocks.
 *
 * A stream is one block of memory: this struct, an output buffer, the module's state. It can be reset and reused, so a
 * consumer allocates it once; pages of the state that a small profile does not touch cost nothing. Stored blocks (RFC
 * 1951, 3.2.4; RFC 1952) are built in the same buffer, behind a five-byte block header that is filled in when the block
 * is complete.
 */
#include "pprof/gzip.h"

#include "base/hash.h"
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define OUT_BYTES    65536
#define BLOCK_HEADER 5
#define BLOCK_BYTES  (OUT_BYTES - BLOCK_HEADER)
#define STATE_OFFSET ((sizeof(struct dp_gzip) + 63) & ~(size_t)63)

struct dp_gzip {
    dp_pprof_write_fn fn;
    void *ctx;
    const struct dp_gzip_ops *ops; /* NULL: stored blocks */
    size_t mapped_bytes;
    int err;
    size_t n_out;  /* for stored blocks: bytes in the current block */
    size_t n_held; /* for the module: the stream so far, while it is tiny */
    bool is_complete;
    uint8_t held[DP_GZIP_TINY_BYTES];
    uint32_t crc, n_in;
    uint8_t out[OUT_BYTES];
};

extern const struct dp_gzip_ops dp_module_gzip __attribute__((weak)); /* in a static build */
static struct dp_module module = {.name = "gzip"};

static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};

const struct dp_gzip_ops *dp_gzip_ops(const char **why)
{
    const struct dp_gzip_ops *ops = &dp_module_gzip ? &dp_module_gzip : dp_module_open(&module);
    if (!ops && why)
        *why = dp_load_acquire(&module.error);
    return ops;
}

int dp_gzip_load(const char **why)
{
    return dp_gzip_ops(why) ? 0 : -ENOENT;
}

static void *state_of(struct dp_gzip *gz)
{
    return (char *)gz + STATE_OFFSET;
}

/* The module's table, if it is open. */
static const struct dp_gzip_ops *opened(void)
{
    return &dp_module_gzip ? &dp_module_gzip : dp_module_opened(&module);
}

struct dp_gzip *dp_gzip_new(dp_pprof_write_fn fn, void *ctx)
{
    const struct dp_gzip_ops *ops = opened();
    size_t n_bytes = STATE_OFFSET + (ops ? ops->deflate_bytes : 0);
    struct dp_gzip *gz = dp_mem_map(n_bytes);
    if (!gz)
        return NULL;
    gz->ops = ops;
    gz->mapped_bytes = n_bytes;
    dp_gzip_reset(gz, fn, ctx);
    return gz;
}

void dp_gzip_free(struct dp_gzip *gz)
{
    if (gz)
        dp_mem_unmap(gz, gz->mapped_bytes);
}

struct dp_gzip *dp_gzip_again(struct dp_gzip *gz, dp_pprof_write_fn fn, void *ctx)
{
    if (gz && gz->ops == opened()) {
        dp_gzip_reset(gz, fn, ctx);
        return gz;
    }
    dp_gzip_free(gz);
    return dp_gzip_new(fn, ctx);
}

size_t dp_gzip_bytes(const struct dp_gzip *gz)
{
    return gz ? gz->mapped_bytes : 0;
}

static int emit(struct dp_gzip *gz, const void *bytes, size_t n_bytes)
{
    if (!gz->err && n_bytes)
        gz->err = gz->fn(gz->ctx, bytes, n_bytes);
    return gz->err;
}

void dp_gzip_reset(struct dp_gzip *gz, dp_pprof_write_fn fn, void *ctx)
{
    gz->fn = fn;
    gz->ctx = ctx;
    gz->err = 0;
    gz->n_out = 0;
    gz->n_held = 0;
    gz->is_complete = false;
    gz->n_in = 0;
    gz->crc = 0;
    if (gz->ops)
        gz->ops->deflate_init(state_of(gz));
}

static int deflate(struct dp_gzip *gz, const void *bytes, size_t n_bytes, int finish)
{
    struct dp_gzip_io io = {.in = bytes, .n_in = n_bytes};
    int done;
    do {
        io.out = gz->out + gz->n_out;
        io.n_out = OUT_BYTES - gz->n_out;
        done = gz->ops->deflate(state_of(gz), &io, finish);
        gz->n_out = OUT_BYTES - io.n_out;
        if (done < 0)
            return gz->err = done;
        if (io.n_out == 0 || done) {
            if (emit(gz, gz->out, gz->n_out))
                return gz->err;
            gz->n_out = 0;
        }
    } while (finish ? !done : io.n_in > 0);
    return 0;
}

/*
 * Holds the begin of a stream until it is clear whether the stream is tiny. ISA-L compresses a stream badly whose first
 * piece has less than 300 bytes, so what was held is filled up first.
 */
static int buffer_start(struct dp_gzip *gz, const uint8_t *bytes, size_t n_bytes)
{
    if (gz->n_held < DP_GZIP_TINY_BYTES && (gz->n_held || n_bytes < DP_GZIP_TINY_BYTES)) {
        size_t left = DP_GZIP_TINY_BYTES - gz->n_held, n = left < n_bytes ? left : n_bytes;
        memcpy(gz->held + gz->n_held, bytes, n);
        gz->n_held += n;
        bytes += n;
        n_bytes -= n;
        if (gz->n_held < DP_GZIP_TINY_BYTES || deflate(gz, gz->held, gz->n_held, 0))
            return gz->err;
    }
    gz->n_held = DP_GZIP_TINY_BYTES; /* no more is held */
    return deflate(gz, bytes, n_bytes, 0);
}

static int stored_block(struct dp_gzip *gz, int last)
{
    uint16_t n = (uint16_t)gz->n_out, inverse = (uint16_t)~n;
    gz->out[0] = (uint8_t)last;
    gz->out[1] = (uint8_t)n, gz->out[2] = (uint8_t)(n >> 8);
    gz->out[3] = (uint8_t)inverse, gz->out[4] = (uint8_t)(inverse >> 8);
    gz->n_out = 0;
    return emit(gz, gz->out, BLOCK_HEADER + n);
}

static int store(struct dp_gzip *gz, const uint8_t *bytes, size_t n_bytes)
{
    if (gz->n_in == 0 && gz->n_out == 0 && emit(gz, header, sizeof header))
        return gz->err;
    while (n_bytes) {
        size_t n = BLOCK_BYTES - gz->n_out < n_bytes ? BLOCK_BYTES - gz->n_out : n_bytes;
        gz->crc = dp_hash_crc32(gz->crc, bytes, n);
        memcpy(gz->out + BLOCK_HEADER + gz->n_out, bytes, n);
        gz->n_out += n;
        gz->n_in += (uint32_t)n;
        bytes += n;
        n_bytes -= n;
        if (gz->n_out == BLOCK_BYTES && stored_block(gz, 0))
            return gz->err;
    }
    return 0;
}

int dp_gzip_write(void *gzip, const void *bytes, size_t n_bytes)
{
    struct dp_gzip *gz = gzip;
    if (gz->err || !n_bytes)
        return gz->err;
    return gz->ops ? buffer_start(gz, bytes, n_bytes) : store(gz, bytes, n_bytes);
}

int dp_gzip_write_last(void *gzip, const void *bytes, size_t n_bytes)
{
    struct dp_gzip *gz = gzip;
    if (!gz->ops || (gz->n_held && gz->n_held < DP_GZIP_TINY_BYTES))
        return dp_gzip_write(gz, bytes, n_bytes);
    gz->is_complete = true;
    return gz->err ? gz->err : deflate(gz, bytes, n_bytes, 1);
}

int dp_gzip_finish(struct dp_gzip *gz)
{
    if (gz->err || gz->is_complete)
        return gz->err;
    if (gz->ops)
        return deflate(gz, gz->held, gz->n_held < DP_GZIP_TINY_BYTES ? gz->n_held : 0, 1);
    if (store(gz, (const uint8_t *)"", 0) || stored_block(gz, 1))
        return gz->err;
    uint8_t trailer[8];
    for (int i = 0; i < 4; i++) {
        trailer[i] = (uint8_t)(gz->crc >> 8 * i);
        trailer[4 + i] = (uint8_t)(gz->n_in >> 8 * i);
    }
    return emit(gz, trailer, sizeof trailer);
}
