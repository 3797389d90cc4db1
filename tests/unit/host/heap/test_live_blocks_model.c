/* SPDX-License-Identifier: MIT */
/*
 * The filter's protocol, checked on the code itself: live_blocks.c is compiled in with its atomic operations as points
 * where another thread may go on (schedules.h). The weaker orders that the code names are argued in live_blocks.c.
 *
 * What must hold at every step: while an entry's insert has returned and its take has not begun, its filter byte is
 * not 0; its take finds it; and in the end a search that finds nothing leaves the byte 0.
 */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "support/schedules.h"

static int64_t model_now_ns; /* stands still, but where a test moves it */
static void step(const volatile void *at);

#undef dp_load_relaxed
#undef dp_load_total
#undef dp_swap_total
#undef dp_cas_total
#undef dp_cas_acquire
#undef dp_cas_publish
#define dp_load_relaxed(p)             (step(p), atomic_load(p))
#define dp_load_total(p)               (step(p), atomic_load(p))
#define dp_swap_total(p, v)            (step(p), atomic_exchange(p, v))
#define dp_cas_total(p, expected, v)   (step(p), atomic_compare_exchange_strong(p, expected, v))
#define dp_cas_acquire(p, expected, v) (step(p), atomic_compare_exchange_strong(p, expected, v))
#define dp_cas_publish(p, expected, v) (step(p), atomic_compare_exchange_strong(p, expected, v))
#define dp_clock_coarse_ns()           model_now_ns
#include "host/heap/live_blocks.c"

#define KEY(i) (0x40000000 + (i)) /* keys of one byte */
enum { THREADS_MAX = SCHEDULES_THREADS };

static bool in_set[THREADS_MAX];
static void (*prepare)(void);

/* Whether the entries here get into this bucket, or past it: never beyond their first far one. */
static bool is_used(size_t bucket)
{
    struct dp_heap_live_index index = index_of(KEY(0));
    for (unsigned i = 0; i < THREADS_MAX; i++)
        for (unsigned way = 0; way <= 2; way++)
            if (dp_heap_live_slot(bucket * DP_LIVE_SLOTS) == bucket_at(index, KEY(i), way))
                return true;
    return false;
}

/* Only what threads can meet at: the byte, cleaning, and the slots of a bucket that the few keys here reach. */
static bool is_shared(const volatile void *at)
{
    struct dp_heap_live_index index = index_of(KEY(0));
    size_t number = ((uintptr_t)at - (uintptr_t)atomic_load(&dp_live.slots)) / sizeof(struct dp_heap_live_slot);
    if (number < (size_t)dp_live.n_buckets * DP_LIVE_SLOTS)
        return (number % DP_LIVE_SLOTS < 2 || number % DP_LIVE_SLOTS == index.byte % DP_LIVE_SLOTS) &&
               is_used(number / DP_LIVE_SLOTS);
    return at == &dp_live.filter[index.byte] || at == &dp_live.cleaning;
}

static void check(void)
{
    for (unsigned i = 0; i < THREADS_MAX; i++)
        if (in_set[i] && !deltaprof_may_be_live(0, (const void *)(uintptr_t)KEY(i))) {
            fprintf(stderr, "entry %u stands behind a byte that is 0; schedule:", i);
            for (unsigned k = 0; k < schedules.now.n_steps; k++)
                fprintf(stderr, " %u", schedules.now.choice[k]);
            fprintf(stderr, "\n");
            fail();
        }
}

static void step(const volatile void *at)
{
    if (!schedules.running)
        return;
    schedules.running = false; /* what check reads is no step */
    bool shared = is_shared(at);
    if (shared)
        check();
    schedules.running = true;
    if (shared)
        schedules_step();
}

static void clear_set(void)
{
    struct dp_heap_live_index index = index_of(KEY(0));
    memset(dp_live.table, 0, dp_heap_live_n_slots() * sizeof *dp_live.table);
    atomic_store(&dp_live.filter[index.byte], 0);
    atomic_store(&dp_live.cleaning, 0);
    atomic_store(&dp_live.n_far_misses, 0); /* the first search in vain cleans */
    memset(in_set, 0, sizeof in_set);
}

static void begin(void)
{
    clear_set();
    if (prepare)
        prepare();
}

/* Everything was taken: a last search clears the byte, or one of DP_LIVE_PATIENCE. */
static void end(void)
{
    struct dp_heap_live_block entry;
    bool is_far = atomic_load(&dp_live.filter[index_of(KEY(0)).byte]) & FAR;
    for (unsigned i = 0; i < (is_far ? DP_LIVE_PATIENCE : 1); i++)
        assert_false(dp_heap_live_blocks_remove(KEY(9), &entry));
    assert_false(deltaprof_may_be_live(0, (const void *)(uintptr_t)KEY(0)));
}

static void insert_and_take(unsigned i)
{
    struct dp_heap_live_block entry = {.record = i, .objects = 1, .bytes = 10 + i}, stale;
    assert_true(dp_heap_live_blocks_insert(KEY(i), &entry, &stale));
    assert_int_equal(stale.objects, 0);
    in_set[i] = true;
    step(&dp_live.cleaning);
    in_set[i] = false;
    assert_true(dp_heap_live_blocks_remove(KEY(i), &entry));
    assert_int_equal(entry.bytes, 10 + i);
}

