/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "host/heap/live_blocks.h"
#include "host/heap/live_slots.h"

#include <deltaprof/hooks.h>

#define BUDGET (1 << 20)
#ifndef BIRTHS
#define BIRTHS DP_BIRTHS_NONE /* other executables have them */
#endif
#define RATE (BIRTHS == DP_BIRTHS_COARSE ? 512 << 10 : 1)

static int64_t started_ns;
static uintptr_t watched_before = 0x7000000010;

static bool maybe(uintptr_t key)
{
    return deltaprof_may_be_live(0, (const void *)key);
}

static bool insert(uintptr_t key, uint64_t bytes)
{
    struct dp_heap_live_block entry = {.record = (uint32_t)bytes ^ 7, .objects = 3, .bytes = bytes}, stale;
    bool done = dp_heap_live_blocks_insert(key, &entry, &stale);
    assert_int_equal(stale.objects, 0);
    return done;
}

static void take(uintptr_t key, uint64_t bytes)
{
    struct dp_heap_live_block entry;
    assert_true(maybe(key));
    assert_true(dp_heap_live_blocks_remove(key, &entry));
    assert_int_equal(entry.bytes, bytes);
    assert_int_equal(entry.record, (uint32_t)bytes ^ 7);
    assert_int_equal(entry.objects, 3);
    if (BIRTHS)
        assert_in_range(entry.born_ns, started_ns, dp_clock_ns());
}

static bool is_in(uintptr_t key)
{
    struct dp_heap_live_block entry;
    uint32_t slot;
    if (!dp_heap_live_blocks_claim(key, &entry, &slot))
        return false;
    dp_heap_live_blocks_unclaim(key, slot);
    return true;
}

/* Whether the filter still has the byte of a key that is gone, after as many searches as make it forget one. */
static bool is_remembered(uintptr_t key)
{
    for (unsigned i = 0; i < DP_LIVE_PATIENCE; i++)
        assert_false(is_in(key));
    return maybe(key);
}

/* How many filter bytes are set for keys of a region. */
static unsigned set_bytes(uintptr_t from, unsigned n)
{
    unsigned set = 0;
    for (unsigned i = 0; i < n; i++)
        set += maybe(from + i * 16);
    return set;
}

TEST(before_init_nothing_is_kept_but_watches_are)
{
    struct dp_heap_live_block entry = {.objects = 1}, out;
    assert_false(dp_heap_live_blocks_insert(0x1000, &entry, &out));
    assert_false(dp_heap_live_blocks_remove(0x1000, &entry));
    assert_false(maybe(watched_before));
    dp_heap_live_blocks_mark(watched_before, 1);
    assert_true(maybe(watched_before));
    size_t before = dp_mem_used();
    for (size_t budget_bytes = 0; budget_bytes < 8192; budget_bytes += 1365) /* up to 8190 */
        assert_int_equal(dp_heap_live_blocks_init(budget_bytes, RATE, BIRTHS), -ENOMEM);
    assert_int_equal(dp_mem_used(), before);
    assert_int_equal(dp_heap_live_blocks_init(BUDGET, RATE, BIRTHS), 0);
    assert_true(dp_mem_used() - before <= BUDGET);
    assert_true(maybe(watched_before));
    assert_false(is_in(watched_before));
    assert_true(maybe(watched_before));
}

TEST(an_entry_is_taken_once)
{
    assert_true(insert(0x5000, 11));
    take(0x5000, 11);
    struct dp_heap_live_block entry;
    assert_false(dp_heap_live_blocks_remove(0x5000, &entry));
}

TEST(keys_that_mean_something_else_are_refused)
{
    assert_false(insert(0, 1));
    assert_false(insert(~(uintptr_t)0, 1));
    struct dp_heap_live_block entry;
    assert_false(dp_heap_live_blocks_remove(0, &entry));
    assert_false(dp_heap_live_blocks_remove(~(uintptr_t)0, &entry));
    assert_true(insert(1, 5));
    take(1, 5);
}

