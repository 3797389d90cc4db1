/* SPDX-License-Identifier: MIT */
/*
 * record/walk.c - the walk by recipes: a row of the cache, a sum, a word from the stack, and again.
 *
 * What a frame costs is a chain of loads: the return address gives the row, the row the CFA, the CFA the next return
 * address. All else (bounds, the search for a place to join the memo, keeping the state) runs beside it. Branches that
 * a usual stack never takes lead out of the loop.
 *
 * A walk is a chain of parts: frames found by stepping (staged), frames taken over from the memo in the middle (staged
 * too, with their true fp), and the rest of the memo, which keeps its places. It ends after `depth` frames at the
 * latest, and the stack may turn back, as it does where code runs on another stack, TURNS_MAX times.
 */
#include "record/walk.h"

#include "record/recipe.h"

#include <deltaprof/hooks.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

enum { TURNS_MAX = 8 };

#if defined(__x86_64__)
enum {
    UCONTEXT_PC = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    UCONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    UCONTEXT_FP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
};
#elif defined(__aarch64__)
enum {
    UCONTEXT_PC = offsetof(ucontext_t, uc_mcontext.pc),
    UCONTEXT_SP = offsetof(ucontext_t, uc_mcontext.sp),
    UCONTEXT_FP = offsetof(ucontext_t, uc_mcontext.regs[29]),
    UCONTEXT_LINK = offsetof(ucontext_t, uc_mcontext.regs[30]),
};
#endif

/* Where a walk stands. */
struct walk {
    struct dp_reach reach;
    uintptr_t pc, sp, fp; /* of the frame to be entered next */
    uintptr_t link;       /* aarch64: its link register, where a signal frame said; else 0 */
    uint32_t turns;
    uint32_t n, n_barred; /* of stage */
    uint64_t hash;        /* of stage */
    bool foreign;         /* on another stack than the thread's own: what is staged now is barred */
    bool ended;           /* a rule said so */
};

static bool on_own_stack(const struct walk *w)
{
    return w->reach.lo == w->reach.own->lo && w->reach.hi == w->reach.own->hi;
}

/* The word may be read, perhaps after a look. What words of other stacks than the thread's own led to is barred. */
static inline bool reach(struct walk *w, uintptr_t address)
{
    if (__builtin_expect(dp_reach_here(&w->reach, address), 1))
        return true;
    bool there = dp_reach_move(&w->reach, address);
    w->foreign = !on_own_stack(w);
    w->n_barred = w->n;
    return there;
}

/* Takes the caller's registers from the ucontext that a signal frame lies on. */
static bool step_signal(struct walk *w, uint32_t rule)
{
    uintptr_t context = w->sp + (uintptr_t)dp_rule_offset(rule);
    if (!reach(w, context + UCONTEXT_PC) || !reach(w, context + UCONTEXT_SP) || !reach(w, context + UCONTEXT_FP))
        return false;
    w->pc = dp_reach_read(context + UCONTEXT_PC);
    w->sp = dp_reach_read(context + UCONTEXT_SP);
    w->fp = dp_reach_read(context + UCONTEXT_FP);
#if defined(__aarch64__)
    if (!reach(w, context + UCONTEXT_LINK))
        return false;
    w->link = dp_reach_read(context + UCONTEXT_LINK);
#endif
    w->n_barred = w->n + 1; /* the interrupted frame as well: its row is that of pc, not of pc - 1 */
    return w->turns++ < TURNS_MAX;
}

/* The caller of a frame whose rule is SP or FP. False: its words cannot be read, or lead backwards too often. */
static inline __attribute__((always_inline)) bool step(struct walk *w, uint32_t rule)
{
    uintptr_t cfa = (dp_rule_kind(rule) == DP_RULE_SP ? w->sp : w->fp) + (uintptr_t)dp_rule_offset(rule);
    uintptr_t slot = dp_memo_fp_slot(rule), pc;
#if defined(__aarch64__)
    if ((rule >> 3 & 3) == DP_RULE_RA_LINK) {
        if (!w->link)
            return false;
        pc = w->link;
        w->n_barred = w->n;
    } else
#endif
    {
        uintptr_t at = cfa - dp_memo_ra_slot(rule);
        if (!reach(w, at))
            return false;
        pc = dp_reach_read(at);
    }
    w->link = 0;
    if (slot) {
        if (!reach(w, cfa - slot))
            return false;
        w->fp = dp_reach_read(cfa - slot);
    }
    if (__builtin_expect(cfa <= w->sp, 0) && w->turns++ >= TURNS_MAX)
        return false;
    w->pc = pc;
    w->sp = cfa;
    return true;
}

/*
 * The same where nothing is out of the ordinary, in registers; false: it was not, and nothing has changed. lo is where
 * a CFA may lie whose last word is the first of the readable range.
 */
