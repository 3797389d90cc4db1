/* SPDX-License-Identifier: MIT */
/* Lifetimes are read after the scan, so they may be those of a record that the baseline does not know yet. */
#include "support/unit.h"
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "base/clock.h"
#include "host/heap/age.h"
#include "host/api/recording.h"
#include "host/heap/lifetime.h"
#include "host/table/record.h"
#include "host/table/table.h"

static const struct dp_delta_rules heap = {.kind = DP_KIND_HEAP, .has_levels = true};

static dp_record_id new_record(void)
{
    static uintptr_t pc = 0x1000;
    dp_frame_id frame = dp_frame_intern(pc += 16);
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    dp_record_id id = 0;
    assert_true(dp_record_add(DP_KIND_HEAP, 0, 0, &stack, 0, 0, &id));
    return id;
}

/* A block of the record was allocated and freed. */
static void allocate_and_free(dp_record_id id)
{
    struct dp_heap_live_block block = {.record = id, .objects = 1, .bytes = 10, .born_ns = 1};
    dp_table_add(DP_KIND_HEAP, id, 1, 10);
    dp_table_add_free(DP_KIND_HEAP, id, 1, 10);
    dp_heap_lifetime_ended(&block);
}

/* A baseline of n entries, behind which no memory is mapped. */
static struct dp_baseline baseline_before_a_hole(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED && n * sizeof(struct dp_baseline_entry) <= page);
    assert_int_equal(munmap(p + page, page), 0);
    return (struct dp_baseline){.at = (struct dp_baseline_entry *)(void *)(p + page) - n, .n = n, .cap = n};
}

static bool has_row(const struct dp_rows *rows, dp_record_id id)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->at[i].id == id)
            return true;
    return false;
}

static void commit_leaves_records_without_an_entry(bool is_full)
{
    dp_record_id old = new_record(), later = 0;
    struct dp_baseline base = baseline_before_a_hole(dp_table_count(DP_KIND_HEAP));
    struct dp_heap_age_baseline lives_base = {0};
    struct dp_heap_age_lives lives = {0};
    struct dp_rows rows = {0};
    struct dp_baseline_entry *entry = &base.at[old];
    base.is_full = is_full;
    allocate_and_free(old);
    if (is_full)
        allocate_and_free(later = new_record());
    assert_int_equal(dp_delta_scan(&heap, 0, &base, &rows), 0);
    if (!is_full)
        allocate_and_free(later = new_record());
    assert_int_equal(dp_heap_age_split(&rows, &lives_base, &lives, dp_clock_ns()), 0);
    assert_true(later >= base.n && has_row(&rows, old) && has_row(&rows, later));
    dp_delta_commit(&base, &rows);
    dp_heap_age_commit(&lives_base, &lives);
    assert_int_equal(entry->n, 1);
    assert_int_equal(entry->v, 10);
    dp_vec_fini(&rows);
    dp_vec_fini(&lives);
    dp_vec_fini(&lives_base);
}

TEST(a_record_may_be_newer_than_the_scan)
{
    commit_leaves_records_without_an_entry(false);
}

TEST(a_full_baseline_may_lack_the_record)
{
    commit_leaves_records_without_an_entry(true);
}

static int start(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.age = true;
    int err = dp_record_init(&conf);
    dp_heap_lifetime_tune(true);
    return err;
}

UNIT(start, NULL)