TEST(a_claimed_entry_is_neither_there_nor_gone)
{
    struct dp_heap_live_block entry, other;
    uint32_t slot;
    assert_true(insert(0x6000, 21));
    assert_true(dp_heap_live_blocks_claim(0x6000, &entry, &slot));
    assert_false(dp_heap_live_blocks_remove(0x6000, &other));
    assert_true(insert(0x6000, 22)); /* the address was handed out again meanwhile */
    take(0x6000, 22);
    dp_heap_live_blocks_unclaim(0x6000, slot);
    take(0x6000, 21);
    assert_true(insert(0x6000, 23));
    assert_true(dp_heap_live_blocks_claim(0x6000, &entry, &slot));
    dp_heap_live_blocks_drop(slot);
    assert_false(is_in(0x6000));
}

TEST(a_second_insert_hands_out_the_first)
{
    assert_true(insert(0x7000, 31));
    struct dp_heap_live_block entry = {.record = 9, .objects = 3, .bytes = 32}, stale;
    assert_true(dp_heap_live_blocks_insert(0x7000, &entry, &stale));
    assert_int_equal(stale.bytes, 31);
    assert_true(dp_heap_live_blocks_remove(0x7000, &entry));
    assert_int_equal(entry.bytes, 32);
    assert_false(is_in(0x7000));
}

/* The filter is cleared by searches that find nothing, and only if nothing else stands behind the byte. */
TEST(the_filter_forgets_what_is_gone)
{
    const uintptr_t region = 0x123400000;
    assert_int_equal(set_bytes(region, 4096), 0);
    for (uintptr_t i = 0; i < 4096; i += 2)
        assert_true(insert(region + i * 16, i));
    assert_int_equal(set_bytes(region, 4096), 2048);
    for (uintptr_t i = 0; i < 4096; i += 4)
        take(region + i * 16, i);
    for (uintptr_t i = 0; i < 4096; i++)
        if (i % 4 != 2)
            assert_false(is_remembered(region + i * 16));
    assert_int_equal(set_bytes(region, 4096), 1024);
    for (uintptr_t i = 2; i < 4096; i += 4) {
        assert_false(is_in(region + i * 16 + 8)); /* another key of the same byte */
        assert_true(maybe(region + i * 16));
        take(region + i * 16, i);
        assert_false(is_remembered(region + i * 16));
    }
    assert_int_equal(set_bytes(region, 4096), 0);
}

TEST(many_keys_of_one_byte_spill_and_are_found)
{
    /* 16 keys share the byte of a 16-byte piece; the home has eight slots */
    for (uintptr_t i = 0; i < 16; i++)
        assert_true(insert(0x8000 + i, 100 + i));
    for (uintptr_t i = 0; i < 16; i++)
        assert_true(is_in(0x8000 + i));
    for (uintptr_t i = 0; i < 16; i++)
        take(0x8000 + i, 100 + i);
    assert_false(is_remembered(0x8000));
}

TEST(a_full_set_refuses_and_keeps_what_it_has)
{
    uintptr_t n = 0, refused = 0, first = 0;
    static bool in[1 << 16];
    unsigned watched = set_bytes(0x200000000, 200000);
    for (; n < sizeof in; n++) {
        in[n] = insert(0x200000000 + n * 48, n);
        refused += !in[n];
        if (refused && !first)
            first = n;
    }
    /* 24 bytes a slot: the first refusal comes late, and in the end nearly every slot is used */
    size_t slots = n - refused;
    assert_true(refused > 0 && slots >= BUDGET * 8 / 10 / (BIRTHS ? 32 : 24));
    assert_true(first >= slots * 7 / 10);
    for (uintptr_t i = 0; i < n; i++) {
        if (in[i])
            take(0x200000000 + i * 48, i);
        is_remembered(0x200000000 + i * 48); /* others may have the same byte */
    }
    assert_int_equal(set_bytes(0x200000000, 200000), watched);
}

