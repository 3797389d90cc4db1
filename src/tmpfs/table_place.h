/* SPDX-License-Identifier: MIT */
/* tmpfs/table_place.h - opens and locks the directory that holds files of tables; reads a library's build-id. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DP_TABLES_DIRECTORY    "deltaprof-" /* the name of a user's directory, before the user's number */
#define DP_TABLE_NAME_MAX      64
#define DP_TABLES_RUN          "run-"    /* a directory in it, before a process id: for programs of one `run --serve` */
#define DP_TABLES_SERVE_FILE   "serve"   /* in a directory: the program that serves the directory has its lock */
#define DP_TABLES_CURSORS_FILE "cursors" /* of the cursors of the server (tool/serve/saved.h) */
#define DP_TABLES_CURSORS_S    86400     /* it is deleted so long after its last use */

/*
 * Opens the directory. makes: creates its last component with mode 0700 if it is missing. The directory must belong to
 * this user, be closed to all other users and lie in a tmpfs; a path without a final slash must not be a link. Returns
 * a descriptor, or a negative errno (-ENOTSUP: no tmpfs; -EACCES: another user's, or open to others); *what is then the
 * step that failed, for an error message. Context: hook; plain system calls.
 */
int dp_tables_place_open(const char *path, bool makes, const char **what);

/* The path of the default directory: in $XDG_RUNTIME_DIR if that is a tmpfs of the user, else in /dev/shm. */
void dp_tables_place_default(char *path, size_t n_bytes);

/* A user's directory in the directory `above`. Plain text, any context. */
void dp_tables_place_of(uid_t user, const char *above, char *path, size_t n_bytes);

/* Copies the build-id from the notes of a library, which are n_bytes long. Returns its length, at most 32; 0: none. */
size_t dp_tables_build_id(const void *notes, size_t n_bytes, uint8_t build_id[32]);

/*
 * The lock of a directory, which the program that serves it has. lock: locks the file `serve` in it; returns the
 * descriptor, which is to stay open, or a negative errno (-EAGAIN: another program has the lock). is_served: whether a
 * program has the lock; plain system calls, any thread.
 * The text of that file, if any, is the directory in which the program writes files of processes that write none. It
 * remains when the program ends, or is killed: last files are still to be written there.
 */
int dp_tables_place_lock(int dir);
bool dp_tables_place_is_served(const char *directory);
int dp_tables_place_set_files(int lock, const char *out); /* "": none. 0 or a negative errno */
void dp_tables_place_files(int dir, char out[PATH_MAX]);

/*
 * Whether a process that ends is to leave its table: a program has the lock, or the file has a text and was touched
 * within the last hour and less than half of the tmpfs is in use. Else no server is expected, and the tmpfs must not
 * fill. Plain system calls, any thread.
 */
bool dp_tables_place_wants_table(const char *directory);
