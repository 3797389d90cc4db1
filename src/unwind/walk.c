/* SPDX-License-Identifier: MIT */
/*
 * unwind/walk.c - walks a stack by cached rules. For each frame: look up its rule, compute the CFA, read the caller's
 * pc from the stack.
 *
 * The cost of a frame is a chain of dependent loads: the return address gives the row, the row the CFA, the CFA the
 * next return address. All else (bounds, the search for a position to join the stack cache, storing the state) runs in
 * parallel in the processor. `advance` is the fast path: common rules only, all state in registers, no calls. `run`
 * handles every other case and calls `advance` again.
 *
 * A walk has three kinds of parts: frames found by stepping (staged), frames taken over from the middle of the stack
 * cache (staged too, with their true fp), and the rest of the stack cache, which keeps its positions. It ends after
 * `depth` frames at the latest. sp may go backwards, as it does where code runs on another stack, at most TURNS_MAX
 * times.
 */
#include "unwind/walk.h"

#include "unwind/walk_hosted.h"

static inline void enter(struct walk *w, struct dp_stack_cache *cache, uint64_t value)
{
    cache->stage[w->n] = (struct dp_stack_cache_frame){.fp = w->fp, .pc = w->pc, .sp = w->sp, .value = value};
    cache->stage_ids[w->n++] = dp_unwind_cache_frame(value);
    w->hash = w->hash * DP_STACK_BASE + dp_unwind_cache_frame(value);
    w->value = value;
    w->tried = false;
}

/* Copies the frames at positions [at, last] into stage, with the fp that they have in this walk. */
static void take_over(struct walk *w, struct dp_stack_cache *cache, uint32_t at, uint32_t last)
{
    for (uint32_t i = at; i <= last; i++) {
        uintptr_t slot = i == at ? 0 : dp_stack_cache_fp_slot(dp_unwind_cache_rule(cache->frames[i - 1].value));
        w->pc = cache->frames[i].pc;
        w->sp = cache->frames[i].sp;
        if (slot)
            w->fp = dp_reach_read(w->sp - slot);
        enter(w, cache, cache->frames[i].value);
    }
}

/*
 * The next frame has the candidate's pc and sp. True: it is the candidate, at position *at; the frames up to *last are
 * still as remembered. *end bounds the frames that were compared: those that fit in stage.
 */
static bool join(struct walk *w, struct dp_stack_cache *cache, uint32_t *at, uint32_t *end, uint32_t *last)
{
    const struct dp_stack_cache_frame *c = w->candidate;
    w->tried = true;
    if (w->n == w->limit)
        return false;
    if (c >= cache->pending && c <= cache->pending + cache->n_pending)
        w->candidate = &cache->frames[dp_stack_cache_assign(cache, (uint32_t)(c - cache->pending))];
    *at = (uint32_t)(w->candidate - cache->frames);
    if (cache->frames[*at].fp != w->fp && cache->live[*at])
        return false;
    *end = cache->b - *at > w->limit - w->n ? *at + w->limit - w->n : cache->b;
    *last = dp_stack_cache_verify(cache, *at, *end);
    if (w->foreign) { /* now back on the thread's own stack */
        w->n_barred = w->n;
        w->reach.lo = w->reach.own->lo;
        w->reach.hi = w->reach.own->hi;
        w->foreign = false;
    }
    return true;
}

/* The first frame of the stack cache, from the candidate rootward, that does not lie below sp. */
static inline const struct dp_stack_cache_frame *pass(const struct dp_stack_cache *cache,
                                                      const struct dp_stack_cache_frame *c, uintptr_t sp)
{
    while (c->sp < sp)
        c = c == cache->pending + cache->n_pending ? &cache->frames[cache->at + 1] : c + 1;
    return c;
}

enum halt {
    AT_CANDIDATE, /* the next frame has the candidate's pc and sp */
    AT_LIMIT,     /* stage is full */
    NO_ROW,       /* the next frame has no row in the unwind cache */
    AT_RULE       /* the rule of the frame entered last is not a common one */
};

/*
 * The fast path: enters frames and steps, by common rules only.
 *
 * x86_64: with the usual rules all words of a step lie at or above its base. If the base lies in the readable range,
 * one comparison is left: the CFA against the range's end. If fp was not saved, the word at the CFA is read and not
 * used, because a branch there could not be predicted.
 */
