/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_input.h - the bytes of one profile, gzipped or raw, whole in memory and within a limit.
 */
#pragma once

#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>

/* What was wrong with an input and where, one line without the file's name and without newline. */
struct dp_input_error {
    char line[256];
};
/* Fills in the line; gives -EBADMSG, for the caller to return. error may be NULL. */
int dp_input_fail(struct dp_input_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define DP_INPUT_LIMIT     ((size_t)1 << 30) /* bytes after inflating, unless somebody says otherwise */
#define DP_INPUT_LIMIT_MAX ((size_t)UINT32_MAX)

/* Bytes as in the profile; at.at is dp_mem's. Zero is an empty one; it can be read into again. */
struct dp_input {
    DP_VEC(uint8_t) bytes;
};

/*
 * Reads fd to its end: gzip of any number of members, or a raw profile. 0; -EBADMSG: not gzip after all, truncated,
 * corrupt, or over the limit; -ENOMEM; or read's error. The line is filled in for all of them.
 */
int dp_input_read(struct dp_input *, int fd, size_t limit_bytes, struct dp_input_error *);
/* The same from memory. */
int dp_input_copy(struct dp_input *, const void *bytes, size_t n_bytes, size_t limit_bytes, struct dp_input_error *);
void dp_input_fini(struct dp_input *);
