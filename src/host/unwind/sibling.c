/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/sibling.c - walks the stack of another thread, which waits in the kernel.
 *
 * The kernel says where such a thread stands: its pc and sp, but no other register. The frame pointer is therefore not
 * known until the walk has passed a frame that saved it; functions that libc calls the kernel from do not need it, but
 * code that keeps frame pointers does (Rust's library, Ubuntu). A function's first instructions then tell where it is
 * (bare_code.h). If they do not, the walk ends, and the stack counts as cut.
 *
 * The thread may run again at any moment, unmap its stack, or end. So its words are copied by process_vm_readv, a page
 * at a time, which fails where there is no memory; and a walk is only used if the thread's CPU clock, read after it,
 * still shows what it showed before (is_there). A thread that has not run has neither changed its stack nor returned.
 *
 * Only rules are used: libunwind and the loader take locks, which the thread may hold.
 */
#include "host/unwind/sibling.h"

#include "base/mem.h"
#include "host/unwind/known_code.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/unwind_cache.h"
#include "host/unwind/signal_context.h"
#include "host/unwind/walk.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE_BYTES = DP_PAGE_LEAST, SIGNALS_MAX = 8 };

struct walk {
    uintptr_t pc, sp, fp;
    bool exact;    /* pc is where the thread stands, not a return address */
    bool knows_fp; /* fp has the caller's value */
    unsigned n_signals;
    uintptr_t piece; /* the address of the words in `copy`; 0: none */
    _Alignas(8) char copy[PIECE_BYTES];
};

/* errno is kept. */
static bool copy_piece(struct walk *w, uintptr_t piece)
{
    int saved = errno;
    struct iovec to = {w->copy, PIECE_BYTES}, from = {(void *)piece, PIECE_BYTES};
    bool copied = syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &from, 1UL, 0UL) == PIECE_BYTES;
    errno = saved;
    w->piece = copied ? piece : 0;
    return copied;
}

static bool read_word(struct walk *w, uintptr_t address, uintptr_t *word)
{
    uintptr_t piece = address & ~(uintptr_t)(PIECE_BYTES - 1);
    if (address % 8 || !piece || (piece != w->piece && !copy_piece(w, piece)))
        return false;
    memcpy(word, w->copy + (address - piece), sizeof *word);
    return true;
}

/* The registers that the kernel saved when it delivered a signal. */
static bool step_signal(struct walk *w, uint32_t rule)
{
    uintptr_t context = w->sp + (uintptr_t)dp_rule_offset(rule);
    w->exact = w->knows_fp = true;
    return w->n_signals++ < SIGNALS_MAX && read_word(w, context + UCONTEXT_PC, &w->pc) &&
           read_word(w, context + UCONTEXT_FP, &w->fp) && read_word(w, context + UCONTEXT_SP, &w->sp);
}

/* The frame pointer as the function's code tells it. A return address must lie where the rule says that it does. */
static bool find_fp(struct walk *w, const struct dp_sibling *at, uint32_t rule)
{
#if defined(__x86_64__)
    uintptr_t depth_bytes, ra;
    uintptr_t pc = w->exact ? w->pc : dp_walk_strip(w->pc);
    if (!dp_unwind_cache_depth_of_sibling(pc, w->exact, at->is_there, at->ctx, &depth_bytes))
        return false;
    w->fp = w->sp + depth_bytes;
    return read_word(w, w->fp + (uintptr_t)dp_rule_offset(rule) - dp_stack_cache_ra_slot(rule), &ra) &&
           dp_walk_plausible(ra) && dp_known_follows_call(ra);
#else
    (void)w, (void)at, (void)rule;
    return false;
#endif
}

/* The step of a frame whose CFA is counted from sp or fp. */
static bool step(struct walk *w, const struct dp_sibling *at, uint32_t rule, bool by_fp)
{
    if (by_fp && !w->knows_fp && !find_fp(w, at, rule))
        return false;
    uintptr_t cfa = (by_fp ? w->fp : w->sp) + (uintptr_t)dp_rule_offset(rule), slot = dp_stack_cache_fp_slot(rule);
#if defined(__aarch64__)
    if (dp_rule_ra(rule) == DP_RULE_RA_LINK) /* the register's value is not known */
        return false;
#endif
    if (cfa <= w->sp || !read_word(w, cfa - dp_stack_cache_ra_slot(rule), &w->pc) ||
        (slot && !read_word(w, cfa - slot, &w->fp)))
        return false;
    w->knows_fp |= slot != 0;
    w->sp = cfa;
    w->exact = false;
    return true;
}

/*
 * The step of code without rules, by its frame pointer, which must lead up the stack to code that has some. Only on
 * x86_64: elsewhere it does not tell where the caller's stack pointer was.
 */
static bool step_bare(struct walk *w, const struct dp_sibling *at, uint32_t rule, uint32_t generation)
{
#if !defined(__x86_64__)
    return false;
#endif
    if (rule == dp_rule_hosted() || !w->knows_fp || w->fp < w->sp || !step(w, at, rule, true))
        return false;
    uint64_t value =
        dp_walk_plausible(w->pc) ? dp_unwind_cache_of_sibling(w->pc, false, generation, at->is_there, at->ctx) : 0;
    return value && (dp_unwind_cache_rule(value) != dp_rule_none() || w->fp > w->sp);
}

/* False: the walk ends. *whole: at the outermost frame. */
static bool step_by(struct walk *w, const struct dp_sibling *at, uint32_t rule, uint32_t generation, bool *whole)
{
    switch (dp_rule_kind(rule)) {
    case DP_RULE_SP:
        return step(w, at, rule, false);
    case DP_RULE_FP:
        return step(w, at, rule, true);
    case DP_RULE_SP_EXACT:
    case DP_RULE_FP_EXACT:
        if (!step(w, at, rule, dp_rule_kind(rule) == DP_RULE_FP_EXACT))
            return false;
        w->exact = true;
        return true;
    case DP_RULE_SIGNAL:
        return step_signal(w, rule);
    case DP_RULE_NONE:
        return step_bare(w, at, rule, generation);
    case DP_RULE_END:
        *whole = true;
        return false;
    default:
        return false;
    }
}

uint32_t dp_sibling_walk(const struct dp_sibling *at, uint32_t generation, dp_frame_id *frames, uintptr_t *sps,
                         uint32_t depth, bool *cut)
{
    struct walk w;
    w.pc = at->pc;
    w.sp = at->sp;
    w.fp = w.piece = 0;
    w.exact = true;
    w.knows_fp = false;
    w.n_signals = 0;
    uint32_t n = 0;
    bool whole = false;
    while (n < depth) {
        uintptr_t pc = w.exact ? w.pc : dp_walk_strip(w.pc);
        if (!pc) { /* ends the stacks of threads made by raw clone */
            whole = n != 0;
            break;
        }
        uint64_t value =
            dp_walk_plausible(pc) ? dp_unwind_cache_of_sibling(pc, w.exact, generation, at->is_there, at->ctx) : 0;
        if (!value)
            break;
        if (sps)
            sps[n] = w.sp;
        frames[n++] = dp_unwind_cache_frame(value);
        if (!step_by(&w, at, dp_unwind_cache_rule(value), generation, &whole))
            break;
    }
    *cut = !whole;
    return n;
}