static __attribute__((noinline)) enum halt advance(struct walk *w, struct dp_stack_cache *cache)
{
    _Atomic uint64_t *rows = dp_unwind_cache_rows;
    uint64_t mask = dp_load_relaxed(&dp_unwind_cache_mask),
             generation_key = dp_unwind_cache_generation_key(cache->generation), hash = w->hash, value = w->value;
    uintptr_t pc = w->pc, sp = w->sp, fp = w->fp, candidate = w->candidate->sp;
    struct dp_stack_cache_frame *frame = cache->stage + w->n, *end = cache->stage + w->limit;
    dp_frame_id *id = cache->stage_ids + w->n;
    enum halt halt;
    __asm__(""
            : "+r"(generation_key),
              "+r"(end)); /* keeps them in registers; the compiler would recompute them for each frame */
#if defined(__x86_64__)
    uintptr_t hi = sp - w->reach.lo <= w->reach.hi - w->reach.lo && sp % 8 == 0 ? w->reach.hi : 0;
#endif

    if (w->tried)
        goto untried;
    for (;;) {
        if (__builtin_expect(candidate <= sp, 0)) {
            w->candidate = pass(cache, w->candidate, sp);
            candidate = w->candidate->sp;
            if (candidate == sp && w->candidate->pc == pc) {
                halt = AT_CANDIDATE;
                break;
            }
        }
    untried:
        if (__builtin_expect(frame == end, 0)) {
            halt = AT_LIMIT;
            break;
        }
        uintptr_t code = dp_walk_strip(pc);
        if (__builtin_expect(!dp_unwind_cache_peek(rows, mask, generation_key, code, &value), 0)) {
            halt = NO_ROW;
            break;
        }
        *frame++ = (struct dp_stack_cache_frame){.fp = fp, .pc = pc, .sp = sp, .value = value};
        *id++ = dp_unwind_cache_frame(value);
        hash = hash * DP_STACK_BASE + dp_unwind_cache_frame(value);
#if defined(__x86_64__)
        uintptr_t base = sp;
        if (__builtin_expect(!dp_rule_is_usual(value, DP_RULE_SP), 0)) {
            if (!dp_rule_is_usual(value, DP_RULE_FP) || fp - sp >= hi - sp || fp % 8)
                goto at_rule;
            base = fp;
        }
        uintptr_t words = dp_rule_usual_offset(value), also = words, cfa = base + words * 8;
        __asm__("" : "+r"(also)); /* the load of the return address need not wait for the CFA */
        if (__builtin_expect(cfa >= hi, 0))
            goto at_rule;
        intptr_t slot = dp_rule_usual_slot(value);
        uintptr_t saved = dp_reach_read(cfa + (uintptr_t)slot * 8);
        fp = slot ? saved : fp;
        pc = dp_reach_read(base + also * 8 - 8);
        sp = cfa;
        continue;
    at_rule:
#endif
        halt = AT_RULE;
        break;
    }
    w->pc = pc;
    w->sp = sp;
    w->fp = fp;
    w->n = (uint32_t)(frame - cache->stage);
    w->hash = hash;
    w->value = value;
    w->tried = false;
    return halt;
}

/* Steps from the frame entered last. False: the walk ends here, for the reason in *how. */
static bool step_from(struct walk *w, struct dp_stack_cache *cache, enum dp_walk_end *how)
{
    for (;;) {
        uint32_t rule = dp_unwind_cache_rule(w->value);
        *how = DP_WALK_CUT;
        switch (dp_rule_kind(rule)) {
        case DP_RULE_SP:
        case DP_RULE_FP:
            return step(w, rule);
        case DP_RULE_SIGNAL:
        case DP_RULE_SP_EXACT:
        case DP_RULE_FP_EXACT:
            if (!step_exact(w, rule) || !dp_walk_plausible(w->pc) || w->n == w->limit)
                return false;
            /* interrupted frame: no join is possible */
            enter(w, cache, dp_unwind_cache_get(w->pc + 1, cache->generation));
            continue;
        case DP_RULE_END:
            w->ended = true;
            *how = DP_WALK_WHOLE;
            return false;
        case DP_RULE_NONE:
            if (rule == dp_rule_hosted())
                return step_hosted(w, cache);
            return chain_is_good(w, cache->generation) && step(w, rule);
        case DP_RULE_LIBUNWIND:
            *how = DP_WALK_LIBUNWIND;
            return false;
        default:
            return false;
        }
    }
}

