/* SPDX-License-Identifier: MIT */
/* tmpfs/table_place.h - the directory of files of tables, and what can be told from a library's notes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_TABLES_DIRECTORY  "deltaprof-" /* and the user's number: the name of the user's directory */
#define DP_TABLE_NAME_MAX    64
#define DP_TABLES_FAMILY     "run-"  /* begins the name of a directory in it, of what `run --serve` started */
#define DP_TABLES_SERVE_FILE "serve" /* whose lock the program has that serves a directory */

/*
 * Opens the directory. makes: makes its last component, 0700, if it is missing. It must belong to this user, be closed
 * to all others and lie in a tmpfs; a symbolic link in its last component is not followed. Returns a descriptor, or a
 * negative errno, with what could not be done in *what (-ENOTSUP: no tmpfs; -EACCES: of another user, or open to
 * others). Context: hook; plain system calls.
 */
int dp_tables_place_open(const char *path, bool makes, const char **what);

/* The user's directory where none is given: in $XDG_RUNTIME_DIR if that is a tmpfs of the user, else in /dev/shm. */
void dp_tables_place_default(char *path, size_t n_bytes);

/* Copies the build-id from the notes of a library, which are n_bytes long. Returns its length, at most 32; 0: none. */
size_t dp_tables_build_id(const void *notes, size_t n_bytes, uint8_t build_id[32]);

/*
 * The lock of the program that serves a directory (file `serve` in it). lock: returns a descriptor to keep, or a
 * negative errno (-EAGAIN: another program has it). is_served: whether one has it; plain system calls, any thread.
 */
int dp_tables_place_lock(int dir);
bool dp_tables_place_is_served(const char *directory);
