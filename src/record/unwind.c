/* SPDX-License-Identifier: MIT */
/*
 * record/unwind.c - walks the calling thread's stack.
 *
 * Frame pointers (unwind=fp): a frame record is {caller's frame record, return address}. Nothing says whether a
 * function keeps one, so records must lie in readable memory and rise strictly, and the walk ends where one does not. The outermost
 * frame has a zero frame pointer.
 */
#include "record/unwind.h"

#include "base/stats.h"
#include "record/reach.h"
#include "record/recipe.h"
#include "record/thread.h"

#include <deltaprof/hooks.h>

/* A thread's block. */
struct scratch {
    struct dp_own_stack own;
    dp_frame_id frames[];
};

enum { ADDRESS_BITS = 48, PC_LOWEST = 4096 };

static unsigned depth_max = 128;

int dp_unwind_init(enum dp_unwind_mode mode, unsigned depth, size_t budget_bytes)
{
    depth_max = depth < 1 ? 1 : depth > DP_STACK_MAX ? DP_STACK_MAX : depth;
    return dp_recipe_init(budget_bytes, mode != DP_UNWIND_FP);
}

size_t dp_unwind_scratch_bytes(void)
{
    return sizeof(struct scratch) + depth_max * sizeof(dp_frame_id);
}

/* Whether a return address may be one at all, and its key has room for the generation. */
static bool plausible(uintptr_t pc)
{
    return pc >= PC_LOWEST && pc >> ADDRESS_BITS == 0;
}

/* Return addresses as they lie in memory, without their authentication code. */
static uintptr_t strip(uintptr_t pc)
{
#if defined(__aarch64__)
    return (uintptr_t)__builtin_extract_return_addr((void *)pc);
#else
    return pc;
#endif
}

static uint32_t walk_frame_pointers(const struct deltaprof_site *site, struct scratch *s, uint32_t *cut)
{
    struct dp_reach reach;
    dp_reach_begin(&reach, &s->own, site->sp);
    uint64_t generation = dp_objects_generation();
    uintptr_t pc = site->pc, sp = site->sp, fp = site->fp;
    for (uint32_t n = 0;; n++) {
        if (!plausible(pc)) {
            *cut = 1;
            return n;
        }
        if (n == depth_max) {
            *cut = 1;
            return n;
        }
        s->frames[n] = dp_recipe_frame(dp_recipe_get(pc - 1, DP_RECIPE_KEY(pc - 1, generation)));
        if (!fp)
            return n + 1;
        if (fp < sp || !dp_reach_word(&reach, fp) || !dp_reach_word(&reach, fp + 8)) {
            *cut = 1;
            return n + 1;
        }
        pc = strip(((const uintptr_t *)fp)[1]);
        sp = fp + 16;
        fp = ((const uintptr_t *)fp)[0];
    }
}

static void leaf_only(const struct deltaprof_site *site, struct dp_stack *stack)
{
    static const dp_frame_id none = DP_FRAME_NO_STACK;
    static __thread dp_frame_id leaf;
    leaf = plausible(site->pc) ? dp_frame_intern(site->pc - 1) : 0;
    *stack = (struct dp_stack){.depth = 1, .cut = 1, .frames = leaf ? &leaf : &none};
    stack->hash = dp_stack_hash(stack->frames, 1);
    dp_stats_add(DP_STAT_STACKS_NONE, 1);
}

void dp_unwind_walk(const struct deltaprof_site *site, struct dp_stack *stack)
{
    struct scratch *s = dp_thread_scratch();
    if (!s) {
        leaf_only(site, stack);
        return;
    }
    uint32_t cut = 0, n = walk_frame_pointers(site, s, &cut);
    if (!n) {
        leaf_only(site, stack);
        return;
    }
    if (cut)
        dp_stats_add(DP_STAT_STACKS_CUT, 1);
    *stack = (struct dp_stack){.hash = dp_stack_hash(s->frames, n), .depth = n, .cut = cut, .frames = s->frames};
}

void dp_unwind_from_values(const uintptr_t *values, size_t n, struct dp_stack *stack)
{
    struct scratch *s = dp_thread_scratch();
    static const dp_frame_id none = DP_FRAME_NO_STACK;
    if (!s || !n) {
        *stack = (struct dp_stack){.depth = 1, .cut = 1, .frames = &none, .hash = dp_stack_hash(&none, 1)};
        dp_stats_add(DP_STAT_STACKS_NONE, 1);
        return;
    }
    uint32_t depth = n < depth_max ? (uint32_t)n : depth_max;
    for (uint32_t i = 0; i < depth; i++) {
        dp_frame_id id = dp_frame_intern_named(values[i]);
        s->frames[i] = id ? id : DP_FRAME_NO_STACK;
    }
    *stack = (struct dp_stack){.hash = dp_stack_hash(s->frames, depth), .depth = depth, .cut = depth < n, .frames = s->frames};
    if (stack->cut)
        dp_stats_add(DP_STAT_STACKS_CUT, 1);
}

int dp_unwind_wants_module(void)
{
    return 0;
}

int dp_unwind_load_module(void)
{
    return 0;
}

void dp_unwind_fork_prepare(void)
{
}

void dp_unwind_fork_parent(void)
{
}

void dp_unwind_fork_child(void)
{
    dp_objects_fork_child();
}
