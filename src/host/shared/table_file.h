/* SPDX-License-Identifier: MIT */
/* host/shared/table_file.h - the file of a process's shared arrays: makes it, and says in it how far the arrays go. */
#pragma once

#include "config/config.h"
#include "host/shared/shared.h"

/*
 * Ends the list of arrays, and finds out what the header of files shall have. conf->tables: where files are made; ""
 * nowhere. -ENOMEM. Context: init, one thread.
 */
int dp_shared_file_init(const struct dp_config *conf);

/* Whether a file is to be made, or the arrays are in one: perhaps that of the parent. */
bool dp_shared_file_is_wanted(void);
bool dp_shared_file_is_mapped(void);

/* What a new file has beside a copy of the arrays: the first n entries of one. */
struct dp_shared_content {
    enum dp_tables_array id;
    const void *at;
    uint32_t n;
};

/*
 * Makes the file of this process, copies the arrays to it and maps it in their place. If that is not possible, the
 * arrays are private memory from then on, which a line of the log says. False: in a forked child there was no memory
 * even for that; the arrays are the parent's, and nothing may be written. Context: hook; one thread, the gate closed.
 */
bool dp_shared_file_make(uint32_t epoch, const struct dp_shared_content *contents, size_t n_contents);

/* Where a file was wanted and there is none: the errno, once with what could not be done in *what; later NULL. */
int dp_shared_file_failure(const char **directory, const char **what);

/* The header of the file; of private memory if there is no file. */
struct dp_tables_file *dp_shared_file_header(void);
void dp_shared_file_committed(enum dp_tables_array id, uint32_t n);

/*
 * Says in the file whether all was delivered: then a reader has nothing to do. is_end: the process ends, and the file
 * is deleted. Async-signal-safe.
 */
void dp_shared_file_done(bool is_done, bool is_end);
/* The process runs at this time, of the monotonic clock: if it is killed, its last window ends no earlier. Any context.
 */
void dp_shared_file_runs(int64_t mono_ns);

/* In a forked child: its parent's file is not its own. Only stores. */
void dp_shared_file_fork_child(void);