static inline __attribute__((always_inline)) bool step_here(uint64_t value, uintptr_t base, uintptr_t lo,
                                                            uintptr_t span, uintptr_t *pc, uintptr_t *sp, uintptr_t *fp)
{
#if defined(__x86_64__)
    uintptr_t cfa = base + (uintptr_t)((int64_t)value >> (32 + DP_RULE_OFFSET_SHIFT - 3));
    uintptr_t slot = dp_rule_slot(dp_recipe_rule(value));
    if (cfa <= *sp || cfa - lo >= span || cfa % 8)
        return false;
    if (slot) {
        if (slot > cfa - lo + 8)
            return false;
        *fp = dp_reach_read(cfa - slot);
    }
    *pc = dp_reach_read(cfa - 8);
    *sp = cfa;
    return true;
#else
    return false;
#endif
}

/* Takes the frames of places [at, last] over into stage, as they are for this walk. */
static void take_over(struct walk *w, const struct dp_memo *memo, uint32_t at, uint32_t last)
{
    memcpy(&memo->stage_ids[w->n], &memo->ids[at], (last - at + 1) * sizeof *memo->ids);
    memo->stage[w->n] = memo->frames[at];
    memo->stage[w->n++].fp = w->fp;
    for (uint32_t i = at + 1; i <= last; i++) {
        uintptr_t slot = dp_memo_fp_slot(dp_recipe_rule(memo->frames[i - 1].value));
        if (slot)
            w->fp = dp_reach_read(memo->frames[i].sp - slot);
        memo->stage[w->n] = memo->frames[i];
        memo->stage[w->n++].fp = w->fp;
    }
    w->pc = memo->frames[last].pc;
    w->sp = memo->frames[last].sp;
}

/*
 * The frame that the walk stands on may be one of the memo's, *candidate or one behind it. True: it is at place *at,
 * and the frames up to *last are still as remembered, of those before *end, up to where stage would have `limit`
 * frames.
 */
static bool join(struct walk *w, struct dp_memo *memo, const struct dp_memo_frame **candidate, uint32_t limit,
                 uint32_t *at, uint32_t *end, uint32_t *last)
{
    const struct dp_memo_frame *c = *candidate, *last_pending = memo->pending + memo->n_pending;
    while (c->sp < w->sp)
        c = c == last_pending ? &memo->frames[memo->at + 1] : c + 1;
    *candidate = c;
    if (c->sp != w->sp || c->pc != w->pc || w->n == limit)
        return false;
    if (c >= memo->pending && c <= last_pending)
        *candidate = &memo->frames[dp_memo_settle(memo, (uint32_t)(c - memo->pending))];
    *at = (uint32_t)(*candidate - memo->frames);
    if (memo->frames[*at].fp != w->fp && memo->live[*at])
        return false;
    *end = memo->b - *at > limit - w->n ? *at + limit - w->n : memo->b;
    *last = dp_memo_verify(memo, *at, *end);
    if (w->foreign) { /* and back on the thread's own stack */
        w->n_barred = w->n;
        w->reach.lo = w->reach.own->lo;
        w->reach.hi = w->reach.own->hi;
        w->foreign = false;
    }
    return true;
}

/*
 * Steps until stage holds `limit` frames, the walk ends, or it has joined the memo for good: then *joined is the place
 * that follows stage, and the end is not known yet. value: of the frame that the walk stands on; 0: enter one first.
 */
