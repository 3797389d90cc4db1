/* SPDX-License-Identifier: MIT */
/*
 * host/heap/peak_copy.c - copies the values in use of heap records, in the hook that finds a new peak.
 *
 * One flag lets one thread at a time copy or read. It is tried, never waited for: a hook that finds it set makes no
 * copy, and the next look tries again. Other threads allocate and free while a copy is made, so its rows are not of one
 * instant: they differ by what happened in the copy's time, some 5 ns for each record.
 *
 * [COPY] The flag is cleared with release and set with acquire, so that a reader sees whole rows.
 */
#include "host/heap/peak_copy.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"

struct in_use {
    int64_t objects, bytes;
};

static struct {
    struct in_use *rows;
    uint32_t cap;
    uint32_t n; /* rows of the copy; under the flag */
    _Atomic uint32_t flag;
    _Atomic int64_t bytes, wall_ns; /* relaxed: only numbers */
} copy;

void dp_heap_peak_copy_init(size_t n_bytes)
{
    copy.rows = dp_mem_table(n_bytes);
    copy.cap = copy.rows ? (uint32_t)(n_bytes / sizeof *copy.rows) : 0;
}

static bool lock(void)
{
    uint32_t unset = 0;
    return dp_cas_acquire(&copy.flag, &unset, 1); /* [COPY] */
}

int64_t dp_heap_peak_copy_make(void)
{
    uint32_t n = dp_table_count(DP_KIND_HEAP);
    int64_t sum = 0;
    if (n > copy.cap || !lock())
        return 0;
    for (dp_record_id id = 0; id < n; id++) {
        struct dp_counts counts;
        dp_table_read(DP_KIND_HEAP, id, &counts);
        copy.rows[id] = (struct in_use){counts.n - counts.free_n, counts.v - counts.free_v};
        sum += copy.rows[id].bytes;
    }
    copy.n = n;
    dp_store_relaxed(&copy.bytes, sum);
    dp_store_relaxed(&copy.wall_ns, dp_clock_wall_coarse_ns());
    dp_heap_peak_copy_end();
    return sum;
}

int64_t dp_heap_peak_copy_bytes(int64_t *wall_ns)
{
    *wall_ns = dp_load_relaxed(&copy.wall_ns);
    return dp_load_relaxed(&copy.bytes);
}

bool dp_heap_peak_copy_begin(void)
{
    if (!lock())
        return false;
    if (copy.n)
        return true;
    dp_heap_peak_copy_end();
    return false;
}

void dp_heap_peak_copy_read(dp_record_id id, int64_t *objects, int64_t *bytes)
{
    *objects = id < copy.n ? copy.rows[id].objects : 0;
    *bytes = id < copy.n ? copy.rows[id].bytes : 0;
}

void dp_heap_peak_copy_end(void)
{
    dp_store_release(&copy.flag, 0); /* [COPY] */
}

DP_IN_CHILD void dp_heap_peak_copy_fork_child(void)
{
    copy.n = 0;
    dp_store_relaxed(&copy.bytes, 0);
    dp_store_relaxed(&copy.flag, 0);
}
