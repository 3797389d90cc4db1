/* SPDX-License-Identifier: MIT */
/* Walks with the stack cache equal walks with an empty one, whatever the cache has from earlier walks. */
#include "walk_stacks.h"

#include <sys/mman.h>

#include "host/unwind/unwind_cache.h"

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

TEST(a_walk_with_the_cache_equals_a_walk_without)
{
    uint64_t area[WORDS]; /* on this thread's own stack, where walks may join the cached one */
    memset(area, 0, sizeof area);
    for (int round = 0; round < 40; round++)
        change_and_compare(area, 10000, round % 4 == 0);
    print_message("%llu stacks, %.1f frames each\n", (unsigned long long)changes,
                  (double)depth_total / (double)changes);
    assert_true(depth_total / changes >= 4);
}

TEST(recursion_beyond_the_depth_is_followed_up_and_down)
{
    uint64_t area[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        area[i] = i > WORDS - 64 ? end_pc : pcs[below(64)];
    unsigned sp = WORDS / 2;
    for (int turn = 0; turn < 100000; turn++) {
        unsigned far = turn / 8192 % 2 ? 96 : 8; /* short steps for a while, then long ones */
        sp += turn / 1024 % 2 ? below(far) : 0;
        sp -= turn / 1024 % 2 ? 0 : below(far);
        sp = sp < 96 ? 96 : sp > WORDS - 72 ? WORDS - 72 : sp;
        if (turn % 512 == 0)
            area[below(WORDS - 64)] = pcs[below(64)];
        struct deltaprof_site site = {pcs[turn / 512 % 4], (uintptr_t)&area[sp], (uintptr_t)&area[WORDS - 70]};
        expect_equal(&site);
    }
}

TEST(a_walk_on_another_stack_equals_too)
{
    uint64_t *area = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 4; round++)
        change_and_compare(area, 2000, round % 2);
    munmap(area, WORDS * 8);
}

static uint32_t rule_of(unsigned i)
{
    return dp_unwind_cache_rule(dp_unwind_cache_get(pcs[i], 0));
}

TEST(a_stack_whose_end_moves_to_the_depth_is_whole)
{
    uint64_t area[(DEPTH + 8) * SMALL_WORDS];
    unsigned small = 0;
    while (dp_rule_offset(rule_of(small)) != 8 * SMALL_WORDS || dp_rule_kind(rule_of(small)) != DP_RULE_SP)
        small++;
    for (unsigned i = 0; i < (DEPTH + 8) * SMALL_WORDS; i++)
        area[i] = pcs[small];
    struct deltaprof_site site = {pcs[small], (uintptr_t)&area[2 * SMALL_WORDS], 0};
    expect_equal(&site);
    site.sp = (uintptr_t)area; /* two calls deeper, which do not fit into the depth */
    expect_equal(&site);
    area[DEPTH * SMALL_WORDS - 1] = 0; /* the word behind the last frame that counts */
    expect_equal(&site);
    struct dp_stack stack;
    walk(0, &site, &stack);
    assert_int_equal(stack.depth, DEPTH);
    assert_false(stack.cut);
}

/*
 * A frame may lead back down the stack, and a walk may take only a limited number of such turns. If a walk ends at a
 * turn because of that limit, a later walk that begins there may take it in its first step. A third walk, which reaches
 * that frame after as many turns as are allowed, must not get past it, whatever the cache has.
 */
TEST(turns_count_whatever_the_cache_has)
{
#if !defined(__x86_64__)
    skip(); /* its frames are those of x86_64 */
#endif
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

    area[LOOP + 1] = pcs[by_fp]; /* its CFA is below its sp: back to small, and to by_fp again */
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

TEST(a_walk_left_by_longjmp_is_forgotten)
{
    uint64_t area[64];
    for (int i = 0; i < 64; i++)
        area[i] = pcs[i];
    struct deltaprof_site site = {pcs[0], (uintptr_t)area, (uintptr_t)area};
    expect_equal(&site);
    struct dp_stack_cache *cache = blocks[0];
    cache->busy = 1; /* as while a handler interrupts a walk */
    memset(cache->frames, 0x55, 4096);
    cache->own.hi = 1;
    expect_equal(&site);
    expect_equal(&site);
}

UNIT(set_up, NULL)
