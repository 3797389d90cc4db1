/* SPDX-License-Identifier: MIT */
/*
 * host/records/values.h - numbers the distinct addresses ("values") in a runtime's stacks from 0, so that each is
 * looked up once. From profile to profile it keeps the frame of each value, and stacks as lists of numbers; during a
 * profile, also the location of each value.
 */
#pragma once

#include "base/mem.h"
#include "host/objects/frames.h"
#include "host/symbols/symbol_functions.h"

#define DP_VALUES_NONE UINT32_MAX

struct dp_records_value {
    uintptr_t value;
    dp_frame_id frame;            /* 0: looked up in each profile */
    struct dp_symbols_place line; /* if it is known, the location is made from it alone */
};

/* Zeroed is empty. One writer at a time. */
struct dp_records_values {
    DP_VEC(struct dp_records_value) all; /* by number */
    DP_VEC(uint32_t) refs;               /* by number: dp_encode_ref of its location; 0: none in this profile */
    DP_VEC(uint32_t) resolved;           /* numbers with a ref */
    DP_VEC(uint32_t) stacks;             /* the kept stacks: of each the count of its numbers, then the numbers */
    size_t n_used;                       /* words of `stacks` that this profile used */
    bool is_full;                        /* a stack could not be kept */
    uint32_t *slots;                     /* hash table of values: number + 1; 0: free; at most half are in use */
    size_t n_slots;
    uint32_t generation; /* of host/objects/frames.h, when the frames were found */
    uint64_t answers;    /* dp_symbols_answers, when the lines were found */
};

/* Before a profile: drops frames and lines if an object was unloaded or dp_symbols_answers has changed. */
void dp_records_values_begin(struct dp_records_values *, uint64_t answers);

/* Returns the value's number; a new value gets the next one. DP_VALUES_NONE: no memory. */
uint32_t dp_records_values_number(struct dp_records_values *, uintptr_t value);

/* Sets the location of a number for this profile; ref is not 0. 0 or -ENOMEM. */
int dp_records_values_resolve(struct dp_records_values *, uint32_t number, uint32_t ref);

/* Copies the locations of n numbers to refs, 0 for a number without one. Returns whether all have one. */
static inline bool dp_records_values_refs(const struct dp_records_values *v, const uint32_t *numbers, size_t n,
                                          uint32_t *refs)
{
    const uint32_t *by_number = v->refs.at;
    size_t n_missing = 0;
    for (size_t i = 0; i < n; i++) {
        refs[i] = by_number[numbers[i]];
        n_missing += refs[i] == 0;
    }
    return n_missing == 0;
}

/*
 * Keeps a stack for later profiles. Returns its handle for the next two; 0: not kept, because it exceeds budget_bytes
 * or there is no memory. stack: its numbers. use: the same, with their count in *n; the stack counts as used in this
 * profile.
 */
uint32_t dp_records_values_keep(struct dp_records_values *, const uint32_t *numbers, size_t n, size_t budget_bytes);
static inline const uint32_t *dp_records_values_stack(const struct dp_records_values *v, uint32_t kept)
{
    return v->stacks.at + (kept - 1);
}
static inline const uint32_t *dp_records_values_use(struct dp_records_values *v, uint32_t kept, size_t *n)
{
    const uint32_t *numbers = dp_records_values_stack(v, kept);
    *n = numbers[-1];
    v->n_used += *n + 1;
    return numbers;
}

/*
 * After a profile: clears its locations. Returns true if everything was dropped, kept stacks included: the values
 * exceed budget_bytes, or a stack could not be kept while this profile used less than half of `stacks`.
 */
bool dp_records_values_end(struct dp_records_values *, size_t budget_bytes);
void dp_records_values_fini(struct dp_records_values *);
