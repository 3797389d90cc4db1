/* SPDX-License-Identifier: MIT */
/*
 * Walks over stacks that the test writes itself, word by word, out of return addresses into libc whose rules are known:
 * whatever the stack cache remembers, a walk with it equals a walk without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "objects/frames.h"
#include "store/thread.h"
#include "unwind/rule.h"
#include "unwind/stack_cache.h"
#include "unwind/unwind.h"
#include "unwind/unwind_cache.h"

enum { DEPTH = 24, PCS = 4096, WORDS = 4096 };

static uintptr_t pcs[PCS], end_pc;
static unsigned n_pcs;
static void *blocks[2];
static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() >> 33) % n;
}

/* Return addresses whose rules take small steps, of each shape. */
static void collect(void)
{
    const struct dp_object *o = dp_object_get(dp_object_find((uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
    struct dp_cfi cfi = {(uintptr_t)o->eh_frame_hdr, o->fde_table, o->n_fdes, o->cfi_start, o->cfi_end};
    unsigned by_fp = 0, by_slot = 0;
    while (n_pcs < PCS) {
        uintptr_t pc = cfi.hdr + (uintptr_t)(intptr_t)cfi.fdes[2 * below(cfi.n_fdes)] + below(200);
        struct dp_cfi_row row;
        if (dp_cfi_find(&cfi, pc, &row) <= 0)
            continue;
        uint32_t rule = dp_rule_make(&row, pc);
        if (dp_rule_kind(rule) == DP_RULE_END)
            end_pc = pc + 1;
        bool fp = dp_rule_kind(rule) == DP_RULE_FP, slot = dp_rule_slot(rule) != 0;
        if ((!fp && dp_rule_kind(rule) != DP_RULE_SP) || dp_rule_offset(rule) < 8 || dp_rule_offset(rule) > 80)
            continue;
        if (fp ? by_fp++ > n_pcs / 6 : slot ? by_slot++ > n_pcs / 3 : 0)
            continue;
        pcs[n_pcs++] = pc + 1;
    }
}

static int set_up(void **state)
{
    assert_int_equal(dp_frames_init(16 << 20), 0);
    assert_int_equal(dp_unwind_init(DP_UNWIND_AUTO, DEPTH, 1 << 20), 0);
    for (int i = 0; i < 2; i++)
        blocks[i] = calloc(1, dp_unwind_scratch_bytes());
    dp_thread_self()->state = DP_THREAD_READY;
    collect();
    return 0;
}

static unsigned clean; /* percent of words that are return addresses */

static uint64_t some_word(uint64_t *area)
{
    unsigned kind = below(100);
    if (kind < clean)
        return pcs[below(64 + below(n_pcs - 64))];
    if (kind < clean + 4 && kind < 96)
        return (uint64_t)&area[64 * below(WORDS / 64)];
    return kind <= 95   ? 0
           : kind == 96 ? end_pc
           : kind == 97 ? 0x123456789
           : kind == 98 ? UINT64_MAX
                        : (uint64_t)&area[below(WORDS)];
}

static void walk(int which, const struct deltaprof_site *site, struct dp_stack *stack)
{
    dp_thread_self()->scratch = blocks[which];
    dp_unwind_walk(dp_thread_scratch(), site, stack);
    dp_thread_self()->scratch = NULL;
}

static void expect_equal(const struct deltaprof_site *site)
{
    struct dp_stack with, without;
    memset(blocks[1], 0, 64);
    walk(1, site, &without);
    walk(0, site, &with);
    assert_int_equal(with.depth, without.depth);
    assert_memory_equal(with.frames, without.frames, with.depth * sizeof *with.frames);
    assert_int_equal(with.cut != 0, without.cut != 0);
    assert_int_equal(with.hash, without.hash);
    assert_int_equal(with.hash, dp_stack_hash(with.frames, with.depth));
}

static uint64_t depth_total, changes;

static void change_and_compare(uint64_t *area, unsigned turns, bool deep)
{
    clean = deep ? 98 : 88;
    for (unsigned i = 0; i < WORDS; i++)
        area[i] = some_word(area);
    clean = deep ? 97 : 85;
    unsigned sp = deep ? 64 : WORDS - 256;
    uintptr_t fp = (uintptr_t)&area[sp + 8], pc = pcs[0];
    uintptr_t fps[2] = {fp, fp + 256};
    for (unsigned turn = 0; turn < turns; turn++) {
        for (unsigned n_ops = 1 + below(3); n_ops > 0; n_ops--) {
            switch (below(deep ? 5 : 8)) {
            case 0: /* a return or a call: sp moves */
                sp += below(24);
                sp -= below(24);
                sp = sp < 16 ? 16 : sp > WORDS - 80 ? WORDS - 80 : sp;
                break;
            case 1:
            case 2:
                fp = fps[below(2)];
                break;
            case 3:
                pc = pcs[below(16)];
                break;
            case 4:
                if (below(16))
                    break;
                for (unsigned n = below(40); n > 0; n--)
                    area[below(WORDS)] = some_word(area);
                fps[below(2)] = (uintptr_t)&area[sp + below(WORDS - sp)];
                break;
            default:
                area[sp + below(60)] = some_word(area); /* near the walk */
            }
        }
        struct deltaprof_site site = {pc, (uintptr_t)&area[sp], fp};
        expect_equal(&site);
        struct dp_stack stack;
        walk(0, &site, &stack);
        depth_total += stack.depth;
        changes++;
    }
}

static void a_walk_with_a_memo_equals_a_walk_without(void **state)
{
    uint64_t area[WORDS]; /* on this thread's own stack, where joins are allowed */
    memset(area, 0, sizeof area);
    for (int round = 0; round < 40; round++)
        change_and_compare(area, 10000, round % 4 == 0);
    print_message("%llu stacks, %.1f frames each\n", (unsigned long long)changes,
                  (double)depth_total / (double)changes);
    assert_true(depth_total / changes >= 4);
}

static void recursion_beyond_the_depth_is_followed_up_and_down(void **state)
{
    uint64_t area[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        area[i] = i > WORDS - 64 ? end_pc : pcs[below(64)];
    unsigned sp = WORDS / 2;
    for (int turn = 0; turn < 100000; turn++) {
        unsigned far = turn / 8192 % 2 ? 96 : 8; /* creeps for a while, then jumps about */
        sp += turn / 1024 % 2 ? below(far) : 0;
        sp -= turn / 1024 % 2 ? 0 : below(far);
        sp = sp < 96 ? 96 : sp > WORDS - 72 ? WORDS - 72 : sp;
        if (turn % 512 == 0)
            area[below(WORDS - 64)] = pcs[below(64)];
        struct deltaprof_site site = {pcs[turn / 512 % 4], (uintptr_t)&area[sp], (uintptr_t)&area[WORDS - 70]};
        expect_equal(&site);
    }
}

static void a_walk_on_another_stack_equals_too(void **state)
{
    uint64_t *area = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 4; round++)
        change_and_compare(area, 2000, round % 2);
    munmap(area, WORDS * 8);
}

static __attribute__((noinline)) void here(struct deltaprof_site *site)
{
    *site = DELTAPROF_SITE_CALLER();
}

static void only_the_stack_of_a_thread_counts_as_its_own(void **state)
{
    /* Right below the first thread's control block, so that nothing but pages that are there lies in between. */
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

static void a_walk_stops_before_memory_that_is_not_there(void **state)
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

static void a_stack_that_comes_to_end_at_the_depth_is_whole(void **state)
{
    uint64_t area[DEPTH + 8];
    unsigned small = 0;
    while (dp_rule_offset(dp_unwind_cache_rule(dp_unwind_cache_get(pcs[small], 0))) != 8 ||
           dp_rule_kind(dp_unwind_cache_rule(dp_unwind_cache_get(pcs[small], 0))) != DP_RULE_SP)
        small++;
    for (unsigned i = 0; i < DEPTH + 8; i++)
        area[i] = pcs[small];
    struct deltaprof_site site = {pcs[small], (uintptr_t)&area[2], 0};
    expect_equal(&site);
    site.sp = (uintptr_t)area; /* two calls deeper, of which the depth has no room */
    expect_equal(&site);
    area[DEPTH - 1] = 0; /* the word behind the last frame that counts */
    expect_equal(&site);
    struct dp_stack stack;
    walk(0, &site, &stack);
    assert_int_equal(stack.depth, DEPTH);
    assert_false(stack.cut);
}

static uint32_t rule_of(unsigned i)
{
    return dp_unwind_cache_rule(dp_unwind_cache_get(pcs[i], 0));
}

/*
 * A walk may end at a frame that turns back, because it turned too often; the next one goes on from there, and so turns
 * in its first step. A third one, that has turned as often as it may before it comes there, must not get across.
 */
static void turns_count_however_a_walk_came_to_them(void **state)
{
    enum { TURNS = 8, LOOP = 100 };
    uint64_t area[192];
    unsigned small = 0, wide = 0, by_fp = 0;
    while (dp_rule_kind(rule_of(small)) != DP_RULE_SP || dp_rule_offset(rule_of(small)) != 8)
        small++;
    while (dp_rule_kind(rule_of(wide)) != DP_RULE_SP || dp_rule_offset(rule_of(wide)) < 64 ||
           dp_rule_slot(rule_of(wide)))
        wide++;
    while (dp_rule_kind(rule_of(by_fp)) != DP_RULE_FP || dp_rule_slot(rule_of(by_fp)) != 16)
        by_fp++;
    unsigned hop = (unsigned)dp_rule_offset(rule_of(wide)) / 8, up = (unsigned)dp_rule_offset(rule_of(by_fp)) / 8;
    for (unsigned i = 0; i < 192; i++)
        area[i] = pcs[small];

    area[LOOP + 1] = pcs[by_fp]; /* whose CFA is below its sp: back to small, and to by_fp again */
    area[LOOP - 1] = (uintptr_t)&area[LOOP + 1 - up];
    struct deltaprof_site site = {pcs[small], (uintptr_t)&area[LOOP + 1], area[LOOP - 1]};
    expect_equal(&site);
    area[LOOP] = pcs[wide]; /* back, and from there upwards */
    expect_equal(&site);

    unsigned at = LOOP + 1;
    for (unsigned turn = 1; turn <= TURNS; turn++) {
        at -= hop;
        area[at] = pcs[wide]; /* on the way up */
        area[at - 1] = turn < TURNS ? pcs[by_fp] : pcs[small];
        area[at - 2] = (uintptr_t)&area[turn < TURNS ? at - hop - up : LOOP + 1 - up];
    }
    struct deltaprof_site turning = {pcs[by_fp], (uintptr_t)&area[LOOP + 2 - hop],
                                     (uintptr_t)&area[LOOP + 1 - hop - up]};
    expect_equal(&turning);
}

static struct dp_stack jit_stack;

static void called_by_jit(void)
{
    struct deltaprof_site site;
    here(&site);
    walk(0, &site, &jit_stack);
}

static void code_without_unwind_data_ends_the_walk(void **state)
{
#if defined(__x86_64__)
    /* push rbp; xor ebp, ebp; sub $16; call *%rdi; add $16; pop rbp; ret: no frame pointer leads on */
    static const unsigned char code[] = {0x55, 0x31, 0xed, 0x48, 0x83, 0xec, 0x10, 0xff,
                                         0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    uint64_t cut = dp_stats_read(DP_STAT_STACKS_CUT);
    for (int i = 0; i < 3; i++) {
        ((void (*)(void (*)(void)))page)(called_by_jit);
        assert_int_equal(jit_stack.depth, 2);
        assert_true(jit_stack.cut);
        assert_int_equal(dp_frame_get(jit_stack.frames[1])->pc, (uintptr_t)page + 8);
        assert_int_equal(dp_frame_get(jit_stack.frames[1])->object, 0);
    }
    assert_int_equal(dp_stats_read(DP_STAT_STACKS_CUT), cut + 3);
    munmap(page, 4096);
#endif
}

/* The last test: from here on there are only frame pointers. */
static void frame_pointers_that_lie_end_the_walk(void **state)
{
    assert_int_equal(dp_unwind_init(DP_UNWIND_FP, DEPTH, 1 << 20), 0);
    uintptr_t area[WORDS] = {0};
    struct dp_stack stack;
    for (unsigned i = 0; i < 10; i++) { /* ten records that are true, 16 words apart */
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

static void a_walk_left_by_longjmp_is_forgotten(void **state)
{
    uint64_t area[64];
    for (int i = 0; i < 64; i++)
        area[i] = pcs[i];
    struct deltaprof_site site = {pcs[0], (uintptr_t)area, (uintptr_t)area};
    expect_equal(&site);
    struct dp_stack_cache *cache = blocks[0];
    cache->busy = 1; /* as it stands while a handler runs in the middle */
    memset(cache->frames, 0x55, 4096);
    cache->own.hi = 1;
    expect_equal(&site);
    expect_equal(&site);
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

static void a_real_stack_ends_at_its_outermost_frame(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_stack_ends_at_its_outermost_frame),
        cmocka_unit_test(a_walk_with_a_memo_equals_a_walk_without),
        cmocka_unit_test(recursion_beyond_the_depth_is_followed_up_and_down),
        cmocka_unit_test(a_walk_on_another_stack_equals_too),
        cmocka_unit_test(only_the_stack_of_a_thread_counts_as_its_own),
        cmocka_unit_test(a_walk_stops_before_memory_that_is_not_there),
        cmocka_unit_test(a_stack_that_comes_to_end_at_the_depth_is_whole),
        cmocka_unit_test(turns_count_however_a_walk_came_to_them),
        cmocka_unit_test(a_walk_left_by_longjmp_is_forgotten),
        cmocka_unit_test(code_without_unwind_data_ends_the_walk),
        cmocka_unit_test(frame_pointers_that_lie_end_the_walk),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