static enum dp_walk_end run(struct walk *w, struct dp_memo *memo, uint64_t value, const struct dp_memo_frame *candidate,
                            uint32_t limit, uint32_t *joined)
{
    struct dp_memo_frame *stage = memo->stage;
    dp_frame_id *ids = memo->stage_ids;
    _Atomic uint64_t *rows = dp_recipe_rows;
    uint64_t mask = dp_recipe_mask, generation = DP_RECIPE_KEY(0, memo->generation), hash = w->hash;
    uintptr_t pc = w->pc, sp = w->sp, fp = w->fp, lo = w->reach.lo + 8, span = w->reach.hi - w->reach.lo;
    uint32_t n = w->n;

/* The state lives in registers; what leaves the loop for a while finds it in w, and may change it. */
#define OUT  (w->pc = pc, w->sp = sp, w->fp = fp, w->n = n, w->hash = hash)
#define BACK (pc = w->pc, sp = w->sp, fp = w->fp, n = w->n, lo = w->reach.lo + 8, span = w->reach.hi - w->reach.lo)
#define ENTER                                                                               \
    (stage[n] = (struct dp_memo_frame){pc, sp, fp, value}, ids[n] = dp_recipe_frame(value), \
     hash = hash * DP_STACK_BASE + dp_recipe_frame(value), n++)
#define END(how)    \
    do {            \
        OUT;        \
        return how; \
    } while (0)

    if (value)
        goto entered;
    for (;;) {
        if (__builtin_expect(candidate->sp <= sp, 0)) {
            uint32_t at, end, last;
            OUT;
            if (join(w, memo, &candidate, limit, &at, &end, &last)) {
                if (last + 1 == end) {
                    *joined = at;
                    return DP_WALK_CUT;
                }
                take_over(w, memo, at, last);
                for (; n < w->n; n++)
                    hash = hash * DP_STACK_BASE + dp_recipe_frame(stage[n].value);
                candidate = &memo->frames[last + 1];
                value = memo->frames[last].value;
                BACK;
                goto entered;
            }
        }
        uintptr_t code = dp_walk_strip(pc), lookup_pc = code - 1;
        if (__builtin_expect(!dp_walk_plausible(code), 0))
            END(code ? DP_WALK_CUT : DP_WALK_WHOLE); /* a zero return address ends stacks of hand-made threads */
        if (__builtin_expect(n == limit, 0))
            END(DP_WALK_CUT);
        value = dp_recipe_peek(rows, mask, lookup_pc, lookup_pc ^ generation);
        if (__builtin_expect(!value, 0))
            value = dp_recipe_fill(lookup_pc, lookup_pc ^ generation);
        ENTER;
    entered:;
        uint32_t rule = dp_recipe_rule(value);
        if (__builtin_expect(dp_rule_kind(rule) == DP_RULE_SP, 1)) {
            if (__builtin_expect(step_here(value, sp, lo, span, &pc, &sp, &fp), 1))
                continue;
        } else if (dp_rule_kind(rule) == DP_RULE_FP && step_here(value, fp, lo, span, &pc, &sp, &fp)) {
            continue;
        }
        OUT;
        switch (dp_rule_kind(rule)) {
        case DP_RULE_SP:
        case DP_RULE_FP:
            if (!step(w, rule))
                return DP_WALK_CUT;
            break;
        case DP_RULE_SIGNAL:
            if (!step_signal(w, rule) || !dp_walk_plausible(w->pc) || n == limit)
                return DP_WALK_CUT;
            BACK;
            value = dp_recipe_get(pc, pc ^ generation); /* interrupted there: no call, and nothing to join */
            ENTER;
            goto entered;
        case DP_RULE_END:
            w->ended = true;
            return DP_WALK_WHOLE;
        case DP_RULE_FOREIGN:
            return DP_WALK_FOREIGN;
        default:
            return DP_WALK_CUT;
        }
        BACK;
    }
#undef OUT
#undef BACK
#undef ENTER
#undef END
}

static uint32_t n_barred(const struct walk *w)
{
    return w->foreign || w->n_barred > w->n ? w->n : w->n_barred;
}

/* The memo holds the leaf side of the stack, to its last frame, and the depth allows more: steps on from there. */
static enum dp_walk_end run_on(struct walk *w, struct dp_memo *memo, uint32_t limit)
{
    const struct dp_memo_frame *last = &memo->frames[memo->b - 1];
    uint32_t nowhere;
    w->pc = last->pc;
    w->sp = last->sp;
    w->fp = last->fp;
    w->n = w->n_barred = 0;
    w->hash = 0;
    enum dp_walk_end end = run(w, memo, last->value, &memo->frames[memo->b], limit, &nowhere);
    if (w->n)
        dp_memo_append(memo, w->n, n_barred(w));
    memo->ended = w->ended;
    return end;
}

enum dp_walk_end dp_walk(struct dp_memo *memo, const struct deltaprof_site *site, unsigned depth)
{
    struct walk w = {.pc = site->pc, .sp = site->sp, .fp = site->fp};
    uintptr_t top = memo->own.hi;
    dp_reach_begin(&w.reach, &memo->own, site->sp);
    if (memo->own.hi != top)
        dp_memo_forget(memo);
    w.foreign = !on_own_stack(&w);
    uint32_t joined = UINT32_MAX;
    const struct dp_memo_frame *candidate =
        memo->bar == memo->at ? &memo->pending[memo->n_barred] : &memo->frames[memo->bar];
    enum dp_walk_end end = run(&w, memo, 0, candidate, depth, &joined);
    if (joined == UINT32_MAX) {
        dp_memo_place(memo, memo->b, w.n, n_barred(&w), w.hash);
        memo->ended = w.ended;
        return end;
    }
    dp_memo_place(memo, joined, w.n, n_barred(&w), w.hash);
    uint32_t n = dp_memo_depth(memo);
    if (n > depth) /* what follows the last frame that counts was not looked at */
        return dp_walk_strip(dp_memo_return_address(memo, depth)) ? DP_WALK_CUT : DP_WALK_WHOLE;
    return memo->ended ? DP_WALK_WHOLE : run_on(&w, memo, depth - n);
}
