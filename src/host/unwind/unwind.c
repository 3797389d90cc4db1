/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/unwind.c - chooses how to walk the calling thread's stack: by cached rules, by frame pointers, or through
 * libunwind.
 *
 * unwind=auto walks by cached rules (walk.c). If they do not suffice, it walks the whole stack again through libunwind,
 * if its module is there. unwind=libunwind always does that.
 *
 * A walk from a signal handler (dp_unwind_walk_interrupted) uses other memory than the thread's own walks, one of which
 * it may have interrupted, and never libunwind.
 *
 * Frame pointers (unwind=fp): a frame record is {caller's frame record, return address}. There is no mark that a
 * function keeps one, so each record must lie in readable memory and above the last one; otherwise the walk ends. The
 * outermost frame has a zero frame pointer.
 */
#include "host/unwind/unwind.h"

#include "host/shared/shared.h"

#include "base/process.h"
#include "base/stats.h"
#include "host/unwind/bare_code.h"
#include "host/unwind/libunwind.h"
#include "host/unwind/provided.h"
#include "host/unwind/recent_stacks.h"
#include "host/unwind/sibling.h"
#include "host/unwind/unwind_cache.h"
#include "host/unwind/walk.h"

#include <deltaprof/thread.h>

static unsigned depth_max = 128;
static enum dp_unwind_mode mode;

int dp_unwind_init(enum dp_unwind_mode wanted, unsigned depth, size_t budget_bytes)
{
    mode = wanted;
    depth_max = depth < 1 ? 1 : depth > DP_STACK_MAX ? DP_STACK_MAX : depth;
    if (mode == DP_UNWIND_LIBUNWIND)
        dp_libunwind_want();
    dp_reach_init();
    dp_bare_code_init();
    int err = dp_stack_cache_init(depth_max);
    return err ? err : dp_unwind_cache_init(budget_bytes, mode != DP_UNWIND_FP);
}

unsigned dp_unwind_depth(void)
{
    return depth_max;
}

size_t dp_unwind_scratch_bytes(void)
{
    return dp_stack_cache_bytes();
}

/* Of this walk; 0: an object is being unloaded. */
static inline uint32_t generation(void)
{
    return dp_objects_unloading() ? 0 : dp_objects_generation();
}

static const dp_frame_id no_stack = DP_FRAME_NO_STACK;

/* A stack with `depth` frames counts as cut by depth. */
static void count_cut(unsigned kind, uint32_t depth)
{
    dp_stats_add_of(depth == depth_max ? DP_STAT_STACKS_DEEP : DP_STAT_STACKS_CUT, kind, 1);
}

static void set_stack(unsigned kind, struct dp_stack *stack, const dp_frame_id *frames, uint32_t depth, bool cut)
{
    *stack = (struct dp_stack){.hash = dp_stack_hash(frames, depth), .depth = depth, .cut = cut, .frames = frames};
    if (cut)
        count_cut(kind, depth);
}

/* leaf: the first frame, if it is not that of the site's pc; else 0. */
static uint32_t walk_frame_pointers(const struct deltaprof_site *site, dp_frame_id leaf, struct dp_stack_cache *cache,
                                    bool *cut)
{
    struct dp_reach reach;
    uintptr_t *sps = dp_provided_sps(cache, depth_max);
    dp_reach_begin(&reach, &cache->own, site->sp);
    uintptr_t pc = site->pc, sp = site->sp, fp = site->fp;
    *cut = true;
    for (uint32_t n = 0;; n++) {
        if (!dp_walk_plausible(pc) || n == depth_max)
            return n;
        cache->others[n] = leaf && !n ? leaf : dp_unwind_cache_frame(dp_unwind_cache_get(pc, cache->generation));
        sps[n] = sp;
        if (!fp) {
            *cut = false;
            return n + 1;
        }
        if (fp < sp || !dp_reach_word(&reach, fp) || !dp_reach_word(&reach, fp + 8))
            return n + 1;
        pc = dp_walk_strip(dp_reach_read(fp + 8));
        sp = fp + 16;
        fp = dp_reach_read(fp);
    }
}

static void leaf_only(unsigned kind, const struct deltaprof_site *site, struct dp_stack *stack, enum dp_stat cause)
{
    static __thread dp_frame_id leaf;
    leaf = dp_walk_plausible(site->pc) ? dp_frame_intern(site->pc - 1) : 0;
    const dp_frame_id *frames = leaf ? &leaf : &no_stack;
    *stack = (struct dp_stack){.hash = dp_stack_hash(frames, 1), .depth = 1, .cut = true, .frames = frames};
    dp_stats_add_of(cause, kind, 1);
}

/* Walks by cached rules, or, if they do not suffice or are not wanted, through libunwind. */
static bool walk_exactly(unsigned kind, const struct deltaprof_site *site, struct dp_stack_cache *cache,
                         struct dp_stack *stack)
{
    enum dp_walk_end end = mode == DP_UNWIND_LIBUNWIND ? DP_WALK_LIBUNWIND : DP_WALK_CUT;
    if (end != DP_WALK_LIBUNWIND)
        end = dp_walk(cache, site, depth_max);
    if (end == DP_WALK_LIBUNWIND) {
        bool whole;
        uint32_t n = dp_libunwind_walk(cache, site, depth_max, dp_provided_sps(cache, depth_max), &whole);
        if (n) {
            set_stack(kind, stack, cache->others, n, !whole);
            return true;
        }
        if (mode == DP_UNWIND_LIBUNWIND)
            end = dp_walk(cache, site, depth_max);
    }
    uint32_t n = dp_stack_cache_depth(cache);
    if (!n)
        return false;
    if (n > depth_max)
        n = depth_max;
    struct dp_stack_known *known = &cache->known;
    if (!known->record)
        known->hash = dp_stack_cache_hash(cache, n);
    *stack = (struct dp_stack){.hash = known->hash,
                               .depth = n,
                               .cut = end != DP_WALK_WHOLE,
                               .frames = dp_stack_cache_ids(cache),
                               .known = known};
    if (stack->cut)
        count_cut(kind, n);
    return true;
}

/* Puts the frames of runtimes into the stack of a walk. */
static void add_provided(unsigned kind, struct dp_stack_cache *cache, const struct deltaprof_site *site,
                         bool interrupted, struct dp_stack *stack)
{
    bool in_cache = stack->known != NULL;
    struct dp_native_stack native = {.kind = kind,
                                     .ids = stack->frames,
                                     .depth = stack->depth,
                                     .cut = stack->cut,
                                     .guessed = mode == DP_UNWIND_FP,
                                     .interrupted = interrupted,
                                     .sps = in_cache ? NULL : dp_provided_sps(cache, depth_max)};
    if (dp_provided_merge(cache, &native, site->sp, depth_max, stack) && stack->cut && !native.cut)
        count_cut(kind, depth_max);
}

static __attribute__((noinline)) void walk(unsigned kind, struct dp_stack_cache *cache,
                                           const struct deltaprof_site *site, struct dp_stack *stack)
{
    if (!dp_shared_may_write()) { /* frames would be entered in another process's table */
        set_stack(kind, stack, &no_stack, 1, true);
        return;
    }
    if (__builtin_expect(!cache, 0)) {
        leaf_only(kind, site, stack, DP_STAT_STACKS_BUSY);
        return;
    }
    if (__builtin_expect(cache->inside, 0))
        dp_libunwind_exit(cache);
    dp_stack_cache_begin(cache, generation());
    if (mode == DP_UNWIND_FP) {
        bool cut;
        uint32_t n = walk_frame_pointers(site, 0, cache, &cut);
        if (n)
            set_stack(kind, stack, cache->others, n, cut);
        else
            leaf_only(kind, site, stack, DP_STAT_STACKS_NONE);
    } else if (!walk_exactly(kind, site, cache, stack)) {
        leaf_only(kind, site, stack, DP_STAT_STACKS_NONE);
    }
    if (__builtin_expect(dp_provided_any(), 0)) {
        if (stack->known || stack->frames == cache->others)
            add_provided(kind, cache, site, false, stack);
    } else if (stack->known && !stack->cut) {
        dp_recent_stacks_offer(cache, site);
    }
    dp_stack_cache_end(cache);
}

void dp_unwind_walk(unsigned kind, void *scratch, const struct deltaprof_site *site, struct dp_stack *stack)
{
    struct dp_stack_cache *cache = scratch;
    struct dp_recent_stack *recent = cache ? dp_recent_stacks_find(cache, site, generation()) : NULL;
    if (!recent || __builtin_expect(dp_provided_any(), 0)) {
        walk(kind, cache, site, stack);
        return;
    }
    *stack = (struct dp_stack){
        .hash = recent->known.hash, .depth = recent->depth, .frames = recent->ids, .known = &recent->known};
}

void dp_unwind_walk_interrupted(unsigned kind, void *scratch, bool is_same, const struct dp_interrupted *at,
                                struct dp_stack *stack)
{
    struct dp_stack_cache *cache = scratch;
    struct deltaprof_site site = {.pc = at->pc, .sp = at->sp, .fp = at->fp};
    if (!dp_walk_plausible(at->pc) || !dp_shared_may_write_now()) {
        set_stack(kind, stack, &no_stack, 1, true);
        return;
    }
    dp_stack_cache_begin_anew(cache, generation(), !is_same || cache->busy);
    cache->busy = 1;
    uint32_t n;
    bool cut;
    if (mode == DP_UNWIND_FP) {
        dp_frame_id leaf = dp_unwind_cache_frame(dp_unwind_cache_interrupted(at->pc, cache->generation));
        n = walk_frame_pointers(&site, leaf, cache, &cut);
    } else {
        cut = dp_walk_interrupted(cache, &site, at->link, depth_max, &n) != DP_WALK_WHOLE;
        uintptr_t *sps = dp_provided_sps(cache, depth_max); /* lies over stage, and never behind what is read next */
        for (uint32_t i = 0; i < n; i++) {
            cache->others[i] = cache->stage_ids[i];
            sps[i] = cache->stage[i].sp;
        }
    }
    set_stack(kind, stack, cache->others, n, cut);
    if (__builtin_expect(dp_provided_any(), 0))
        add_provided(kind, cache, &site, true, stack);
    dp_stack_cache_end(cache);
}

bool dp_unwind_sibling_wants_scratch(void)
{
    return dp_provided_any_waiting();
}

bool dp_unwind_walk_sibling(unsigned kind, const struct dp_sibling *at, void *scratch, dp_frame_id *frames,
                            struct dp_stack *stack)
{
    struct dp_stack_cache *cache = scratch;
    uint32_t of = generation();
    bool cut;
    if (cache)
        dp_stack_cache_begin_anew(cache, of, true);
    uintptr_t *sps = cache ? dp_provided_sps(cache, depth_max) : NULL;
    uint32_t n = of ? dp_sibling_walk(at, of, frames, sps, depth_max, &cut) : 0;
    if (!n || !at->is_there(at->ctx))
        return false;
    set_stack(kind, stack, frames, n, cut);
    struct dp_native_stack native = {
        .kind = kind, .ids = frames, .depth = n, .cut = cut, .waiting = at->tid, .sps = sps};
    if (!cache || !dp_provided_merge(cache, &native, at->sp, depth_max, stack))
        return true;
    return at->is_there(at->ctx);
}

bool dp_unwind_wants_module(void)
{
    return dp_libunwind_wanted();
}

int dp_unwind_load_module(void)
{
    return dp_libunwind_load();
}

void dp_unwind_fork_prepare(const void *scratch)
{
    dp_libunwind_fork_prepare(scratch);
}

void dp_unwind_fork_parent(void)
{
    dp_libunwind_fork_parent();
}

DP_IN_CHILD void dp_unwind_fork_child(const void *scratch)
{
    dp_libunwind_fork_child(scratch);
    dp_objects_fork_child();
}
