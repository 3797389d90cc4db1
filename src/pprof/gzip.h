/* SPDX-License-Identifier: MIT */
/*
 * pprof/gzip.h - bytes in, gzip out, and back; the seam to the gzip module (ISA-L). Without the module, output is gzip
 * of stored blocks: larger, and as valid. Streaming both ways, with a fixed buffer.
 */
#pragma once

#include "base/module.h"

#include <stddef.h>
#include <stdint.h>

typedef int (*dp_write_fn)(void *ctx, const void *bytes, size_t n_bytes); /* 0 or -errno */

struct dp_gzip;                                         /* one stream out; its memory is dp_mem's */
struct dp_gzip *dp_gzip_new(dp_write_fn fn, void *ctx); /* NULL: no memory */
/* 0, or fn's first error; after an error only reset and free do anything. */
int dp_gzip_write(struct dp_gzip *, const void *bytes, size_t n_bytes);
int dp_gzip_finish(struct dp_gzip *); /* writes the trailer */
void dp_gzip_reset(struct dp_gzip *, dp_write_fn fn, void *ctx);
/* A stream for another use: the same one, or a new one if there is none or the module was opened since. As new. */
struct dp_gzip *dp_gzip_again(struct dp_gzip *, dp_write_fn fn, void *ctx);
size_t dp_gzip_bytes(const struct dp_gzip *); /* its memory; 0 for NULL */
void dp_gzip_free(struct dp_gzip *);          /* takes NULL */

/*
 * Opens the module if it is not; outside hooks only. 0, or -errno with the reason in *why: stored blocks are used by
 * streams made from now on. Streams made before keep their way.
 */
int dp_gzip_load(const char **why);

/* What the module's functions move: they advance the pointers and lower the counts. */
struct dp_gzip_io {
    const uint8_t *in;
    uint8_t *out;
    size_t n_in, n_out;
};

/* The module's table. States are the caller's zeroed memory, 64-byte aligned; the module allocates nothing. */
struct dp_gzip_ops {
    struct dp_module_ops base;
    size_t deflate_bytes, inflate_bytes; /* sizes of the states */
    void (*deflate_init)(void *state);
    /* 1: the stream is complete (only with finish); 0: n_in or n_out ran out; -EIO: it broke. */
    int (*deflate)(void *state, struct dp_gzip_io *io, int finish);
    void (*inflate_init)(void *state);
    /* One gzip member. 1: it ended, its checksum held, io stands behind it; 0: n_in or n_out ran out; -EBADMSG: *why.
     */
    int (*inflate)(void *state, struct dp_gzip_io *io, const char **why);
};

/* The table, opening the module if need be; NULL: *why. For readers, who cannot do without. */
const struct dp_gzip_ops *dp_gzip_ops(const char **why);
