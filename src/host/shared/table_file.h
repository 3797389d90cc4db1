/* SPDX-License-Identifier: MIT */
/* host/shared/table_file.h - makes the file of a process's shared arrays, and keeps its header up to date. */
#pragma once

#include "config/config.h"
#include "host/shared/shared.h"

/*
 * Fills the header that files will have; to be called after the last dp_shared_array_init. conf->tables: the directory
 * of files; "": no file is made. 0 or -ENOMEM. Context: init, one thread.
 */
int dp_shared_file_init(const struct dp_config *conf);

/* is_mapped: whether the arrays are in a file, maybe the parent's. is_wanted: that, or a file is to be made. */
bool dp_shared_file_is_wanted(void);
bool dp_shared_file_is_mapped(void);
/* Whether this process made the file: what it does not deliver, another program can. */
bool dp_shared_file_is_own(void);

/* The first n entries of one array, for a new file, in place of a copy of the array. */
struct dp_shared_content {
    enum dp_tables_array id;
    const void *at;
    uint32_t n;
};

/*
 * Makes the file of this process, copies the arrays to it and maps it in their place. If that fails, the arrays are
 * private memory from then on, and dp_shared_file_failure has the reason. False: a forked child had no memory even for
 * that; its arrays are the parent's, and nothing may be written. Context: hook; one thread, the gate closed.
 */
bool dp_shared_file_make(uint32_t epoch, const struct dp_shared_content *contents, size_t n_contents);

/*
 * In a forked child: if the parent's tables are private memory, so are the child's. Makes the file that says this of
 * the child. Context: as make.
 */
void dp_shared_file_mark_child(uint32_t epoch);
/* Whether this process or the one that forked it made such a file. */
bool dp_shared_file_has_mark(void);

/* If making the file failed: its negative errno, and in *what the step that failed, NULL from the second call on. */
int dp_shared_file_failure(const char **directory, const char **what);

/* The header of the file; if there is no file, it is in private memory. */
struct dp_tables_file *dp_shared_file_header(void);
/* Writes to the header that the first n entries of an array have memory. */
void dp_shared_file_commit(enum dp_tables_array id, uint32_t n);

/*
 * The process ends, and has delivered its last profiles. has_rest: it has recorded more since, which a reader delivers;
 * else deletes the file, unless another program is to read it first. Async-signal-safe.
 */
void dp_shared_file_set_end(bool has_rest);
/* Writes to the file that CPU time was sampled at mono_ns: if the process is killed, its last window ends no earlier.
 * Any context. */
void dp_shared_file_set_sampled(int64_t mono_ns);

/*
 * Writes to the header of which kinds events are recorded from now on, a bit for each; is_on: the profiler is on. A
 * forked child without a file of its own writes nothing, since the header is its parent's. Any thread.
 */
void dp_shared_file_set_kinds(uint32_t kinds, int64_t block_rate_ns, bool is_on);
/* The same for the time in which the kind was not recorded, as host/report/recorded.c keeps it. */
void dp_shared_file_set_off(unsigned kind, int64_t off);

/* In a forked child: the file that is mapped is the parent's. Only stores. */
void dp_shared_file_fork_child(void);