/*
 * Steps until stage is full, the walk ends, or it has joined the stack cache for good: then *joined is the position
 * that follows stage, and the caller has to find the end.
 */
static enum dp_walk_end run(struct walk *w, struct dp_stack_cache *cache, enum halt halt, uint32_t *joined)
{
    for (;; halt = advance(w, cache)) {
        enum dp_walk_end how;
        uint32_t at, end, last;
        uintptr_t code;
        switch (halt) {
        case AT_CANDIDATE:
            if (!join(w, cache, &at, &end, &last))
                continue;
            if (last + 1 == end) {
                *joined = at;
                return DP_WALK_CUT;
            }
            take_over(w, cache, at, last);
            w->candidate = &cache->frames[last + 1];
            break;
        case AT_LIMIT: /* a zero return address ends the stacks of threads made by raw clone */
            return dp_walk_strip(w->pc) ? DP_WALK_CUT : DP_WALK_WHOLE;
        case NO_ROW:
            code = dp_walk_strip(w->pc);
            if (!dp_walk_plausible(code))
                return code ? DP_WALK_CUT : DP_WALK_WHOLE;
            enter(w, cache, dp_unwind_cache_fill(code, cache->generation));
            break;
        case AT_RULE:
            break;
        }
        if (!step_from(w, cache, &how))
            return how;
    }
}

static uint32_t n_barred(const struct walk *w)
{
    return w->foreign || w->n_barred > w->n ? w->n : w->n_barred;
}

/* The stack cache holds the leaf side of the stack and the depth allows more frames: continues from its last frame. */
static enum dp_walk_end run_on(struct walk *w, struct dp_stack_cache *cache, uint32_t limit)
{
    const struct dp_stack_cache_frame *last = &cache->frames[cache->b - 1];
    enum dp_walk_end end;
    uint32_t nowhere;
    w->pc = last->pc;
    w->sp = last->sp;
    w->fp = last->fp;
    w->value = last->value;
    w->candidate = &cache->frames[cache->b];
    cache->stage[0] = *last;
    cache->stage_ids[0] = dp_unwind_cache_frame(last->value);
    w->n = 1;
    w->n_barred = 0;
    w->limit = limit + 1;
    w->hash = 0;
    if (step_from(w, cache, &end))
        end = run(w, cache, advance(w, cache), &nowhere);
    if (w->n > 1)
        dp_stack_cache_append(cache, w->n, n_barred(w));
    cache->ended = w->ended;
    return end;
}

enum dp_walk_end dp_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth)
{
    struct walk w;
    uintptr_t top = cache->own.hi;
    dp_reach_begin(&w.reach, &cache->own, site->sp);
    if (cache->own.hi != top)
        dp_stack_cache_clear(cache);
    /*
     * Set field by field: an initializer would clear the struct by one instruction that the next load would wait for.
     */
    w.pc = site->pc;
    w.sp = site->sp;
    w.fp = site->fp;
    w.value = 0;
    const struct dp_stack_cache_frame *first =
        cache->bar == cache->at ? &cache->pending[cache->n_barred] : &cache->frames[cache->bar];
    w.candidate = pass(cache, first, w.sp);
    w.link = 0;
    w.turns = 0;
    w.bare_end = 0;
    w.n = w.n_barred = 0;
    w.limit = depth;
    w.hash = 0;
    w.ended = false;
    w.tried = w.candidate->sp != w.sp || w.candidate->pc != w.pc;
    w.foreign = !on_own_stack(&w);
    uint32_t joined = UINT32_MAX;
    enum dp_walk_end end = run(&w, cache, w.tried ? advance(&w, cache) : AT_CANDIDATE, &joined);
    if (joined == UINT32_MAX) {
        dp_stack_cache_put(cache, cache->b, w.n, n_barred(&w), w.hash);
        cache->ended = w.ended;
        return end;
    }
    dp_stack_cache_put(cache, joined, w.n, n_barred(&w), w.hash);
    uint32_t n = dp_stack_cache_depth(cache);
    if (n > depth) /* the frame after the last one was not looked at */
        return dp_walk_strip(dp_stack_cache_return_address(cache, depth)) ? DP_WALK_CUT : DP_WALK_WHOLE;
    return cache->ended ? DP_WALK_WHOLE : run_on(&w, cache, depth - n);
}
