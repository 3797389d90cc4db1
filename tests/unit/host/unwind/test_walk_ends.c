/* SPDX-License-Identifier: MIT */
/* Where walks end: at the outermost frame, at unmapped memory, at code without unwind data, at wrong frame pointers. */
#include "walk_stacks.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static __attribute__((noinline)) void here(struct deltaprof_site *site)
{
    *site = DELTAPROF_SITE_CALLER();
}

static __attribute__((noinline)) uint32_t nested(int depth, struct dp_stack *stack)
{
    if (depth) {
        volatile uint32_t kept = nested(depth - 1, stack); /* no tail call, no loop */
        return kept + 1;
    }
    struct deltaprof_site site;
    here(&site);
    walk(0, &site, stack);
    return 1;
}

TEST(a_real_stack_ends_at_its_outermost_frame)
{
    struct dp_stack stack;
    nested(4, &stack);
    assert_false(stack.cut);
    assert_true(stack.depth > 8);
    for (uint32_t i = 0; i < stack.depth; i++) {
        Dl_info info;
        const struct dp_frame *frame = dp_frame_get(stack.frames[i]);
        assert_true(dladdr((void *)frame->pc, &info));
        assert_true(frame->object != 0);
    }
    uint64_t cut = dp_stats_read(DP_STAT_STACKS_CUT), deep = dp_stats_read(DP_STAT_STACKS_DEEP);
    nested(50, &stack);
    assert_true(stack.cut);
    assert_int_equal(stack.depth, DEPTH);
    assert_int_equal(dp_stats_read(DP_STAT_STACKS_CUT), cut);
    assert_int_equal(dp_stats_read(DP_STAT_STACKS_DEEP), deep + 1);
}

