/* SPDX-License-Identifier: MIT */
/*
 * host/api/recording.c - starts, changes, forks and counts the recording: all tables of this room and of objects/ and
 * unwind/.
 */
#include "host/api/recording.h"

#include "base/mem.h"
#include "base/process.h"
#include "host/objects/functions.h"
#include "host/table/event_ring.h"
#include "host/thread/gate.h"
#include "host/heap/heap.h"
#include "host/heap/mmap.h"
#include "host/heap/peak.h"
#include "host/heap/peak_copy.h"
#include "host/table/heaps.h"
#include "host/table/label_sets.h"
#include "host/table/labels.h"
#include "host/locks/futex_class.h"
#include "host/locks/waiting.h"
#include "host/locks/wait.h"
#include "host/heap/inherited.h"
#include "host/heap/lifetime.h"
#include "host/heap/live_blocks.h"
#include "host/heap/mappings.h"
#include "host/shared/table_file.h"
#include "host/table/record.h"
#include "host/thread/thread.h"
#include "host/unwind/unwind.h"

#include <errno.h>
#include <unistd.h>

#define REPORT_BYTES (((size_t)1 << 20) + DP_KIND_DELTAS * ((size_t)64 << 10)) /* each kind has a consumer */

/* Address space for copies of functions and labels, for the header, waits, and for the frees of forked processes. */
#define SHARED_BYTES(n_bytes) ((n_bytes) / 3 + ((size_t)4 << 20))

int dp_record_init(const struct dp_config *conf)
{
    static bool begun; /* a second try after -ENOMEM would map memory twice */
    if (dp_record_is_ready())
        return 0;
    if (begun)
        return -ENOMEM;
    begun = true;
    dp_mem_cap((size_t)conf->memory);
    /*
     * The rest is for reports. A part of what they need does not depend on the number of records. With `age` they need
     * more for each record: its values by age, and its lifetimes.
     */
    size_t tables = (size_t)conf->memory - REPORT_BYTES;
    size_t floor = tables / 100 * (conf->age ? 40 : 60), spare = tables / (conf->age ? 20 : 10);
    int err = 0;
    /* Where every allocation is a sample, births cost more than a little, and are kept only for those who ask. */
    enum dp_heap_births births = conf->age ? DP_BIRTHS_EXACT : conf->heap_rate != 1 ? DP_BIRTHS_COARSE : DP_BIRTHS_NONE;
    /* Percent. With every allocation recorded, blocks in use are most of what is kept; else they are few. */
    unsigned blocks = conf->heap_rate == 1 ? 42 : 26;
    /* All or nothing: of tables that were mapped one by one, a start that fails half way would keep the first. */
    if ((err = dp_mem_reserve(floor + spare + SHARED_BYTES(floor + spare))) ||
        (err = dp_frames_init(floor / 100 * 7)) || (err = dp_functions_init(floor / 100 * 3)) ||
        (err = dp_unwind_init(conf->unwind, (unsigned)conf->depth, floor / 100 * 6)) ||
        (err = dp_thread_init(dp_unwind_scratch_bytes(), floor / 100 * 8)) ||
        (err = dp_table_init(floor / 100 * (74 - blocks), spare)) || (err = dp_heap_inherited_init()) ||
        (err = dp_label_sets_share()) || (err = dp_table_heaps_share()) || (err = dp_futex_class_share()) ||
        (err = dp_waiting_share()) || (err = dp_shared_file_init(conf)) ||
        (err = dp_heap_live_blocks_init(floor / 100 * blocks, conf->heap_rate, births)))
        return err;
    dp_heap_peak_copy_init(floor / 100 * 2);
    if (conf->age && dp_heap_lifetime_init(dp_table_most(DP_KIND_HEAP)) == 0)
        dp_record_mark();
    if (conf->mmap)
        dp_heap_maps_init((size_t)conf->memory / 64); /* may fail: then mappings are not recorded */
    dp_wait_init((size_t)conf->memory);               /* may fail: then holders of locks stay unknown */
    dp_thread_gate_settle();
    dp_record_open(dp_heap_inherited_begin);
    return 0;
}

void dp_record_tune(const struct dp_config *conf, bool on)
{
    dp_heap_tune(on && conf->heap_rate > 0 ? conf->heap_rate : 0);
    dp_heap_lifetime_tune(on);
    dp_wait_tune(conf, on);
    dp_labels_add(conf->thread, conf->trace);
    /* An eighth of the memory, less what reports need of a small one. It may fail: then there are no events. */
    size_t events_bytes = (size_t)conf->memory / 8, reports_bytes = 512 << 10;
    dp_events_tune(on && conf->events[0], events_bytes > reports_bytes ? events_bytes - reports_bytes : 0);
    dp_heap_maps_tune(on && conf->mmap && conf->heap_rate > 0);
}

void dp_record_fork_prepare(void)
{
    dp_unwind_fork_prepare(dp_thread_scratch());
    dp_table_fork_prepare();
}

void dp_record_fork_parent(void)
{
    dp_unwind_fork_parent();
}

DP_IN_CHILD void dp_record_fork_child(void)
{
    dp_unwind_fork_child(dp_thread_scratch());
    uint32_t epoch = dp_record_fork_begin();
    dp_stats_reset();
    dp_heap_live_blocks_fork_child();
    dp_heap_lifetime_fork_child();
    dp_table_fork_child();
    dp_heap_peak_fork_child();
    dp_heap_mappings_fork_child();
    dp_wait_fork_child();
    dp_events_fork_child();
    dp_thread_fork_child((uint64_t)getpid() << 32 | epoch);
}
