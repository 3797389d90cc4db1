/* SPDX-License-Identifier: MIT */
/*
 * host/api/adopt.c - copies the tables of another process into this one, so that reports work on them unchanged.
 *
 * The tables of this process are laid out by the keys that the header names, in the same code; the header must describe
 * that very layout. The arrays are read with pread, not mapped: a copy cannot change after it was checked, and a file
 * that is cut short gives an error, no signal. A living process goes on writing meanwhile. Arrays are read in the order
 * of enum dp_tables_array, so what an entry refers to is read after it and is complete; an event that is under way may
 * be missing, or have its bytes without its object.
 *
 * Nothing in the file is trusted: each number that reports follow is compared with what was copied.
 */
#include "host/api/adopt.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/process.h"
#include "base/task.h"
#include "base/text.h"
#include "config/config.h"
#include "host/api/build_id.h"
#include "host/api/recording.h"
#include "host/heap/heap.h"
#include "host/heap/inherited.h"
#include "host/locks/futex_class.h"
#include "host/locks/wait.h"
#include "host/locks/waiting.h"
#include "host/objects/functions.h"
#include "host/report/kind_source.h"
#include "host/report/recorded.h"
#include "host/report/settings.h"
#include "host/shared/table_file.h"
#include "host/symbols/outside.h"
#include "host/table/heaps.h"
#include "host/table/label_sets.h"
#include "host/table/record.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sums of values up to these do not overflow. */
#define TIME_MOST  (INT64_C(1) << 61)
#define COUNT_MOST (INT64_C(1) << 58)

static struct dp_tables_file seen; /* the file's header */
static int seen_fd;
static bool is_ready;

static int refuse(int err, char *why, size_t n_why, const char *text)
{
    dp_text_format(why, n_why, "%s", text);
    return err;
}

/* Reads n_bytes, or fails. */
static int read_at(int fd, void *to, size_t n_bytes, uint64_t offset)
{
    ssize_t n = dp_io_read_at(fd, to, n_bytes, (off_t)offset);
    return n < 0 ? (int)n : n == (ssize_t)n_bytes ? 0 : -EBADMSG;
}

static bool is_text(const char *text, size_t n_bytes)
{
    return memchr(text, 0, n_bytes);
}