static void search_in_vain(unsigned i)
{
    struct dp_heap_live_block entry;
    assert_false(dp_heap_live_blocks_remove(KEY(4 + i), &entry));
}

static void realloc_in_place(unsigned i)
{
    struct dp_heap_live_block entry = {.record = i, .objects = 1, .bytes = 10 + i}, stale;
    uint32_t slot;
    assert_true(dp_heap_live_blocks_insert(KEY(i), &entry, &stale));
    assert_true(dp_heap_live_blocks_claim(KEY(i), &entry, &slot));
    dp_heap_live_blocks_unclaim(KEY(i), slot);
    in_set[i] = true;
    step(&dp_live.cleaning);
    in_set[i] = false;
    assert_true(dp_heap_live_blocks_remove(KEY(i), &entry));
}

/* The byte as earlier entries left it: not 0, with nothing behind it. */
static void stale_byte(void)
{
    atomic_store(&dp_live.filter[index_of(KEY(0)).byte], PRESENT);
}

static void stale_and_spilled(void)
{
    atomic_store(&dp_live.filter[index_of(KEY(0)).byte], PRESENT | SPILLED);
}

static void fill(unsigned bucket)
{
    struct dp_heap_live_index index = index_of(KEY(0));
    for (unsigned slot = 0; slot < DP_LIVE_SLOTS; slot++)
        atomic_store(&bucket_at(index, KEY(0), bucket)[slot].key, 0x9000000000 + slot * 4096);
}

/* What comes now spills. */
static void full_home(void)
{
    fill(0);
}

/* What comes now is far. */
static void full_home_and_next(void)
{
    fill(0);
    fill(1);
    stale_and_spilled();
}

static void with(const char *name, void (*before)(void), unsigned preemptions, unsigned n, ...)
{
    va_list scripts;
    va_start(scripts, n);
    prepare = before;
    schedules_explore(begin, end, preemptions, n, scripts);
    va_end(scripts);
    printf("%s: %llu schedules of up to %llu steps\n", name, (unsigned long long)schedules.n_runs,
           (unsigned long long)schedules.longest);
    assert_true(schedules.n_runs > 100);
}

TEST(an_entry_never_stands_behind_a_cleared_byte)
{
    assert_int_equal(dp_heap_live_blocks_init(1 << 20, 1, DP_BIRTHS_NONE), 0);
    with("insert, cleaner", stale_byte, 5, 2, insert_and_take, search_in_vain);
    with("insert, cleaner, byte 0", NULL, 5, 2, insert_and_take, search_in_vain);
    with("two inserts", NULL, 4, 2, insert_and_take, insert_and_take);
    with("two inserts, cleaner", stale_byte, 3, 3, insert_and_take, insert_and_take, search_in_vain);
    with("two cleaners, insert", stale_byte, 4, 3, search_in_vain, search_in_vain, insert_and_take);
    with("insert, two cleaners, spilled", stale_and_spilled, 3, 3, insert_and_take, search_in_vain, search_in_vain);
    with("realloc, insert, cleaner", stale_byte, 3, 3, realloc_in_place, insert_and_take, search_in_vain);
    with("inserts that spill, cleaner", full_home, 3, 3, insert_and_take, insert_and_take, search_in_vain);
    with("inserts that go far, cleaner", full_home_and_next, 3, 3, insert_and_take, insert_and_take, search_in_vain);
    with("everybody", stale_byte, 2, 4, insert_and_take, insert_and_take, search_in_vain, search_in_vain);
}

/* Small blocks that lie side by side, as slabs have them, neither spill nor search. */
TEST(blocks_of_a_page_each_have_a_slot_of_their_own)
{
    for (uintptr_t key = 0x7654320000; key < 0x7654330000; key += 16) {
        struct dp_heap_live_block entry = {.objects = 1}, stale;
        struct dp_heap_live_index index = index_of(key);
        assert_int_equal(atomic_load(&first_slot(index)->key), 0);
        assert_true(dp_heap_live_blocks_insert(key, &entry, &stale));
        assert_int_equal(atomic_load(&first_slot(index)->key), key);
    }
}

/* A cleaner that a jump out of a signal handler took away. */
TEST(a_claim_that_was_left_is_taken_over_after_a_minute)
{
    struct dp_heap_live_block entry;
    clear_set();
    stale_byte();
    atomic_store(&dp_live.cleaning, (uint32_t)(model_now_ns >> CLAIM_SHIFT) + 1);
    model_now_ns += INT64_C(50) << CLAIM_SHIFT;
    assert_false(dp_heap_live_blocks_remove(KEY(9), &entry));
    assert_true(deltaprof_may_be_live(0, (const void *)(uintptr_t)KEY(0)));
    model_now_ns += INT64_C(10) << CLAIM_SHIFT;
    assert_false(dp_heap_live_blocks_remove(KEY(9), &entry));
    assert_false(deltaprof_may_be_live(0, (const void *)(uintptr_t)KEY(0)));
    assert_int_equal(atomic_load(&dp_live.cleaning), 0);
}

UNIT(NULL, NULL)
