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

struct dp_gzip; /* one stream out; its memory is dp_mem's */
struct dp_gzip *dp_gzip_new(dp_write_fn fn, void *ctx); /* NULL: no memory */
int dp_gzip_write(struct dp_gzip *, const void *bytes, size_t n_bytes);
int dp_gzip_finish(struct dp_gzip *); /* writes the trailer */
void dp_gzip_reset(struct dp_gzip *, dp_write_fn fn, void *ctx);
void dp_gzip_free(struct dp_gzip *); /* takes NULL */

/* Opens the module if it is not; outside hooks only. 0, or -errno with the reason in *why: stored blocks are used. */
int dp_gzip_load(const char **why);
