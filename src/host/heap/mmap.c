/* SPDX-License-Identifier: MIT */
/*
 * host/heap/mmap.c - records mappings of the program as blocks of the heaps `mmap` and `mmap-file`, each with the stack
 * of the code that mapped it.
 *
 * What an allocator maps for itself is no event: the thread is guarded then. Mappings are few, so each is counted, with
 * whole pages.
 */
#include "host/heap/mmap.h"

#include "base/atomic.h"
#include "base/mem.h"
#include "host/table/labels.h"
#include "host/heap/mappings.h"
#include "host/table/record.h"
#include "host/unwind/unwind.h"

#include <deltaprof/heap.h>

#define RANGES_MOST ((size_t)16384)
#define EACH_BYTES  ((size_t)40) /* about what a range takes */

uint8_t deltaprof_maps_wanted;
static uint8_t heap_of_memory, heap_of_files;
static bool is_ready;

int dp_heap_maps_init(size_t budget_bytes)
{
    size_t n = budget_bytes / EACH_BYTES;
    int err = dp_heap_mappings_init(n < RANGES_MOST ? n : RANGES_MOST);
    heap_of_memory = (uint8_t)deltaprof_heap_register("mmap");
    heap_of_files = (uint8_t)deltaprof_heap_register("mmap-file");
    is_ready = !err;
    return err;
}

void dp_heap_maps_tune(bool on)
{
    __atomic_store_n(&deltaprof_maps_wanted, on && is_ready, __ATOMIC_RELAXED); /* part of the public ABI */
}

static uintptr_t end_of(const void *start, size_t n_bytes)
{
    uintptr_t end;
    return __builtin_add_overflow((uintptr_t)start, n_bytes, &end) ? 0 : dp_page_ceil(end);
}

static void record(enum dp_heap_mapping_change change, uint8_t heap, const void *start, uintptr_t end,
                   const struct deltaprof_site *site)
{
    struct dp_stack stack;
    dp_record_id id;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), site, &stack);
    if (dp_record_find(DP_KIND_HEAP, heap, dp_labels_now(&stack), &stack, &id))
        dp_heap_mappings_change(change, (uintptr_t)start, end, id);
    dp_thread_event_end(event);
}

void deltaprof_mapped(const void *start, size_t n_bytes, unsigned what, const struct deltaprof_site *site)
{
    uintptr_t end = end_of(start, n_bytes);
    if (dp_thread_is_nested(dp_thread_self(), site->sp))
        return;
    if (what & DELTAPROF_MAP_RESERVED)
        dp_heap_mappings_change(DP_MAPPING_RESERVE, (uintptr_t)start, end, 0);
    else
        record(DP_MAPPING_ADD, what & DELTAPROF_MAP_FILE ? heap_of_files : heap_of_memory, start, end, site);
}

void deltaprof_map_accessible(const void *start, size_t n_bytes, const struct deltaprof_site *site)
{
    uintptr_t end = end_of(start, n_bytes);
    if (!dp_thread_is_nested(dp_thread_self(), site->sp) && dp_heap_mappings_are_reserved((uintptr_t)start, end))
        record(DP_MAPPING_USE, heap_of_memory, start, end, site);
}

void deltaprof_unmapped(const void *start, size_t n_bytes)
{
    dp_heap_mappings_change(DP_MAPPING_REMOVE, (uintptr_t)start, end_of(start, n_bytes), 0);
}

uint32_t deltaprof_unmap_begin(const void *start, size_t n_bytes)
{
    static _Atomic uint32_t n_marks;
    uint32_t mark = (dp_add_relaxed(&n_marks, 1) + 1) | 1u << 31; /* never 0 */
    dp_heap_mappings_change(DP_MAPPING_LEAVE, (uintptr_t)start, end_of(start, n_bytes), mark);
    return mark;
}

void deltaprof_unmap_end(uint32_t mark, const void *start, size_t n_bytes, bool done)
{
    dp_heap_mappings_change(done ? DP_MAPPING_GONE : DP_MAPPING_STAY, (uintptr_t)start, end_of(start, n_bytes), mark);
}
