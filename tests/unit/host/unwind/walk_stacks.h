/* SPDX-License-Identifier: MIT */
/*
 * walk_stacks.h - for tests that write a stack word by word, from return addresses in libc whose unwind rules are
 * known, and walk it.
 */
#pragma once

#include "support/unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "host/objects/frames.h"
#include "host/thread/thread.h"
#include "host/unwind/rule.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/unwind.h"

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

/*
 * On aarch64 nearly each function saves the frame pointer and the link register beside each other. A function that
 * saves neither calls none.
 */
#if defined(__aarch64__)
enum { SLOTS_ARE_RARE = 0, SMALL_WORDS = 2 /* of the smallest frame that calls */ };
static bool is_leaf(uint32_t rule)
{
    return dp_rule_ra(rule) == DP_RULE_RA_LINK;
}
#else
enum { SLOTS_ARE_RARE = 1, SMALL_WORDS = 1 };
static bool is_leaf(uint32_t rule)
{
    return false;
}
#endif

/* Collects return addresses whose rules take small steps, of each shape. */
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
        if ((!fp && dp_rule_kind(rule) != DP_RULE_SP) || dp_rule_offset(rule) < 8 || dp_rule_offset(rule) > 80 ||
            is_leaf(rule))
            continue;
        if (fp ? by_fp++ > n_pcs / 6 : SLOTS_ARE_RARE && slot ? by_slot++ > n_pcs / 3 : 0)
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

static void walk(int which, const struct deltaprof_site *site, struct dp_stack *stack)
{
    dp_thread_self()->scratch = blocks[which];
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), site, stack);
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
