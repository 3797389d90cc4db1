/* SPDX-License-Identifier: MIT */
/*
 * report/values.h - the values in a runtime's stacks, numbered from 0: which frame each is and which stacks they make
 * up, kept from profile to profile, and which location each has in the one that is being written.
 */
#pragma once

#include "base/mem.h"
#include "objects/frames.h"

#define DP_VALUES_NONE UINT32_MAX

struct dp_value {
    uintptr_t value;
    dp_frame_id frame; /* 0: to be asked for in each profile */
};

/* Zero is an empty one. One writer at a time. */
struct dp_values {
    DP_VEC(struct dp_value) all; /* by number */
    DP_VEC(uint32_t) refs;       /* by number: dp_encode_ref of its location; 0: not met in this profile */
    DP_VEC(uint32_t) met;        /* numbers with a ref */
    DP_VEC(uint32_t) stacks;     /* stack behind stack: how many numbers, and these */
    size_t n_used;               /* of those, in this profile */
    bool crowded;                /* a stack did not fit */
    uint32_t *slots;             /* number + 1; 0: free; at most half are taken */
    size_t n_slots;
    uint32_t generation; /* of objects/frames.h, in which the frames were found */
};

/* Before a profile: forgets frames of objects that are gone. */
void dp_values_begin(struct dp_values *);

/* The value's number, which it gets if it has none; NONE: no memory. */
uint32_t dp_values_number(struct dp_values *, uintptr_t value);

/* Gives a number its location in this profile, not 0. -ENOMEM. */
int dp_values_meet(struct dp_values *, uint32_t number, uint32_t ref);

/* The locations of n numbers; 0 for those not met. Returns whether there are no others. */
static inline bool dp_values_refs(const struct dp_values *v, const uint32_t *numbers, size_t n, uint32_t *refs)
{
    const uint32_t *by_number = v->refs.at;
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        refs[i] = by_number[numbers[i]];
        others += refs[i] == 0;
    }
    return !others;
}

/* Keeps a stack. What to call it, for dp_values_stack; 0: it is not kept, budget_bytes are used up or there is none. */
uint32_t dp_values_keep(struct dp_values *, const uint32_t *numbers, size_t n, size_t budget_bytes);
static inline const uint32_t *dp_values_stack(const struct dp_values *v, uint32_t kept)
{
    return v->stacks.at + (kept - 1);
}
/* The same for a profile; *n: how many numbers were kept. */
static inline const uint32_t *dp_values_use(struct dp_values *v, uint32_t kept, size_t *n)
{
    const uint32_t *numbers = dp_values_stack(v, kept);
    *n = numbers[-1];
    v->n_used += *n + 1;
    return numbers;
}

/*
 * After a profile: its locations are forgotten. True: so is everything, because the values take more than budget_bytes,
 * or there was no room for a stack and most that are kept were not used; no stack is kept any more.
 */
bool dp_values_end(struct dp_values *, size_t budget_bytes);
void dp_values_fini(struct dp_values *);
