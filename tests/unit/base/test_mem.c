/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define PAGE dp_page_bytes()

TEST(nothing_beyond_the_cap_is_mapped)
{
    size_t before = dp_mem_used();
    dp_mem_cap(before + (1 << 20));
    void *half = dp_mem_map(512 << 10);
    assert_non_null(half);
    assert_null(dp_mem_map(513 << 10));
    assert_int_equal(dp_mem_used(), before + (512 << 10));
    assert_null(dp_mem_remap(half, 512 << 10, 2 << 20));
    dp_mem_unmap(half, 512 << 10);
    assert_int_equal(dp_mem_used(), before);
    assert_null(dp_mem_map(SIZE_MAX));
    assert_int_equal(dp_mem_used(), before);
    dp_mem_cap(64 << 20);
}

TEST(a_vector_keeps_its_elements_when_it_grows)
{
    DP_VEC(uint64_t) v = {0};
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *p = dp_vec_push(&v);
        assert_non_null(p);
        *p = i * 3;
    }
    for (uint64_t i = 0; i < 100000; i++)
        assert_int_equal(v.at[i], i * 3);
    size_t used = dp_mem_used();
    assert_true(used >= 800000);
    dp_vec_fini(&v);
    assert_true(dp_mem_used() < used);
    assert_null(v.at);
}

static long page_faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

TEST(filled_pages_are_written_without_a_page_fault)
{
    enum { N = 20 };
    static char *page[N];
    size_t before = dp_mem_used();
    dp_mem_fill(N * PAGE);
    assert_int_equal(dp_mem_used(), before);
    for (int i = 0; i < N; i++)
        assert_non_null(page[i] = dp_mem_map(PAGE));
    assert_int_equal(dp_mem_used(), before + N * PAGE);
    long faults = page_faults();
    for (int i = 0; i < N; i++)
        page[i][PAGE - 1] = (char)(page[i][0] + 1);
    assert_true(page_faults() - faults < N / 2); /* the kernel may take single pages away, but not half of them */
    for (int i = 0; i < N; i++) {
        assert_int_equal(page[i][PAGE - 1], 1);
        dp_mem_unmap(page[i], PAGE);
    }
    assert_int_equal(dp_mem_used(), before);
    for (int i = 0; i < 2; i++) { /* more than a batch can have, which does nothing */
        uintptr_t start;
        size_t n_bytes, listed_bytes = 0;
        for (unsigned k = 0; k < DP_MEM_MAPPINGS; k++)
            listed_bytes += dp_mem_mapping(k, &start, &n_bytes) ? n_bytes : 0;
        assert_true(listed_bytes < PAGE * PAGE);
        dp_mem_fill(PAGE * PAGE);
    }
    dp_mem_cap(before + PAGE);
    dp_mem_fill(2 * PAGE); /* more than there is */
    assert_non_null(page[0] = dp_mem_map(PAGE));
    assert_null(dp_mem_map(PAGE));
    dp_mem_unmap(page[0], PAGE);
    dp_mem_cap(64 << 20);
}

TEST(tables_are_carved_from_one_reservation_and_charged)
{
    size_t before = dp_mem_used();
    assert_int_equal(dp_mem_reserve((size_t)1 << 50), -ENOMEM); /* more than there are addresses */
    assert_int_equal(dp_mem_reserve(10 * PAGE), 0);
    assert_int_equal(dp_mem_used(), before);
    char *first = dp_mem_table(PAGE + 1), *second = dp_mem_table(PAGE);
    assert_ptr_equal(second, first + 2 * PAGE);
    assert_int_equal(first[2 * PAGE - 1], 0);
    first[2 * PAGE - 1] = second[PAGE - 1] = 1;
    assert_int_equal(dp_mem_used(), before + 3 * PAGE);
    char *beyond = dp_mem_table(8 * PAGE); /* seven pages are left */
    assert_non_null(beyond);
    assert_true(beyond + 8 * PAGE <= first || beyond >= first + 10 * PAGE);
    char *rest = dp_mem_table(7 * PAGE);
    assert_ptr_equal(rest, second + PAGE);
    dp_mem_cap(dp_mem_used());
    assert_null(dp_mem_table(1));
    dp_mem_cap(64 << 20);
}

