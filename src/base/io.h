/* SPDX-License-Identifier: MIT */
/*
 * base/io.h - reads and writes file descriptors until all bytes are done: one system call may transfer fewer, or be
 * interrupted by a signal. Makes the system calls directly: the libc functions may be interposed, and they are
 * cancellation points. Context: any, async-signal-safe.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Writes n_bytes; _at: at an offset. Returns 0 or a negative errno; some bytes may be written then. */
int dp_io_write(int fd, const void *bytes, size_t n_bytes);
int dp_io_write_at(int fd, const void *bytes, size_t n_bytes, off_t offset);

/* Reads n_bytes, or up to the end of the file; _at: from an offset. Returns the number of bytes, or a negative errno.
 */
ssize_t dp_io_read(int fd, void *to, size_t n_bytes);
ssize_t dp_io_read_at(int fd, void *to, size_t n_bytes, off_t offset);

/* Appends all that follows to a DP_VEC(char), given by its parts. Returns 0 or a negative errno. */
int dp_io_read_rest(int fd, char **at, size_t *n, size_t *cap);

/*
 * Moves a new descriptor to a number that the program does not expect next, if the limit allows. Returns the one that
 * is open now; a negative one is returned as it is.
 */
enum { DP_IO_HIGH_FD = 512 };
int dp_io_move_high(int fd);

/*
 * Renames a file in a directory, unless there is one of the new name. Links it, and removes the old name, where the
 * file system has no such rename, or a filter refuses the call. Returns 0, -EEXIST or another negative errno.
 */
int dp_io_rename_new(int dir, const char *from, const char *to);

/* Calls fn for each name in a directory, from its begin, until one call returns other than 0: that is returned. */
typedef int (*dp_io_name_fn)(const char *name, void *ctx);
int dp_io_each_name(int dir_fd, dp_io_name_fn fn, void *ctx);

/*
 * Reads a small file, such as those in /proc, by one read: text gets what fits, and a NUL. Returns the number of bytes;
 * 0 and "": the file is empty, or cannot be read. The descriptor is a high one, and errno is kept.
 */
size_t dp_io_read_text(const char *path, char *text, size_t room);
