/* SPDX-License-Identifier: MIT */
/* Random changes of ranges, compared with an array that has the owner of each page; and threads that change at once. */
#include "support/unit.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "host/heap/inherited.h"
#include "host/heap/mappings.h"
#include "host/table/record.h"

enum { PAGES = 128, RECORDS = 6, USER = RECORDS - 1, THREADS = 4, PAGE = 4096 };

static dp_record_id records[RECORDS];

static void make_records(void)
{
    for (dp_frame_id i = 0; i < RECORDS; i++) {
        dp_frame_id frame = 100 + i;
        struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
        records[i] = dp_table_intern(DP_KIND_HEAP, 1, 0, &stack);
        assert_int_not_equal(records[i], 0);
    }
}

static int start(void **state)
{
    dp_mem_reserve(8 << 20);
    int err = dp_table_init(4 << 20, 0);
    if (!err)
        err = dp_heap_mappings_init(512);
    dp_record_open(dp_heap_inherited_begin);
    make_records();
    return err;
}

static struct dp_counts counts_of(int i)
{
    struct dp_counts counts;
    dp_table_read(DP_KIND_HEAP, records[i], &counts);
    return counts;
}

struct page {
    int owner;       /* index of a record + 1; 0: none; -1: reserved */
    unsigned number; /* of the mapping */
    uint32_t mark;   /* of the call that may unmap it */
};

static void change_page(struct page *page, enum dp_heap_mapping_change change, unsigned number, int i, uint32_t mark)
{
    bool is_marked = page->mark == mark;
    switch (change) {
    case DP_MAPPING_ADD:
        *page = (struct page){.owner = i + 1, .number = number};
        break;
    case DP_MAPPING_RESERVE:
        *page = (struct page){.owner = -1, .number = number};
        break;
    case DP_MAPPING_USE:
        if (page->owner == -1)
            *page = (struct page){.owner = i + 1, .number = number};
        break;
    case DP_MAPPING_REMOVE:
        *page = (struct page){0};
        break;
    case DP_MAPPING_LEAVE:
        page->mark = page->owner ? mark : 0;
        break;
    case DP_MAPPING_GONE:
        if (is_marked)
            *page = (struct page){0};
        break;
    case DP_MAPPING_STAY:
        page->mark = is_marked ? 0 : page->mark;
        break;
    }
}

static void compare(const struct page *pages)
{
    for (int i = 0; i < RECORDS; i++) {
        int64_t bytes = 0, objects = 0;
        for (int p = 0; p < PAGES; p++) {
            bytes += pages[p].owner == i + 1 ? PAGE : 0;
            bool is_new = pages[p].owner == i + 1;
            for (int q = 0; q < p && is_new; q++)
                is_new = pages[q].owner != i + 1 || pages[q].number != pages[p].number;
            objects += is_new;
        }
        struct dp_counts counts = counts_of(i);
        assert_int_equal(counts.v - counts.free_v, bytes);
        if (i == USER) /* a piece that becomes accessible is an object of its own */
            assert_true((counts.n - counts.free_n > 0) == (bytes > 0));
        else
            assert_int_equal(counts.n - counts.free_n, objects);
    }
}

TEST(ranges_agree_with_pages)
{
    static struct page pages[PAGES];
    uintptr_t base = (uintptr_t)1 << 40;
    srand(7);
    for (unsigned number = 1; number < 20000; number++) {
        int first = rand() % PAGES, n = 1 + rand() % (number % 5 ? 12 : PAGES);
        n = n < PAGES - first ? n : PAGES - first;
        enum dp_heap_mapping_change change = (enum dp_heap_mapping_change)(rand() % 7);
        int i = change == DP_MAPPING_USE ? USER : rand() % USER;
        uint32_t mark = 1 + (uint32_t)rand() % 3;
        dp_heap_mappings_change(change, base + (uintptr_t)first * PAGE, base + (uintptr_t)(first + n) * PAGE,
                                change < DP_MAPPING_LEAVE ? records[i] : mark);
        for (int p = first; p < first + n; p++)
            change_page(&pages[p], change, number, i, mark);
        if (number % 16 == 0)
            compare(pages);
        bool is_reserved = false;
        for (int p = first; p < first + n; p++)
            is_reserved |= pages[p].owner == -1;
        assert_true(dp_heap_mappings_are_reserved(base + (uintptr_t)first * PAGE,
                                                  base + (uintptr_t)(first + n) * PAGE) == is_reserved);
    }
    dp_heap_mappings_change(DP_MAPPING_REMOVE, base, base + PAGES * PAGE, 0);
    memset(pages, 0, sizeof pages);
    compare(pages);
    struct dp_heap_mapped_range range;
    assert_int_equal(dp_heap_mappings_copy(&range, 1), 0);
}

static void *change_own(void *arg)
{
    uintptr_t base = (uintptr_t)1 << 41, mine = base + (uintptr_t)(intptr_t)arg * (16 << 20);
    for (int i = 0; i < 2000; i++) {
        dp_heap_mappings_change(DP_MAPPING_ADD, mine, mine + 8 * PAGE, records[i % USER]);
        dp_heap_mappings_change(DP_MAPPING_REMOVE, mine + 2 * PAGE, mine + 4 * PAGE, 0);
        dp_heap_mappings_change(DP_MAPPING_REMOVE, mine, mine + 8 * PAGE, 0);
        sched_yield(); /* as the system call of a real change would */
    }
    return NULL;
}

TEST(threads_lose_no_change)
{
    pthread_t threads[THREADS];
    struct dp_heap_mapped_range ranges[8];
    uint64_t lost = dp_stats_read(DP_STAT_MAPS_LOST);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, change_own, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (dp_stats_read(DP_STAT_MAPS_LOST) != lost) /* the thread with the lock was off its processor for long */
        skip();
    assert_int_equal(dp_heap_mappings_copy(ranges, 8), 0);
    for (int i = 0; i < RECORDS; i++) {
        struct dp_counts counts = counts_of(i);
        assert_int_equal(counts.v, counts.free_v);
        assert_int_equal(counts.n, counts.free_n);
    }
}

TEST(too_many_ranges_are_counted_as_lost)
{
    uintptr_t base = (uintptr_t)1 << 42;
    uint64_t lost = dp_stats_read(DP_STAT_MAPS_LOST);
    for (uintptr_t i = 0; i < 600; i++)
        dp_heap_mappings_change(DP_MAPPING_ADD, base + 2 * i * PAGE, base + (2 * i + 1) * PAGE, records[0]);
    assert_int_equal(dp_stats_read(DP_STAT_MAPS_LOST) - lost, 600 - 512);
    struct dp_counts counts = counts_of(0);
    assert_int_equal(counts.v - counts.free_v, 512 * PAGE);
    dp_heap_mappings_change(DP_MAPPING_REMOVE, base, base + 1200 * PAGE, 0);
    counts = counts_of(0);
    assert_int_equal(counts.v - counts.free_v, 0);
}

UNIT(start, NULL)
