/* SPDX-License-Identifier: MIT */
/*
 * pprof/stamp.h - marks a profile file with the process that wrote it, in an extra field of the file's gzip header.
 *
 * The process id in the file's name is not enough: another process may get the same id later, and processes of several
 * pid namespaces may share a directory. Format of the field: RFC 1952, 2.3.1.1; gzip readers skip it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_stamp {
    uint64_t pid_scope; /* identifies this boot of this machine and the pid namespace; 0: unknown */
    uint64_t process;   /* identifies the process; 0: the file has no stamp */
};

#define DP_STAMP_PLAIN_BYTES  10                                  /* bytes of a gzip header without extra fields */
#define DP_STAMP_HEADER_BYTES (DP_STAMP_PLAIN_BYTES + 2 + 4 + 16) /* bytes of one with the stamp */

/* Finds out what the processes that this one forks later can inherit. Context: as make. */
void dp_stamp_learn(void);

/* The stamp of this process, whose id is pid. Context: outside hooks; async-signal-safe. */
struct dp_stamp dp_stamp_make(pid_t pid);

/* Makes a header with the stamp from a plain one. False: the bytes are not a plain header; nothing is written. */
bool dp_stamp_insert(const struct dp_stamp *, const void *bytes, size_t n_bytes, uint8_t header[DP_STAMP_HEADER_BYTES]);

/* Reads the stamp of a regular file; both numbers are 0 if it has none. Returns 0, or a negative errno. */
int dp_stamp_read(int dir_fd, const char *name, struct dp_stamp *);
