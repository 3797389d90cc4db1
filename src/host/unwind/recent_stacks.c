/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/recent_stacks.c - some whole stacks of a thread, found by the state of their leaf.
 *
 * The stack cache holds one stack, the last. A program that allocates from several places in turn changes the leaf
 * side of its stack with each event, and each walk steps through those frames again. Here each such stack keeps an
 * entry of its own: a walk from the same state only compares the words that the first one read.
 *
 * It gives the frames of a full walk for the reasons that stack_cache.c names: the walk is a function of its first
 * state and of the words that it reads. So the same holds here:
 * 1. The state is (pc, sp, fp); fp is left out where every rule reloads it before it is used.
 * 2. Only stacks without barred frames are kept, up to the outermost frame by its rule. All their words lie in the
 *    thread's own stack, between a live sp and its top.
 * 3. All entries are forgotten where the stack cache is: with a new generation, another stack, a longjmp out of a walk.
 *
 * An entry takes more work than a walk. It is made when two walks in a row came to its place with the same state.
 */
#include "host/unwind/recent_stacks.h"

#include "host/unwind/unwind_cache.h"

#include <string.h>

/* Adds a word that the walk read; false: there is no room. */
static bool add(struct dp_recent_stack *stack, uintptr_t address, uint64_t word)
{
    uintptr_t at = (address - stack->sp) / sizeof word;
    if (stack->n_words == DP_RECENT_WORDS || at > UINT16_MAX || address < stack->sp)
        return false;
    stack->at[stack->n_words] = (uint16_t)at;
    stack->word[stack->n_words++] = word;
    return true;
}

static bool fill(struct dp_recent_stack *stack, const struct dp_stack_cache *cache)
{
    const struct dp_stack_cache_frame *leaf = &cache->frames[cache->at];
    uint32_t n = dp_stack_cache_depth(cache);
    stack->pc = leaf->pc;
    stack->sp = leaf->sp;
    stack->fp = leaf->fp;
    stack->any_fp = !cache->live[cache->at];
    stack->known = cache->known;
    stack->depth = (uint8_t)n;
    stack->n_words = 0;
    memcpy(stack->ids, dp_stack_cache_ids(cache), n * sizeof *stack->ids);
    for (uint32_t i = cache->at + 1; i < cache->b; i++) {
        const struct dp_stack_cache_frame *frame = &cache->frames[i];
        uint32_t rule = dp_unwind_cache_rule(frame[-1].value);
        bool reads_fp = (cache->pairs[i / 64] | cache->alone[i / 64]) >> (i % 64) & 1;
        if (!add(stack, frame->sp - dp_stack_cache_ra_slot(rule), frame->pc) ||
            (reads_fp && !add(stack, frame->sp - dp_stack_cache_fp_slot(rule), frame->fp)))
            return false;
    }
    for (; stack->n_words % 4; stack->n_words++) { /* the last word once more */
        stack->at[stack->n_words] = stack->at[stack->n_words - 1];
        stack->word[stack->n_words] = stack->word[stack->n_words - 1];
    }
    return true;
}

void dp_recent_stacks_offer(struct dp_stack_cache *cache, const struct deltaprof_site *site)
{
    unsigned place = dp_recent_place(site);
    uintptr_t state = site->pc ^ site->sp << 16;
    if (cache->recent_state[place] != state) {
        cache->recent_state[place] = state;
        return;
    }
    if (!cache->generation || !cache->ended || cache->bar != cache->at || cache->n_barred ||
        dp_stack_cache_depth(cache) > DP_RECENT_FRAMES || dp_stack_cache_depth(cache) < 2)
        return;
    if (cache->n_pending)
        dp_stack_cache_assign_pending(cache, 0);
    dp_stack_cache_put(cache, cache->at, 0, 0, 0);
    cache->recent_set &= ~(1u << place);
    if (fill(&cache->recent[place], cache))
        cache->recent_set |= 1u << place;
    else
        cache->recent_state[place] = 0;
}