/* Against a plain array, with few addresses and many. */
TEST(it_agrees_with_a_model)
{
    static const unsigned spans[] = {20, 500, 9000};
    static uint64_t model[9000];
    srandom(4);
    for (unsigned s = 0; s < 3; s++) {
        memset(model, 0, sizeof model);
        for (int turn = 0; turn < 300000; turn++) {
            unsigned i = (unsigned)random() % spans[s];
            uintptr_t key = 0x300000000 + i * 32;
            if (!model[i] && random() % 3) {
                uint64_t bytes = (uint64_t)random() + 1;
                if (insert(key, bytes))
                    model[i] = bytes;
            } else if (model[i]) {
                take(key, model[i]);
                model[i] = 0;
            } else {
                assert_false(is_in(key));
            }
        }
        for (unsigned i = 0; i < spans[s]; i++)
            if (model[i])
                take(0x300000000 + i * 32, model[i]);
    }
}

/* The sum of the bytes of all entries. */
static uint64_t visit(void)
{
    struct dp_heap_live_block entry;
    uintptr_t key;
    uint64_t bytes = 0;
    for (size_t i = 0; i < dp_heap_live_blocks_table().n_slots; i++)
        if (dp_heap_live_blocks_read(i, &key, &entry)) {
            bytes += entry.bytes;
            assert_true(!BIRTHS == !entry.born_ns);
        }
    return bytes;
}

TEST(all_entries_are_visited)
{
    uint64_t before = visit();
    for (uintptr_t i = 1; i <= 100; i++)
        assert_true(insert(0x500000 + i * 32, i));
    assert_int_equal(visit() - before, 5050);
    assert_int_equal(dp_heap_live_blocks_has_births(), BIRTHS != DP_BIRTHS_NONE);
    for (uintptr_t i = 1; i <= 100; i++)
        take(0x500000 + i * 32, i);
    assert_int_equal(visit(), before);
}

/* A forked worker copies each page that it writes to. */
TEST(the_first_blocks_of_a_sparse_table_share_a_page)
{
    enum { N = 40, FAR = 3 << 20 };
    struct dp_heap_live_table table = dp_heap_live_blocks_table();
    struct dp_heap_live_block entry;
    uintptr_t key, page = 0;
    unsigned n = 0;
    if (BIRTHS != DP_BIRTHS_COARSE)
        skip();
    for (uintptr_t i = 1; i <= N; i++)
        assert_true(insert(0x7f0000000000 + i * FAR, i));
    for (size_t i = 0; i < table.n_slots; i++)
        if (dp_heap_live_blocks_read(i, &key, &entry) && key >> 40 == 0x7f) {
            uintptr_t at = (table.start + i * table.slot_bytes) & ~(uintptr_t)4095;
            page = page ? page : at;
            n += at == page;
        }
    assert_int_equal(n, N);
    for (uintptr_t i = 1; i <= N; i++)
        take(0x7f0000000000 + i * FAR, i);
}

/* Pages of the table with an entry, for 300 samples in a heap of 160 MiB. */
TEST(rare_samples_share_pages)
{
    enum { N = 300, FAR = 548 << 10 };
    static bool touched[(BUDGET >> 12) + 2];
    struct dp_heap_live_table table = dp_heap_live_blocks_table();
    struct dp_heap_live_block entry;
    uintptr_t key;
    unsigned n = 0;
    for (uintptr_t i = 0; i < N; i++)
        assert_true(insert(0x900000000 + i * FAR, 1));
    for (size_t slot = 0; slot < table.n_slots; slot++)
        if (dp_heap_live_blocks_read(slot, &key, &entry))
            touched[slot * table.slot_bytes >> 12] = true;
    for (size_t i = 0; i < sizeof touched; i++)
        n += touched[i];
    assert_in_range(n, RATE > 1 ? 1 : 80, RATE > 1 ? 26 : N);
    for (uintptr_t i = 0; i < N; i++)
        take(0x900000000 + i * FAR, 1);
}

int main(void)
{
    started_ns = dp_clock_coarse_ns();
    return run_unit(NULL, NULL);
}
