/* SPDX-License-Identifier: MIT */
/*
 * record/memo.h - a thread's last stack, so that a new walk only visits what changed. memo.c has the rule and its proof.
 * Context: hook, with the thread's word parked; a memo belongs to one thread.
 */
#pragma once

#include "record/reach.h"
#include "record/rule.h"
#include "record/stack.h"

/* A frame's state, and its row of the recipe cache: rule and frame id. pc as it lies in memory. */
struct dp_memo_frame {
    uintptr_t pc, sp, fp;
    uint64_t value;
};

/*
 * Zeroed is a valid start. Places [a, b) hold the remembered frames, the leaf first; frames before `bar` may not be
 * joined. There is room on both sides, for new leaves and for a walk that gets further than the last one.
 */
struct dp_memo {
    struct dp_own_stack own;
    uint32_t generation; /* of dp_objects_generation that this walk works with */
    uint32_t busy;       /* a walk is under way; found set at a begin: that walk was left by longjmp */
    uint32_t a, b, bar;
    uint16_t ended;      /* the last frame is the outermost one, by its rule */
    uint16_t unusable;   /* something was being unloaded: not to be remembered */
    uint32_t inside;     /* libunwind is at work for this thread */
    struct dp_memo_frame *frames;    /* [0, 4 * depth], frames[b].sp is the highest address */
    uint64_t *sums;                  /* [0, 4 * depth]: sums[i] - sums[j] is the hash of [i, j), times a power of B */
    uint64_t *checked;               /* a bit a place: its fp came from a word, and is live */
    uint8_t *live;                   /* its fp is used further rootward, or may be */
    dp_frame_id *ids;                /* of the frames, in the same places */
    struct dp_memo_frame *stage;     /* [0, depth]: the frames that this walk found, before they get their places */
    dp_frame_id *others;             /* [0, depth): a stack that is not remembered */
};

/* depth: most frames of a stack. Fills the tables of powers. -ENOMEM. Context: init. */
int dp_memo_init(unsigned depth);
size_t dp_memo_bytes(void);

/* An end of a walk: what it left in the memo may be joined by the next. */
void dp_memo_end(struct dp_memo *memo);

/* Lays a zeroed block out, or finds it laid out; forgets what may not be used. usable: nothing is being unloaded. */
void dp_memo_begin(struct dp_memo *memo, uint32_t generation, bool usable);
void dp_memo_forget(struct dp_memo *memo);

/* The last frame, counted from `at`, that the words in memory still lead to; all before `end`. */
uint32_t dp_memo_verify(const struct dp_memo *memo, uint32_t at, uint32_t end);

/*
 * Puts n frames of stage leafward of place `at`, which becomes the frame behind them; at == b: they replace everything.
 * The first n_barred of them may not be joined.
 */
void dp_memo_place(struct dp_memo *memo, uint32_t at, uint32_t n, uint32_t n_barred);
/* Puts n frames of stage rootward of the last one. If the first n_barred may not be joined, nothing leafward may. */
void dp_memo_append(struct dp_memo *memo, uint32_t n, uint32_t n_barred);

/* The hash of the n leafmost frames; 0 < n <= b - a. */
uint64_t dp_memo_hash(const struct dp_memo *memo, uint32_t n);

/* What a step does to the frame pointer: bytes from its slot up to the CFA; 0: nothing. */
static inline uintptr_t dp_memo_fp_slot(uint32_t rule)
{
#if defined(__aarch64__)
    if ((rule >> 3 & 3) == DP_RULE_RA_ALONE)
        return 0;
#endif
    return dp_rule_slot(rule);
}

/* The bytes from the word that holds the return address up to the CFA, by the rule of the frame that returns. */
static inline uintptr_t dp_memo_ra_slot(uint32_t rule)
{
#if defined(__aarch64__)
    return dp_rule_slot(rule) - ((rule >> 3 & 3) == DP_RULE_RA_BESIDE ? 8 : 0);
#else
    return 8;
#endif
}
