/* SPDX-License-Identifier: MIT */
/*
 * host/records/values.h - numbers the distinct values in a runtime's stacks from 0. From profile to profile it keeps
 * the frame of each value, and the stacks as lists of numbers; during a profile, also the location of each value.
 */
#pragma once

#include "base/mem.h"
#include "host/objects/frames.h"
#include "host/symbols/symbol_functions.h"

#define DP_VALUES_NONE UINT32_MAX

struct dp_records_value {
    uintptr_t value;
    dp_frame_id frame;            /* 0: looked up in each profile */
    struct dp_symbols_place line; /* if it is known, the location needs nothing else */
};

/* Zero is an empty one. One writer at a time. */
struct dp_records_values {
    DP_VEC(struct dp_records_value) all; /* by number */
    DP_VEC(uint32_t) refs;               /* by number: dp_encode_ref of its location; 0: not met in this profile */
    DP_VEC(uint32_t) met;                /* numbers with a ref */
    DP_VEC(uint32_t) stacks;             /* all stacks, each one as the count of its numbers and the numbers */
    size_t n_used;                       /* kept stacks that this profile used */
    bool crowded;                        /* there was no room for a stack */
    uint32_t *slots;                     /* number + 1; 0: free; at most half are taken */
    size_t n_slots;
    uint32_t generation; /* generation of host/objects/frames.h when the frames were found */
    uint64_t answers;    /* dp_symbols_answers of then */
};

/* Before a profile: drops frames and lines if an object was unloaded, or dp_symbols_answers is not as it was. */
void dp_records_values_begin(struct dp_records_values *, uint64_t answers);

/* The value's number; a new value gets one. NONE: no memory. */
uint32_t dp_records_values_number(struct dp_records_values *, uintptr_t value);

/* Sets the location of a number in this profile, not 0. -ENOMEM. */
int dp_records_values_resolve(struct dp_records_values *, uint32_t number, uint32_t ref);

/* The locations of n numbers; 0 for numbers without one. Returns whether all have one. */
static inline bool dp_records_values_refs(const struct dp_records_values *v, const uint32_t *numbers, size_t n,
                                          uint32_t *refs)
{
    const uint32_t *by_number = v->refs.at;
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        refs[i] = by_number[numbers[i]];
        others += refs[i] == 0;
    }
    return !others;
}

/*
 * Keeps a stack. Returns its handle for dp_records_values_stack; 0: not kept, because budget_bytes are used up or there
 * is no memory.
 */
uint32_t dp_records_values_keep(struct dp_records_values *, const uint32_t *numbers, size_t n, size_t budget_bytes);
static inline const uint32_t *dp_records_values_stack(const struct dp_records_values *v, uint32_t kept)
{
    return v->stacks.at + (kept - 1);
}
/* The same for a profile, which counts it as used; *n: the count of its numbers. */
static inline const uint32_t *dp_records_values_use(struct dp_records_values *v, uint32_t kept, size_t *n)
{
    const uint32_t *numbers = dp_records_values_stack(v, kept);
    *n = numbers[-1];
    v->n_used += *n + 1;
    return numbers;
}

/*
 * After a profile: clears its locations. True: everything was dropped, kept stacks included, because the values take
 * more than budget_bytes, or because there was no room for a stack and most kept ones were not used.
 */
bool dp_records_values_end(struct dp_records_values *, size_t budget_bytes);
void dp_records_values_fini(struct dp_records_values *);