TEST(only_the_stack_of_a_thread_counts_as_its_own)
{
    /* Right below the first thread's control block, so that there are only mapped pages in between. */
    uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t below = self & ~(uintptr_t)4095;
    while (msync((void *)(below - 4096), 4096, MS_ASYNC) == 0)
        below -= 4096;
    size_t n_bytes = 2 << 12;
    char *area = mmap((void *)(below - n_bytes), n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (area != (char *)(below - n_bytes))
        skip(); /* something is too near */
    struct deltaprof_site site = {pcs[0], (uintptr_t)area + 64, 0};
    expect_equal(&site);
    struct dp_stack_cache *cache = blocks[0];
    assert_false((uintptr_t)area >= cache->own.lo && (uintptr_t)area < cache->own.hi);
    munmap(area + 4096, n_bytes - 4096);
    for (uintptr_t *at = (uintptr_t *)area; at < (uintptr_t *)(area + 4096); at++)
        *at = pcs[(at - (uintptr_t *)area) % n_pcs];
    expect_equal(&site);
    munmap(area, 4096);
    here(&site);
    expect_equal(&site);
    assert_true((uintptr_t)&site >= cache->own.lo && (uintptr_t)&site < cache->own.hi);
}

TEST(a_walk_stops_before_unmapped_memory)
{
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *area = (uint64_t *)pages;
    mprotect(pages + 2 * 4096, 4096, PROT_NONE);
    for (int turn = 0; turn < 20000; turn++) {
        for (int i = 0; i < 1024; i++)
            if (turn % 64 == 0 || below(16) == 0)
                area[i] = below(2) ? pcs[below(n_pcs)] : (uint64_t)&area[below(2048)];
        struct deltaprof_site site = {pcs[below(n_pcs)], (uintptr_t)&area[below(1024)], (uintptr_t)&area[below(2048)]};
        struct dp_stack stack;
        walk(turn & 1, &site, &stack);
        assert_true(stack.depth >= 1);
    }
    munmap(pages, 4 * 4096);
}

static struct dp_stack jit_stack;

static void called_by_jit(void)
{
    struct deltaprof_site site;
    here(&site);
    walk(0, &site, &jit_stack);
}

TEST(code_without_unwind_data_ends_the_walk)
{
#if defined(__x86_64__)
    /* push rbp; xor ebp, ebp; sub $16; call *%rdi; add $16; pop rbp; ret: no frame pointer leads on */
    static const unsigned char code[] = {0x55, 0x31, 0xed, 0x48, 0x83, 0xec, 0x10, 0xff,
                                         0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
    const uintptr_t called_at = 9; /* where the call returns to */
#else
    /* stp x29, x30, [sp, #-16]!; mov x29, xzr; blr x0; ldp x29, x30, [sp], #16; ret */
    static const uint32_t code[] = {0xa9bf7bfd, 0xaa1f03fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
    const uintptr_t called_at = 12;
#endif
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    __builtin___clear_cache((char *)page, (char *)page + sizeof code);
    uint64_t cut = dp_stats_read(DP_STAT_STACKS_CUT);
    for (int i = 0; i < 3; i++) {
        ((void (*)(void (*)(void)))page)(called_by_jit);
        assert_int_equal(jit_stack.depth, 2);
        assert_true(jit_stack.cut);
        assert_int_equal(dp_frame_get(jit_stack.frames[1])->pc, (uintptr_t)page + called_at - 1);
        assert_int_equal(dp_frame_get(jit_stack.frames[1])->object, 0);
    }
    assert_int_equal(dp_stats_read(DP_STAT_STACKS_CUT), cut + 3);
    munmap(page, 4096);
}

/* In children, because an init is not undone. */
TEST(an_init_without_enough_memory_is_an_error)
{
    int result = 1, n_pages = 0;
    for (; result == 1; n_pages++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            dp_mem_cap(dp_mem_used() + (size_t)n_pages * dp_page_bytes());
            int err = dp_unwind_init(DP_UNWIND_AUTO, DEPTH, 64 << 10);
            _exit(!err ? 0 : err == -ENOMEM ? 1 : 2);
        }
        assert_true(child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result));
        result = WEXITSTATUS(result);
    }
    assert_int_equal(result, 0);
    assert_true(n_pages > 2);
}

/* Must be the last test: from here on walks use frame pointers only. */
TEST(wrong_frame_pointers_end_the_walk)
{
    assert_int_equal(dp_unwind_init(DP_UNWIND_FP, DEPTH, 1 << 20), 0);
    uintptr_t area[WORDS] = {0};
    struct dp_stack stack;
    for (unsigned i = 0; i < 10; i++) { /* ten correct records, 16 words apart */
        area[16 * i] = i == 9 ? 0 : (uintptr_t)&area[16 * (i + 1)];
        area[16 * i + 1] = pcs[i];
    }
    struct deltaprof_site site = {pcs[99], (uintptr_t)area, (uintptr_t)area};
    walk(0, &site, &stack);
    assert_int_equal(stack.depth, 11);
    assert_false(stack.cut);
    for (unsigned i = 1; i < 10; i++)
        assert_int_equal(dp_frame_get(stack.frames[i])->pc, pcs[i - 1] - 1);

    static const uintptr_t lies[] = {
        1, 8, 4096, 0x7fffffffe000, 0xffffffffff600000, (uintptr_t)1 << 63, UINTPTR_MAX - 7, UINTPTR_MAX};
    for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
        area[16 * 4] = lies[i];
        walk(0, &site, &stack);
        assert_int_equal(stack.depth, 6);
        assert_true(stack.cut);
    }
    area[16 * 4] = (uintptr_t)&area[16 * 2]; /* back again */
    walk(0, &site, &stack);
    assert_int_equal(stack.depth, 6);
    for (unsigned turn = 0; turn < 100000; turn++) {
        area[below(160)] = below(3) ? (uintptr_t)&area[below(200)] : below(2) ? next_random() : pcs[below(n_pcs)];
        site.fp = below(8) ? (uintptr_t)area : next_random();
        walk(0, &site, &stack);
        assert_true(stack.depth >= 1 && stack.depth <= DEPTH);
        assert_int_equal(stack.hash, dp_stack_hash(stack.frames, stack.depth));
    }
}

UNIT(set_up, NULL)