static bool is_within(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static bool are_keys_valid(const struct dp_tables_file *h)
{
    return is_within(h->origin_wall_ns, 0, TIME_MOST) && is_within(h->origin_mono_ns, 0, TIME_MOST) &&
           is_within(h->memory, 4 << 20, INT64_C(1) << 40) && is_within(h->heap_rate, 0, INT64_C(1) << 31) &&
           is_within(h->depth, 1, 1024) && is_within(h->max_samples, 0, 1000000000) && h->age <= 1 && h->mmap <= 1 &&
           h->unwind <= DP_UNWIND_LIBUNWIND && h->symbolize <= DP_SYMBOLIZE_LINES && h->address <= DP_ADDRESS_ELF &&
           h->types <= DP_TYPES_WASTE && is_text(h->program, sizeof h->program) && is_text(h->out, sizeof h->out) &&
           is_text(h->exe, sizeof h->exe) && is_text(h->execfn, sizeof h->execfn) && *h->program && h->pid > 0;
}

static int check_header(int fd, char *why, size_t n_why)
{
    struct dp_tables_file own = {0};
    struct stat st;
    int err = fstat(fd, &st) ? -errno : read_at(fd, &seen, sizeof seen, 0);
    if (err && err != -EBADMSG)
        return refuse(err, why, n_why, "it cannot be read");
    if (err || !S_ISREG(st.st_mode) || memcmp(seen.magic, DP_TABLE_FILE_MAGIC, sizeof DP_TABLE_FILE_MAGIC))
        return refuse(-ENOEXEC, why, n_why, "it is no file of tables of this version");
    dp_outside_build_id(&own);
    if (!own.n_build_id || seen.n_build_id != own.n_build_id || seen.n_build_id > sizeof seen.build_id ||
        memcmp(seen.build_id, own.build_id, own.n_build_id))
        return refuse(-ESTALE, why, n_why, "another build of libdeltaprof wrote it; only that one can read it");
    if (seen.header_bytes != DP_TABLE_FILE_HEADER || seen.n_bytes != (uint64_t)st.st_size || !are_keys_valid(&seen))
        return refuse(-EBADMSG, why, n_why, "its header is damaged");
    return 0;
}

static int lay_out(char *why, size_t n_why)
{
    static struct dp_config conf;
    dp_config_init(&conf);
    conf.memory = seen.memory;
    conf.heap_rate = seen.heap_rate;
    conf.depth = seen.depth;
    conf.max_samples = seen.max_samples;
    conf.age = seen.age;
    conf.mmap = seen.mmap;
    conf.unwind = seen.unwind == DP_UNWIND_FP ? DP_UNWIND_FP : DP_UNWIND_AUTO;
    conf.symbolize = seen.symbolize;
    conf.address = seen.address;
    conf.types = seen.types;
    dp_log_init("none");
    int err = is_ready ? 0 : dp_record_init(&conf);
    if (!err && !is_ready)
        err = dp_report_init(&conf);
    if (err)
        return refuse(err, why, n_why, "there is no memory for a copy");
    is_ready = true;
    const struct dp_tables_file *own = dp_shared_file_header();
    bool is_same = own->n_bytes == seen.n_bytes;
    for (int id = 0; id < DP_ARRAYS; id++) {
        const struct dp_tables_file_array *a = &own->arrays[id], *b = &seen.arrays[id];
        is_same = is_same && a->offset == b->offset && a->stride_bytes == b->stride_bytes &&
                  a->each_bytes == b->each_bytes && a->n_parts == b->n_parts;
    }
    return is_same ? 0 : refuse(-EBADMSG, why, n_why, "its arrays are not where they should be");
}

/* Copies one array, as far as it goes now. */
static int copy_array(int fd, int id, uint32_t *n)
{
    const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
    const struct dp_tables_file_array *a = &seen.arrays[id];
    uint64_t at = (uint64_t)((const char *)&a->committed - (const char *)&seen);
    int err = array->at ? read_at(fd, n, sizeof *n, at) : 0;
    if (!array->at || err)
        return err;
    if (*n > array->most)
        return -EBADMSG;
    for (unsigned part = 0; part < array->n_parts && !err; part++)
        err = read_at(fd, array->at + part * array->stride_bytes, *n * array->each_bytes,
                      a->offset + part * a->stride_bytes);
    return err;
}

/* Of a living process. What cannot be read stays as it was. */
static void copy_wait(uint32_t i)
{
    const struct dp_shared_array *array = dp_shared_array(DP_ARRAY_WAITS);
    (void)read_at(seen_fd, array->at + i * array->each_bytes, array->each_bytes,
                  seen.arrays[DP_ARRAY_WAITS].offset + i * array->each_bytes);
}

/* Whether the values of an array of numbers can be added up; n entries of each part. */
static bool are_numbers_valid(int id, uint32_t n)
{
    const struct dp_shared_array *array = dp_shared_array((enum dp_tables_array)id);
    for (unsigned part = 0; array->at && part < array->n_parts; part++) {
        const int64_t *at = (const void *)(array->at + part * array->stride_bytes);
        for (size_t i = 0; i < n * array->each_bytes / sizeof *at; i++)
            if (!is_within(at[i], -COUNT_MOST, COUNT_MOST))
                return false;
    }
    return true;
}

static bool take_tables(const uint32_t n[DP_ARRAYS])
{
    for (int id = 0; id < DP_ARRAYS; id++) {
        bool is_numbers = id < DP_ARRAY_WAITS
                              ? id >= DP_ARRAY_BASE
                              : id == DP_ARRAY_FREED || id == DP_ARRAY_STRIPES || id >= DP_ARRAY_COLUMNS;
        if (is_numbers && !are_numbers_valid(id, n[id]))
            return false;
    }
    uint32_t n_waits = n[DP_ARRAY_RECORDS + DP_KIND_BLOCK];
    if (n_waits > n[DP_ARRAY_COUNTERS + DP_KIND_BLOCK])
        n_waits = n[DP_ARRAY_COUNTERS + DP_KIND_BLOCK];
    dp_waiting_adopt(n[DP_ARRAY_WAITS], n_waits, copy_wait);
    bool is_valid = dp_functions_adopt(n[DP_ARRAY_FUNCTIONS]) &&
                    dp_objects_adopt(n[DP_ARRAY_OBJECTS], n[DP_ARRAY_NAMES]) && dp_frames_adopt(n[DP_ARRAY_FRAMES]) &&
                    dp_label_set_adopt(n[DP_ARRAY_LABELS]) && dp_table_heaps_adopt(n[DP_ARRAY_HEAPS]);
    for (unsigned kind = 0; is_valid && kind < DP_KIND_TABLES; kind++) {
        uint32_t n_records = n[DP_ARRAY_RECORDS + kind], n_counters = n[DP_ARRAY_COUNTERS + kind];
        is_valid = dp_table_adopt(kind, n_records < n_counters ? n_records : n_counters, n[DP_ARRAY_STACKS],
                                  n[DP_ARRAY_FRAMES], &dp_kind_source_of(kind)->adoption);
    }
    return is_valid && dp_futex_class_adopt(n[DP_ARRAY_CLASSES]);
}

/* A column that is not whole is none. */
static void take_columns(const uint32_t n[DP_ARRAYS])
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        for (unsigned which = 0; which < 2; which++)
            if (seen.columns[which][kind].n > n[DP_ARRAY_COLUMNS + 2 * kind + which] ||
                !is_within(seen.columns[which][kind].wall_ns, 0, TIME_MOST) ||
                !is_within(seen.columns[which][kind].mono_ns, 0, TIME_MOST) ||
                !is_within(seen.columns[which][kind].off_ns, 0, TIME_MOST))
                seen.columns[which][kind] = (struct dp_tables_file_column){0};
        if (dp_load_relaxed(&seen.current[kind]) > 2)
            dp_store_relaxed(&seen.current[kind], 0);
    }
}

