/* SPDX-License-Identifier: MIT */
/*
 * pprof/stamp.h - which process wrote a file, in an extra field of the file's gzip header.
 *
 * A file's name holds a process id, which says nothing once another process has it, or where processes of several pid
 * namespaces share a directory. Source of the field: RFC 1952, 2.3.1.1; readers of gzip pass over it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_stamp {
    uint64_t place; /* where process ids mean the same: this boot of this machine, and the pid namespace; 0: unknown */
    uint64_t process; /* another one for each process; 0: the file has no stamp */
};

#define DP_STAMP_PLAIN_BYTES  10                                  /* of a gzip header without extra fields */
#define DP_STAMP_HEADER_BYTES (DP_STAMP_PLAIN_BYTES + 2 + 4 + 16) /* of one with the stamp */

/* The stamp of this process, whose id is pid. Context: above the waterline; async-signal-safe. */
struct dp_stamp dp_stamp_make(pid_t pid);

/* Makes a header with the stamp of a plain one. False: the bytes are none, and nothing is written. */
bool dp_stamp_insert(const struct dp_stamp *, const void *bytes, size_t n_bytes, uint8_t header[DP_STAMP_HEADER_BYTES]);

/* Reads the stamp of a regular file, both numbers 0 if it has none. 0, or a negative errno. */
int dp_stamp_read(int dir_fd, const char *name, struct dp_stamp *);
