/* SPDX-License-Identifier: MIT */
/* pprof/encode_utf8.h - checks and repairs UTF-8 (RFC 3629). */
#pragma once

#include <stddef.h>

/* The length of the valid beginning of `bytes`, in bytes; n_bytes if all is valid. */
size_t dp_encode_utf8_prefix(const char *bytes, size_t n_bytes);

/*
 * Copies, with U+FFFD in place of each byte that belongs to no valid character. `to` has room for 3 * n_bytes. Returns
 * the number of bytes written.
 */
size_t dp_encode_utf8_replace(char *to, const char *bytes, size_t n_bytes);
