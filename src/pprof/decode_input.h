/* SPDX-License-Identifier: MIT */
/* pprof/decode_input.h - reads one profile, gzipped or raw, whole into memory, up to a limit. */
#pragma once

#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>

/* An error message of one line: what is wrong, and where in the input. It has no file name and no newline. */
struct dp_decode_error {
    char line[256];
};
/* Fills in the line; returns -EBADMSG, for the caller to pass on. error may be NULL. */
int dp_decode_fail(struct dp_decode_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define DP_DECODE_LIMIT     ((size_t)1 << 30) /* default limit: bytes after inflating */
#define DP_DECODE_LIMIT_MAX ((size_t)UINT32_MAX)

/* The uncompressed bytes of a profile, allocated by dp_mem. Zeroed: empty. A second read replaces the first. */
struct dp_decode_input {
    DP_VEC(uint8_t) bytes;
};

/*
 * Reads fd to its end: gzip of any number of members, or a raw profile. Returns 0, or an error with *error filled in:
 * -EBADMSG (damaged, truncated, or over the limit), -ENOMEM, or the error of read().
 */
int dp_decode_input_read(struct dp_decode_input *, int fd, size_t limit_bytes, struct dp_decode_error *);
/* The same from memory. */
int dp_decode_input_copy(struct dp_decode_input *, const void *bytes, size_t n_bytes, size_t limit_bytes,
                         struct dp_decode_error *);
/* The same, for a caller that tells other formats from a profile itself. */
int dp_decode_input_inflate(struct dp_decode_input *, const void *bytes, size_t n_bytes, size_t limit_bytes,
                            struct dp_decode_error *);
/* Names a format that is not pprof by the beginning of the bytes, of which there is at least one. 0 or -EBADMSG. */
int dp_decode_input_refuse_others(const uint8_t *bytes, size_t n_bytes, struct dp_decode_error *);
void dp_decode_input_fini(struct dp_decode_input *);
