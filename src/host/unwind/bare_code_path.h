/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code_path.h - a path through code from one instruction to a return, and what the parts for x86_64
 * and aarch64 do with it. Context: hook.
 */
#pragma once

#include "host/unwind/bare_code.h"

enum { DP_BARE_CODE_OTHERS = 32, DP_BARE_CODE_LAST = 4, DP_BARE_CODE_SEEN = 128, DP_BARE_CODE_STEPS = 2048 };

/* What is known at an instruction. The stack pointer is a base plus `up`. */
struct dp_bare_code_place {
    uintptr_t pc;
    int64_t up;
    int64_t saved_fp, saved_ra; /* where the registers were taken from the stack, above the base */
    int64_t fp_up;              /* the frame pointer, above the base */
    bool by_fp;                 /* the base is the frame pointer at the begin; else the stack pointer then */
    bool has_fp, has_ra;        /* the register was taken from the stack */
    bool knows_fp;              /* fp_up has a value */
    bool pushed_fp;             /* x86_64: the instruction before pushed the frame pointer */
    bool kept_fp, kept_ra;      /* the register was put on the stack with the value that it has at the begin */
    int64_t fp_place, ra_place; /* where, above the base */
    /* The rest is aarch64's. */
    bool lost_link;     /* a call, or a load of something else, has overwritten the link register */
    uint32_t number_in; /* a register that has a number from the code; 0: none */
    uint32_t sum_in;    /* a register that has the sum of two others; 0: none */
    int64_t number;
};

struct dp_bare_code_path {
    const struct dp_bare_code *code;
    struct dp_bare_code_place at;
    struct dp_bare_code_place others[DP_BARE_CODE_OTHERS]; /* the other sides of conditional jumps */
    struct dp_bare_code_place last[DP_BARE_CODE_LAST];     /* places that are tried last */
    uintptr_t seen[DP_BARE_CODE_SEEN];                     /* places that a jump leads to */
    uint32_t n_others, n_last, n_seen, n_steps;
    uintptr_t first_page, last_page; /* pages that were asked for: readable */
    bool behind_call;
};

enum dp_bare_code_next { DP_BARE_CODE_GOES_ON, DP_BARE_CODE_ENDS, DP_BARE_CODE_RETURNS_HERE };

/* Whether n_bytes of an instruction at pc may be read. */
bool dp_bare_code_can_read(struct dp_bare_code_path *, uintptr_t pc, uintptr_t n_bytes);
/* Whether the function at an address never returns. */
bool dp_bare_code_never_returns(const struct dp_bare_code *, uintptr_t function);
/* Goes on at the target of a jump, unless it was there. */
enum dp_bare_code_next dp_bare_code_jump(struct dp_bare_code_path *, uintptr_t target);
/* A jump that depends on something: goes on behind it, and remembers the other side. */
enum dp_bare_code_next dp_bare_code_branch(struct dp_bare_code_path *, uintptr_t target);
/* Ends the path for now. */
enum dp_bare_code_next dp_bare_code_put_off(struct dp_bare_code_path *);

/* For each machine: one instruction; whether a path that returned can begin at a return address; its row. */
enum dp_bare_code_next dp_bare_code_step(struct dp_bare_code_path *);
bool dp_bare_code_is_callers(const struct dp_bare_code_place *);
void dp_bare_code_fill(const struct dp_bare_code_place *, struct dp_cfi_row *row);
