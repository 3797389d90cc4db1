/* SPDX-License-Identifier: MIT */
/*
 * objects/reach.h - which words of a stack a walk may read. Context: hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A thread's own stack, as far down as it was seen in use: readable as long as the thread lives. Zero: not known. */
struct dp_own_stack {
    uintptr_t lo, hi;
    uintptr_t bottom; /* the lowest address of the stack that the thread was made with; 0: not looked for yet */
};

/* One walk's view. */
struct dp_reach {
    uintptr_t lo, hi; /* words in [lo, hi) may be read during this walk */
    struct dp_own_stack *own;
    uint32_t n_probes; /* pages asked for in this walk */
};

/* Notes which thread is the process's first. Context: init. */
void dp_reach_init(void);

/* Begins a walk at an sp that was not seen yet. */
void dp_reach_begin_at(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp);

/* Begins a walk at sp, a stack pointer of the calling thread. */
static inline void dp_reach_begin(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp)
{
    *reach = (struct dp_reach){.lo = own->lo, .hi = own->hi, .own = own};
    if (__builtin_expect(sp - own->lo >= own->hi - own->lo, 0))
        dp_reach_begin_at(reach, own, sp);
}

/* Moves [lo, hi) to where address is: the thread's own stack, or one page that the kernel was asked about. False: stop.
 */
bool dp_reach_move(struct dp_reach *reach, uintptr_t address);

/* The word at address is aligned and within [lo, hi). */
static inline bool dp_reach_here(const struct dp_reach *reach, uintptr_t address)
{
    return address % 8 == 0 && address - reach->lo < reach->hi - reach->lo;
}

/* The aligned word at address may be read. */
static inline bool dp_reach_word(struct dp_reach *reach, uintptr_t address)
{
    return __builtin_expect(dp_reach_here(reach, address), 1) || dp_reach_move(reach, address);
}

/* A word of a stack, which belongs to whatever function put it there: not a matter for address sanitizers. */
static inline __attribute__((no_sanitize("address"))) uintptr_t dp_reach_read(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Whether the page at address is there to read: one system call. errno is kept. */
bool dp_reach_probe(uintptr_t address);

/* Whether the word at address is `expected`: 1 yes, 0 no, -EFAULT it cannot be read. One system call, which may meet
 * memory that goes away at any moment. errno is kept. */
int dp_reach_compare(uintptr_t address, uint32_t expected);
