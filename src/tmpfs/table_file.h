/* SPDX-License-Identifier: MIT */
/*
 * tmpfs/table_file.h - the layout of a file of tables: what a profiled process keeps in a tmpfs, so that another
 * process can read it while the first one lives and after it was killed.
 *
 *     offset 0       struct dp_tables_file, DP_TABLE_FILE_HEADER bytes
 *     then           the arrays, each of them whole pages; only a prefix of each has memory (`committed`)
 *
 * The file is mapped by the process that writes it, and its lock (flock) lives as long as that mapping: a lock that can
 * be had says that the process has ended. The name is PID.START.RANDOM: process id, time of creation, random digits. A
 * name that ends in .new belongs to a file that is being made.
 *
 * A process whose tables cannot be in a file, as the tmpfs is full for example, keeps them in private memory, and
 * leaves an empty file NAME.ERRNO.NAMESPACE.none, which says so as long as the process lives; NAMESPACE: pid_namespace.
 *
 * Only a library of the same build reads the arrays. Nothing in the file is trusted.
 */
#pragma once

#include "profile/kinds.h"

#include <stdint.h>

#define DP_TABLE_FILE_MAGIC  "\177deltaprof-t 4" /* changes with struct dp_tables_file */
#define DP_TABLE_FILE_HEADER 8192u
#define DP_TABLE_FILE_NEW    ".new"
#define DP_TABLE_FILE_NONE   ".none"

/* In the order in which a reader of a living process must copy them: an entry refers only to entries of later arrays.
 */
enum dp_tables_array {
    DP_ARRAY_COUNTERS, /* one for each kind, as the next two */
    DP_ARRAY_BASE = DP_ARRAY_COUNTERS + DP_KIND_TABLES,
    DP_ARRAY_WAITS = DP_ARRAY_BASE + DP_KIND_TABLES, /* under way */
    DP_ARRAY_RECORDS,
    DP_ARRAY_FREED = DP_ARRAY_RECORDS + DP_KIND_TABLES, /* frees of a forked process's own blocks */
    DP_ARRAY_STRIPES,
    DP_ARRAY_LABELS,
    DP_ARRAY_STACKS,
    DP_ARRAY_FRAMES,
    DP_ARRAY_FUNCTIONS,
    DP_ARRAY_OBJECTS,
    DP_ARRAY_NAMES,
    DP_ARRAY_HEAPS,
    DP_ARRAY_CLASSES, /* of futexes */
    DP_ARRAY_COLUMNS, /* two for each kind: counters at the last file */
    DP_ARRAYS = DP_ARRAY_COLUMNS + 2 * DP_KIND_TABLES,
};

struct dp_tables_file_array {
    uint64_t offset;
    uint64_t stride_bytes; /* between parts */
    uint32_t each_bytes, n_parts;
    _Atomic uint32_t committed; /* entries of each part that have memory; only grows */
};

enum dp_tables_file_state {
    DP_TABLE_RUNS,
    DP_TABLE_IS_DONE,  /* all was delivered: a reader only deletes the file */
    DP_TABLE_HAS_REST, /* the process ended by itself, and other threads recorded more after its last profiles */
};

/* What a column has: the counters of one kind when file `seq` was written. */
struct dp_tables_file_column {
    int64_t wall_ns, mono_ns; /* the end of that file's window */
    int64_t off_ns;           /* until then, the time in which the kind was not recorded */
    uint32_t n, seq;
};

struct dp_tables_file {
    char magic[16];
    uint32_t header_bytes, n_build_id;
    uint8_t build_id[32]; /* of the library */
    uint64_t n_bytes;     /* of the file */
    int32_t pid, parent;
    uint32_t uid, epoch;
    uint64_t pid_namespace; /* in which pid means that process: the inode of /proc/PID/ns/pid; 0: not known */
    uint64_t pid_scope;     /* as of struct dp_stamp */
    uint64_t process;
    int64_t origin_wall_ns, origin_mono_ns; /* the start, or the fork */
    int64_t made_wall_ns;
    uint64_t entry; /* AT_ENTRY */
    /* keys of the configuration that the layout and the profiles depend on */
    int64_t memory, heap_rate, depth, max_samples;
    uint32_t age, unwind, symbolize, address, types, mmap;
    uint8_t is_on[DP_KIND_TABLES]; /* the kind is recorded now */
    _Atomic int64_t block_rate_ns; /* the key now; 0: waits are not recorded */
    _Atomic uint32_t state;
    _Atomic int64_t off[DP_KIND_TABLES]; /* as dp_report_recorded_off_ns has them */
    _Atomic int64_t off_wall_ns;         /* since when none are, because the profiler was turned off; 0: it is on */
    _Atomic int64_t sampled_mono_ns;     /* when CPU time was sampled last; 0: never */
    _Atomic uint32_t current[DP_KIND_TABLES]; /* 1 + the column that was valid last; 0: no file was written */
    struct dp_tables_file_column columns[2][DP_KIND_TABLES];
    char program[64];
    char out[1280]; /* the directory of the files; "": none */
    char exe[1280], execfn[1280];
    struct dp_tables_file_array arrays[DP_ARRAYS];
};
_Static_assert(sizeof(struct dp_tables_file) <= DP_TABLE_FILE_HEADER, "the header has room");
