/* SPDX-License-Identifier: MIT */
/*
 * Fills the table of live blocks, of the size that memory=64M gives it, with the addresses of a heap that only grows.
 * A block must find a slot as long as a quarter of the slots are empty; more, if blocks lie whole pages apart. A
 * refused block counts as freed at once, and in-use is then too low. The refused blocks of each shape are printed with
 * the share of the slots.
 */
#include "support/unit.h"
#include <stdlib.h>

#include "host/heap/live_blocks.h"

#define BUDGET        10264488 /* of recording.c, for memory=64M and heap_rate=1 */
#define HEAP          0x555555000010
#define PER_CENT_FULL 75 /* all blocks find a slot until the table is so full */

static uintptr_t *keys; /* as many as slots; 0: the block was refused */
static size_t n_slots;

/* Like glibc's: a header of 8 bytes, and a multiple of 16. */
static size_t chunk(size_t size)
{
    return (size + 8 + 15) & ~(size_t)15;
}

/* Enters as many blocks as there are slots. size 0: sizes between 16 and 1,024 bytes. Returns the first refused one. */
static size_t fill(size_t size)
{
    struct dp_heap_live_block stale;
    uintptr_t at = HEAP;
    size_t n_refused = 0, first = n_slots;
    srandom(1);
    for (size_t i = 0; i < n_slots; i++) {
        struct dp_heap_live_block entry = {.record = 1, .objects = 1, .bytes = i + 1};
        keys[i] = at;
        at += chunk(size ? size : 16 + (size_t)random() % 1009);
        if (!dp_heap_live_blocks_insert(keys[i], &entry, &stale)) {
            first = n_refused++ ? first : i;
            keys[i] = 0;
        }
        assert_int_equal(stale.objects, 0);
    }
    print_message("%zu bytes: %zu of %zu blocks refused, the first at %.1f %% of the slots\n", size, n_refused, n_slots,
                  100.0 * (double)first / (double)n_slots);
    return first;
}

/* Takes out the entries, each with its own value. */
static void empty(void)
{
    struct dp_heap_live_block entry;
    for (size_t i = 0; i < n_slots; i++)
        if (keys[i]) {
            assert_true(dp_heap_live_blocks_remove(keys[i], &entry));
            assert_int_equal(entry.bytes, i + 1);
        }
    struct dp_heap_live_table table = dp_heap_live_blocks_table();
    uintptr_t key;
    for (size_t i = 0; i < table.n_slots; i++)
        assert_false(dp_heap_live_blocks_read(i, &key, &entry));
}

static void expect_room_until(size_t size, unsigned per_cent)
{
    size_t first = fill(size);
    empty();
    assert_true(first * 100 >= n_slots * per_cent);
}

static void expect_room(size_t size)
{
    expect_room_until(size, PER_CENT_FULL);
}

TEST(blocks_of_32_bytes_find_a_slot)
{
    expect_room(32);
}

TEST(blocks_of_100_bytes_find_a_slot)
{
    expect_room(100);
}

TEST(blocks_of_1000_bytes_find_a_slot)
{
    expect_room(1000);
}

TEST(blocks_of_random_sizes_find_a_slot)
{
    expect_room(0);
}

TEST(blocks_of_a_page_find_a_slot)
{
    expect_room(4096 - 8);
}

/* Those have few filter bytes: 2,048 of a million, 1,024 and 256. */
TEST(blocks_of_several_pages_find_a_slot)
{
    expect_room_until(8192 - 8, 70);
    expect_room_until(16384 - 8, 65);
    expect_room_until(65536 - 8, 40);
}

static int set_up(void **state)
{
    if (dp_heap_live_blocks_init(BUDGET, 1, DP_BIRTHS_NONE))
        return -1;
    n_slots = dp_heap_live_blocks_table().n_slots;
    keys = calloc(n_slots, sizeof *keys);
    return keys ? 0 : -1;
}

static int tear_down(void **state)
{
    free(keys);
    return 0;
}

UNIT(set_up, tear_down)
