/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/walk_step.h - the state of a walk, and the step from a frame to its caller by the frame's rule. Only for
 * walk.c, which compiles it inline.
 */
#pragma once

#include "host/unwind/known_code.h"
#include "host/unwind/signal_context.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/unwind_cache.h"
#include "host/unwind/walk.h"

#include <deltaprof/thread.h>

enum { TURNS_MAX = 8 };

/* The state of a walk. */
struct walk {
    struct dp_reach reach;
    uintptr_t pc, sp, fp; /* registers of the frame to be entered next */
    uint64_t value;       /* row of the frame entered last */
    const struct dp_stack_cache_frame
        *candidate; /* the first frame of the stack cache that may be the next frame, or one leafward of it */
    uintptr_t link; /* aarch64: the link register, if a signal frame gave it; else 0 */
    uint32_t turns;
    uint32_t n, n_barred, limit; /* of stage */
    uint64_t hash;               /* of stage */
    bool tried;                  /* the next frame was compared with the candidate and is another one */
    bool foreign;                /* not on the thread's own stack: frames staged now are barred */
    bool ended;                  /* the outermost frame was met, by its rule */
    uintptr_t bare_end; /* up to this sp the chain of frame pointers is known to be good; 0: nothing is known */
};

static bool on_own_stack(const struct walk *w)
{
    return w->reach.lo == w->reach.own->lo && w->reach.hi == w->reach.own->hi;
}

/*
 * Whether the word can be read, if need be after asking the kernel. Frames found through words of foreign stacks are
 * barred.
 */
static inline bool reach(struct walk *w, uintptr_t address)
{
    if (__builtin_expect(dp_reach_here(&w->reach, address), 1))
        return true;
    bool there = dp_reach_move(&w->reach, address);
    w->foreign = !on_own_stack(w);
    w->n_barred = w->n;
    return there;
}

/* Reads the caller's registers from the ucontext of a signal frame. */
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
    return w->turns++ < TURNS_MAX;
}

/*
 * Code without unwind data, such as a compiler's at run time: whether the frame pointer register begins a chain that
 * leads, rootward on the thread's own stack, to a call in code with unwind data. A chain is checked once a walk, up to
 * its end; a register with another value fails one of the checks. A place where a signal interrupted such code of
 * aarch64 is refused: the code may not have made its frame yet.
 */
static bool chain_is_good(struct walk *w, uint32_t generation)
{
    enum { CHAIN_MAX = 256 };
    uintptr_t sp = w->sp, fp = w->fp;
    if (w->foreign || !on_own_stack(w) || w->link)
        return false;
    if (fp < w->bare_end && fp >= sp)
        return true;
    for (int n = 0; n < CHAIN_MAX; n++) {
        if (fp < sp || fp % 8 || fp >= w->reach.hi || w->reach.hi - fp < 16 || fp < w->reach.lo)
            return false;
        uintptr_t pc = dp_walk_strip(dp_reach_read(fp + 8));
        if (!dp_walk_plausible(pc))
            return false;
        uint64_t value = dp_unwind_cache_get(pc, generation);
        if (dp_unwind_cache_rule(value) != dp_rule_none()) {
            w->bare_end = fp + 1;
            return dp_known_follows_call(pc);
        }
        sp = fp + 16;
        fp = dp_reach_read(fp);
    }
    return false;
}

/*
 * The caller of a frame whose rule is SP, FP, EXACT or not, or NONE by its frame pointer. False: its words cannot be
 * read, or sp went backwards too often.
 */
static bool step(struct walk *w, uint32_t rule)
{
    enum dp_rule_kind kind = dp_rule_kind(rule);
    bool by_fp = kind == DP_RULE_FP || kind == DP_RULE_FP_EXACT || kind == DP_RULE_NONE;
    uintptr_t cfa = (by_fp ? w->fp : w->sp) + (uintptr_t)dp_rule_offset(rule);
    uintptr_t slot = dp_stack_cache_fp_slot(rule), pc;
#if defined(__aarch64__)
    if (dp_rule_ra(rule) == DP_RULE_RA_LINK) {
        if (!w->link)
            return false;
        pc = w->link;
        w->n_barred = w->n;
    } else
#endif
    {
        uintptr_t at = cfa - dp_stack_cache_ra_slot(rule);
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
    if (__builtin_expect(cfa <= w->sp, 0)) {
        if (w->turns++ >= TURNS_MAX)
            return false;
        w->n_barred = w->n; /* a walk that joined leafward of it would not count this turn */
    }
    w->pc = pc;
    w->sp = cfa;
    return true;
}

/*
 * Steps to an interrupted frame, by the kernel's layout or by unwind data with a signal frame's mark. Its row is that
 * of pc, not of pc - 1, so it is barred.
 */
static bool step_exact(struct walk *w, uint32_t rule)
{
    if (!(dp_rule_kind(rule) == DP_RULE_SIGNAL ? step_signal(w, rule) : step(w, rule)))
        return false;
    w->n_barred = w->n + 1;
    return true;
}

/*
 * Steps from code without unwind data, by its frame pointer. On x86_64 the words of a frame end where its caller's
 * begin. On aarch64 they do not, and a caller with unwind data tells where its stack pointer was: its function has put
 * the caller's frame pointer beside the return address, and its own frame pointer leads to both. A caller that did not
 * ends the stack.
 */
static bool step_bare(struct walk *w, uint32_t generation)
{
    if (!chain_is_good(w, generation) || !step(w, dp_rule_none()))
        return false;
#if defined(__aarch64__)
    uint32_t rule = dp_unwind_cache_rule(dp_unwind_cache_get(dp_walk_strip(w->pc), generation));
    w->n_barred = w->n; /* no word that was read lies where the caller's frame begins */
    if (dp_rule_kind(rule) == DP_RULE_SP) {
        uintptr_t sp = w->fp + dp_rule_slot(rule) - (uintptr_t)dp_rule_offset(rule);
        if (dp_rule_ra(rule) != DP_RULE_RA_BESIDE || sp < w->sp || sp % 16 || w->fp < sp)
            return false;
        w->sp = sp;
    }
#endif
    return true;
}
