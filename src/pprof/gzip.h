/* SPDX-License-Identifier: MIT */
/*
 * pprof/gzip.h - compresses and inflates gzip streams, through the gzip module (ISA-L). Without the module, output
 * consists of stored blocks: larger, but valid. Streaming both ways, with a fixed buffer.
 */
#pragma once

#include "base/module.h"

#include <stddef.h>
#include <stdint.h>

typedef int (*dp_pprof_write_fn)(void *ctx, const void *bytes, size_t n_bytes); /* 0 or -errno */

struct dp_gzip;                                               /* one output stream; memory from dp_mem */
struct dp_gzip *dp_gzip_new(dp_pprof_write_fn fn, void *ctx); /* NULL: no memory */
/* A dp_pprof_write_fn on a struct dp_gzip. 0, or fn's first error; after an error only reset and free do anything. */
int dp_gzip_write(void *gzip, const void *bytes, size_t n_bytes);
/* The same for the last bytes of the stream. A stream that comes in one call is not copied before it is compressed. The
 * caller calls dp_gzip_finish next. */
int dp_gzip_write_last(void *gzip, const void *bytes, size_t n_bytes);
int dp_gzip_finish(struct dp_gzip *); /* writes the trailer */
void dp_gzip_reset(struct dp_gzip *, dp_pprof_write_fn fn, void *ctx);
/* A stream for another use, as new: the given one, or a new one if it is NULL or the module was opened since. */
struct dp_gzip *dp_gzip_again(struct dp_gzip *, dp_pprof_write_fn fn, void *ctx);
size_t dp_gzip_bytes(const struct dp_gzip *); /* its memory; 0 for NULL */
void dp_gzip_free(struct dp_gzip *);          /* takes NULL */

/*
 * Opens the module if it is not open; outside hooks only. Returns 0, or -errno with the reason in *why: then new
 * streams use stored blocks. Existing streams do not change.
 */
int dp_gzip_load(const char **why);

/* Input and output of the module's functions: they advance the pointers and lower the counts. */
struct dp_gzip_io {
    const uint8_t *in;
    uint8_t *out;
    size_t n_in, n_out;
};

#define DP_GZIP_TINY_BYTES 1024

/* The module's table. States are the caller's zeroed memory, 64-byte aligned; the module allocates nothing. */
struct dp_gzip_ops {
    struct dp_module_ops base;
    size_t deflate_bytes, inflate_bytes; /* sizes of the states */
    void (*deflate_init)(void *state);
    /*
     * 1: the stream is complete (only with finish); 0: n_in or n_out is 0; -EIO: it failed. A stream of less than
     * DP_GZIP_TINY_BYTES comes in one call, with finish.
     */
    int (*deflate)(void *state, struct dp_gzip_io *io, int finish);
    void (*inflate_init)(void *state);
    /*
     * One gzip member. 1: it ended with a correct checksum, io stands behind it; 0: n_in or n_out is 0; -EBADMSG: see
     * *why.
     */
    int (*inflate)(void *state, struct dp_gzip_io *io, const char **why);
};

/* The table; opens the module if necessary. NULL: the reason is in *why. For decoding, which needs the module. */
const struct dp_gzip_ops *dp_gzip_ops(const char **why);
