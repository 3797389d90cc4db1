/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/resident/resident.h"

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
TEST(large_blocks_without_a_sample_are_mallocs_and_mappings_among_them_are_not)
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

/* As above, the profiler's mapping lies among the blocks, and the kernel joins them. */
TEST(mappings_of_the_profiler_are_its_own_and_what_it_did_not_touch_counts_for_nobody)
{
    enum { OWN = 12 << 20, TOUCHED = 5 << 20 };
    struct dp_resident_parts before = divide();
    char *below = memset(malloc(BLOCK), 1, BLOCK), *own = dp_mem_map(OWN), *above = memset(malloc(BLOCK), 1, BLOCK);
    assert_non_null(own);
    memset(own + OWN / 2, 1, TOUCHED);
    struct dp_resident_parts after = divide();
    int64_t held = after.held_bytes - before.held_bytes, self = after.self_bytes - before.self_bytes;
    assert_in_range(self, TOUCHED, TOUCHED + (256 << 10));
    if ((uintptr_t)below % 4096 == 2 * sizeof(size_t)) /* else not glibc's malloc, or not as it is by default */
        assert_in_range(held, 2 * BLOCK * 99L / 100, 2 * BLOCK * 101L / 100);
    assert_in_range(after.files_bytes + after.stacks_bytes - before.files_bytes - before.stacks_bytes + (64 << 10), 0,
                    128 << 10);
    dp_mem_unmap(own, OWN);
    free(below);
    free(above);
    assert_in_range(divide().self_bytes - before.self_bytes + (256 << 10), 0, 512 << 10);
    (void)state;
}

TEST(code_of_a_file_that_was_changed_has_private_pages)
{
    enum { CODE = 2 << 20 };
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), CODE), 0);
    struct dp_resident_parts before = divide();
    char *code = mmap(NULL, CODE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(file), 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    memset(code, 1, CODE);
    if (mprotect(code, CODE, PROT_READ | PROT_EXEC))
        skip(); /* the system forbids it */
    struct dp_resident_parts after = divide();
    assert_in_range(after.files_bytes - before.files_bytes, CODE, CODE + (64 << 10));
    munmap(code, CODE);
    fclose(file);
    (void)state;
}

TEST(a_mapping_that_only_looks_like_a_block_ends_where_the_mapping_ends)
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

/* The address space of a virtual machine's heap, or of a sanitizer's shadow: to ask for each page takes minutes. */
TEST(a_range_that_was_only_reserved_is_not_searched)
{
    size_t n_bytes = (size_t)32 << 40;
    char *at = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        skip();
    at[0] = at[n_bytes / 2] = 1;
    divide();
    munmap(at, n_bytes);
    (void)state;
}

static size_t by_quarters(size_t n, int flags) /* four classes from one power of two to the next */
{
    size_t step = 16;
    while (step * 8 < n)
        step *= 2;
    return (n + step - 1) / step * step + (size_t)flags;
}

static size_t by_16(size_t n, int flags)
{
    return (n + 8 + 15) / 16 * 16 + (size_t)flags - 8;
}

static size_t by_pages(size_t n, int flags) /* regular from a size on that is not in the table's beginning */
{
    return n <= 2048 ? by_quarters(n, flags) : (n + 8191) / 8192 * 8192;
}

static size_t stays(size_t n, int flags)
{
    (void)n, (void)flags;
    return 64;
}

TEST(classes_of_any_size_are_those_that_the_allocator_told_once)
{
    size_t (*const allocators[])(size_t, int) = {by_quarters, by_16, by_pages};
    assert_int_equal(dp_resident_class_of(100), 100);
    for (size_t a = 0; a < 3; a++) {
        dp_resident_classes_learn(allocators[a]);
        for (size_t n = 1; n < (size_t)1 << 34; n += n < 100000 ? 1 : n / 1000)
            assert_int_equal(dp_resident_class_of(n), allocators[a](n, 0));
    }
    dp_resident_classes_learn(stays);
    assert_int_equal(dp_resident_class_of(100), 100);
    (void)state;
}

UNIT(NULL, NULL)
