/* SPDX-License-Identifier: MIT */
/* host/objects/reach.h - decides which words of a stack a walk may read. Context: hook. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The part of a thread's own stack that was seen in use: readable as long as the thread lives. Zero: not known. */
struct dp_own_stack {
    uintptr_t lo, hi;
    uintptr_t bottom; /* lowest address of the stack that the thread was created with; 0: not looked for yet */
};

/* What one walk may read. */
struct dp_reach {
    uintptr_t lo, hi; /* words in [lo, hi) may be read during this walk */
    struct dp_own_stack *own;
    uint32_t n_probes; /* pages that this walk asked the kernel about */
};

/* Notes which thread is the process's first. Context: init. */
void dp_reach_init(void);

/* Begins a walk at an sp outside of the known part of the stack. */
void dp_reach_begin_at(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp);

/* Begins a walk at sp, a stack pointer of the calling thread. */
static inline void dp_reach_begin(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp)
{
    *reach = (struct dp_reach){.lo = own->lo, .hi = own->hi, .own = own};
    if (__builtin_expect(sp - own->lo >= own->hi - own->lo, 0))
        dp_reach_begin_at(reach, own, sp);
}

/*
 * Moves [lo, hi) to the range that holds address: the thread's own stack, or one page that the kernel was asked about.
 * False: address cannot be read, the walk ends.
 */
bool dp_reach_move(struct dp_reach *reach, uintptr_t address);

/* Whether the word at address is aligned and within [lo, hi). */
static inline bool dp_reach_here(const struct dp_reach *reach, uintptr_t address)
{
    return address % 8 == 0 && address - reach->lo < reach->hi - reach->lo;
}

/* Whether the aligned word at address may be read. */
static inline bool dp_reach_word(struct dp_reach *reach, uintptr_t address)
{
    return __builtin_expect(dp_reach_here(reach, address), 1) || dp_reach_move(reach, address);
}

/* Reads a word of a stack. Address sanitizers must not check it: the word belongs to another function's frame. */
static inline __attribute__((no_sanitize("address"))) uintptr_t dp_reach_read(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Whether the page at address is readable. One system call; errno is kept. */
bool dp_reach_probe(uintptr_t address);

/*
 * Compares the word at address with `expected`: 1 equal, 0 different, -EFAULT it cannot be read. One system call, safe
 * even if the memory is unmapped at that moment. errno is kept.
 */
int dp_reach_compare(uintptr_t address, uint32_t expected);
