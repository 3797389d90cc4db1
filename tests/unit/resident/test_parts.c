/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "resident/resident.h"

enum { BLOCKS = 24, BLOCK = 3 << 20, MAPPED = 32 << 20, STACK = 8 << 20 };

static struct dp_resident_parts divide(void)
{
    struct dp_resident resident;
    struct dp_resident_parts parts;
    assert_int_equal(dp_resident_read(&resident), 0);
    assert_int_equal(dp_resident_divide(&resident, STACK, &parts), 0);
    return parts;
}

static char *map(size_t n_bytes)
{
    char *at = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* The kernel places each new mapping below the last one and joins them, so the program's lies among the blocks. */
static void large_blocks_without_a_sample_are_mallocs_and_mappings_among_them_are_not(void **state)
{
    static char *blocks[BLOCKS], *mapped;
    struct dp_resident_parts before = divide();
    for (int i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS / 2)
            mapped = memset(map(MAPPED), 0xa5, MAPPED);
        blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
        if ((uintptr_t)blocks[i] % 4096 != 2 * sizeof(size_t))
            skip(); /* not glibc's malloc, or not as it is by default */
    }
    struct dp_resident_parts after = divide();
    int64_t grown = after.held_bytes - before.held_bytes;
    assert_in_range(grown, (int64_t)BLOCKS * BLOCK * 99 / 100, (int64_t)BLOCKS * BLOCK * 101 / 100);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    munmap(mapped, MAPPED);
    grown = divide().held_bytes - before.held_bytes;
    assert_in_range(grown + BLOCK, 0, 2 * BLOCK);
    (void)state;
}

static void a_mapping_that_only_looks_like_a_block_ends_where_the_mapping_ends(void **state)
{
    struct dp_resident_parts before = divide();
    static const size_t headers[][2] = {
        {0, (MAPPED << 4) | 2}, {0, MAPPED | 1}, {7, MAPPED | 2}, {0, 4096 | 2}, {0, 2}};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char *mapped = map(MAPPED);
        memset(mapped, 0xa5, MAPPED);
        memcpy(mapped, headers[i], sizeof headers[i]);
        struct dp_resident_parts after = divide();
        assert_in_range(after.held_bytes - before.held_bytes + BLOCK, 0, 2 * BLOCK);
        munmap(mapped, MAPPED);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_blocks_without_a_sample_are_mallocs_and_mappings_among_them_are_not),
        cmocka_unit_test(a_mapping_that_only_looks_like_a_block_ends_where_the_mapping_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
