/* SPDX-License-Identifier: MIT */
/* pprof/encode_utf8.h - what is UTF-8 (RFC 3629) and what is not. */
#pragma once

#include <stddef.h>

/* How many of the first bytes are whole, valid characters; n_bytes if all are. */
size_t dp_utf8_prefix(const char *bytes, size_t n_bytes);

/*
 * Copies, with U+FFFD in place of each byte that belongs to no character. to has room for 3 * n_bytes. The bytes
 * written.
 */
size_t dp_utf8_replace(char *to, const char *bytes, size_t n_bytes);