/* Returns when the process ended, by its monotonic clock; 0: it lives. */
static int64_t take_times(int fd, bool has_ended)
{
    struct dp_window_edge begin = {seen.origin_wall_ns, seen.origin_mono_ns}, end = {0};
    struct stat st;
    int64_t newest = 0; /* the end of a file's window */
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        for (unsigned which = 0; which < 2; which++)
            if (seen.columns[which][kind].wall_ns > newest)
                newest = seen.columns[which][kind].wall_ns;
    if (has_ended && !fstat(fd, &st)) { /* a page that is written for the first time changes it */
        end.wall_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        end.wall_ns = end.wall_ns > newest ? end.wall_ns : newest;
        int64_t sampled_ns = dp_load_relaxed(&seen.sampled_mono_ns);
        int64_t ran_ns = is_within(sampled_ns, begin.mono_ns, TIME_MOST) ? sampled_ns - begin.mono_ns : 0;
        if (ran_ns <= dp_clock_wall_ns() - begin.wall_ns && begin.wall_ns + ran_ns > end.wall_ns)
            end.wall_ns = begin.wall_ns + ran_ns;
        end.wall_ns = end.wall_ns > begin.wall_ns ? end.wall_ns : begin.wall_ns + 1;
        end.mono_ns = begin.mono_ns + (end.wall_ns - begin.wall_ns);
    }
    int64_t off_ns = dp_load_relaxed(&seen.off_wall_ns); /* what lives and is off records nothing from then on */
    if (!has_ended && is_within(off_ns, begin.wall_ns + 1, dp_clock_wall_ns())) {
        end.wall_ns = off_ns > newest ? off_ns : newest;
        end.mono_ns = begin.mono_ns + (end.wall_ns - begin.wall_ns);
    }
    dp_report_adopt(begin, end);
    return has_ended ? end.mono_ns : 0;
}

int dp_outside_adopt(int fd, const char *proc, char *why, size_t n_why)
{
    uint32_t n[DP_ARRAYS] = {0};
    seen_fd = fd;
    dp_task_process = 0;
    int err = check_header(fd, why, n_why);
    if (!err)
        err = lay_out(why, n_why);
    if (err)
        return err;
    for (int id = 0; id < DP_ARRAYS && !err; id++)
        err = copy_array(fd, id, &n[id]);
    if (err)
        return refuse(err, why, n_why, "its arrays are cut short");
    dp_text_format(dp_symbols_outside.proc, sizeof dp_symbols_outside.proc, "%s", proc);
    dp_symbols_outside.is_on = true;
    bool is_here = seen.pid_namespace && seen.pid_namespace == dp_process_pid_namespace();
    dp_symbols_outside.pid = is_here ? seen.pid : 0;
    dp_task_process = !*proc || !strcmp(proc, "/proc/0") ? -1 : seen.pid; /* -1: its threads cannot be looked at */
    dp_symbols_outside.exe = dp_shared_file_header()->exe;
    dp_symbols_outside.execfn = dp_shared_file_header()->execfn;
    if (!take_tables(n))
        return refuse(-EBADMSG, why, n_why, "its tables are damaged");
    take_columns(n);
    int64_t end_ns = take_times(fd, !*proc), block_rate_ns = dp_load_relaxed(&seen.block_rate_ns);
    dp_wait_adopt(is_within(block_rate_ns, 0, TIME_MOST) ? block_rate_ns : 0, end_ns);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        int64_t off = dp_load_relaxed(&seen.off[kind]);
        dp_report_recorded_adopt(kind, is_within(off, -TIME_MOST, TIME_MOST) ? off : 0);
    }
    dp_heap_tune(seen.heap_rate);
    dp_record_adopt(seen.epoch);
    dp_heap_inherited_adopt(n[DP_ARRAY_FREED] < dp_table_most(DP_KIND_HEAP) ? n[DP_ARRAY_FREED] : 0);
    memcpy(dp_shared_file_header(), &seen, sizeof seen);
    return 0;
}