/* The cap allows more than the address space has. */
TEST(what_the_kernel_refuses_is_not_mapped)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {PAGE, PAGE};
        int n = 0;
        bool ok = !setrlimit(RLIMIT_AS, &none) && !dp_mem_map(8 << 20);
        for (char *p; n < 1000 && (p = dp_mem_map(PAGE)); n++) /* the rest of a batch */
            *p = 1;
        _exit(!ok || n == 1000);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

/* Lists of what is mapped are disjoint, and have each piece with its size; what is unmapped is in none. */
static void lists_are(char *const *pieces, const size_t *sizes, int n)
{
    uintptr_t start, other;
    size_t n_bytes, other_bytes;
    for (unsigned i = 0; i < DP_MEM_MAPPINGS; i++)
        for (unsigned k = 0; dp_mem_mapping(i, &start, &n_bytes) && k < i; k++)
            assert_true(!dp_mem_mapping(k, &other, &other_bytes) || other + other_bytes <= start ||
                        start + n_bytes <= other);
    for (int piece = 0; piece < n; piece++) {
        int n_found = 0;
        for (unsigned i = 0; i < DP_MEM_MAPPINGS; i++)
            if (dp_mem_mapping(i, &start, &n_bytes) && (uintptr_t)pieces[piece] - start < n_bytes)
                n_found += start == (uintptr_t)pieces[piece] && n_bytes == sizes[piece] ? 1 : 100;
        assert_int_equal(n_found, sizes[piece] ? 1 : 0);
    }
}

TEST(mappings_are_listed_once_with_their_sizes)
{
    enum { N = 40 };
    char *pieces[N];
    size_t sizes[N];
    for (int i = 0; i < N; i++) {
        sizes[i] = (size_t)(i % 7 == 6 ? 100 : 1 + i % 3) * PAGE;
        assert_non_null(pieces[i] = dp_mem_map(sizes[i] - (i % 2 ? 0 : PAGE - 1)));
        lists_are(pieces, sizes, i + 1);
    }
    for (int i = 0; i < N; i += 3) {
        dp_mem_unmap(pieces[i], sizes[i]);
        sizes[i] = 0;
        lists_are(pieces, sizes, N);
    }
    for (int i = 0; i < N; i++)
        dp_mem_unmap(pieces[i], sizes[i]);
}

/* Whether the mapping of p was asked to lie on huge pages; -1: this system has none. */
static int wants_huge(const void *p)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    uintptr_t from, to;
    int wants = -1;
    bool there = false;
    assert_non_null(maps);
    while (wants < 0 && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            there = (uintptr_t)p - from < to - from;
        else if (there && !strncmp(line, "VmFlags:", 8))
            wants = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return access("/sys/kernel/mm/transparent_hugepage", F_OK) ? -1 : wants;
}

TEST(only_whole_pieces_go_to_huge_pages)
{
    enum { PIECE = 2 << 20 };
    char *p = dp_mem_map(3 * PIECE);
    assert_non_null(p);
    char *first = (char *)(((uintptr_t)p + PIECE - 1) & ~(uintptr_t)(PIECE - 1));
    if (wants_huge(p) < 0)
        skip();
    dp_mem_huge(p, first + PIECE - 1 - p); /* none is whole */
    assert_int_equal(wants_huge(first), 0);
    errno = 5;
    dp_mem_huge(p, first + PIECE + 4096 - p);
    assert_int_equal(errno, 5);
    assert_int_equal(wants_huge(first), 1);
    assert_int_equal(wants_huge(first + PIECE), 0);
    dp_mem_unmap(p, 3 * PIECE);
}

UNIT(NULL, NULL)
