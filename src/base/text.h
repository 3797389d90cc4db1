/* SPDX-License-Identifier: MIT */
/*
 * base/text.h - reads and formats numbers and text without stdio, locale or allocation: for configuration, log and file
 * names, also in signal handlers and exit paths. Context: any thread, async-signal-safe; errno is kept.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read whole numbers without sign. Return 0; -EINVAL: not a number; -ERANGE: above INT64_MAX. */
int dp_text_read_count(const char *text, int64_t *n);
int dp_text_read_size(const char *text, int64_t *n_bytes); /* k M G T, powers of 1024, in either case */
int dp_text_read_time(const char *text,
                      int64_t *ns); /* ns us ms s m h, with a fraction (0.5s); a bare 0 needs no unit */

/* Whether the text is the HOST, HOST:PORT or [IPv6]:PORT of a URL. Names are not resolved. */
bool dp_text_is_authority(const char *text, size_t n_bytes);

/* The shortest text that reads back as the same number. */
void dp_text_count(char *out, size_t room, int64_t n);
void dp_text_size(char *out, size_t room, int64_t n_bytes);
void dp_text_time(char *out, size_t room, int64_t ns);

/* A time of CLOCK_REALTIME as 2026-11-27T13:50:08Z. */
void dp_text_utc(char *out, size_t room, int64_t wall_ns);

/*
 * Knows %s %d %u %x %ld %lu %zu %lld %llu %% and zero-padded widths (%04u). %m is the name of `error_m` (ENOSPC). Cuts
 * the text to room, which includes the NUL (room > 0). Returns the bytes before the NUL.
 */
size_t dp_text_format(char *out, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t dp_text_vformat(char *out, size_t room, int error_m, const char *format, va_list args);

/* Base64 with padding (RFC 4648): 4 characters for each 3 bytes; the last 1 or 2 bytes also become 4. Returns the
 * number of characters; `to` has room for them. No NUL follows. */
size_t dp_text_base64(char *to, const uint8_t *bytes, size_t n_bytes);
