/* SPDX-License-Identifier: MIT */
/* host/table/growth.h - gives out ids of records and indices of frames, and charges their memory in steps. */
#pragma once

#include "base/atomic.h"
#include "base/mem.h"

#define GROW_BYTES (64u << 10)

/* Ids of records, or indices of frames, given out from the lowest on. */
struct dp_table_growth {
    uint32_t most;                      /* all are below */
    uint32_t each_bytes;                /* what one is charged */
    _Atomic uint32_t cap;               /* that many are charged; relaxed: they are mapped from the start */
    _Alignas(64) _Atomic uint32_t next; /* the next one; may run over cap */
};

/* Charges a step more behind cap. False: there is no room, or no memory to spare. */
static inline bool dp_table_grow(struct dp_table_growth *growth, uint32_t cap)
{
    uint32_t step = GROW_BYTES / growth->each_bytes;
    if (cap == growth->most)
        return false;
    if (step > growth->most - cap)
        step = growth->most - cap;
    size_t bytes = (size_t)step * growth->each_bytes;
    if (!dp_mem_charge_spare(bytes))
        return false;
    if (!dp_cas_relaxed(&growth->cap, &cap, cap + step)) /* another thread was first */
        dp_mem_uncharge(bytes);
    return true;
}

/* Reserves n indices. The plain look first keeps a full counter from running on and wrapping. */
static inline bool dp_table_reserve(struct dp_table_growth *growth, uint32_t n, uint32_t *at)
{
    for (;;) {
        uint32_t cap = dp_load_relaxed(&growth->cap);
        if (dp_load_relaxed(&growth->next) <= cap - n) {
            *at = dp_add_relaxed(&growth->next, n);
            if (*at <= cap - n)
                return true;
        } else if (!dp_table_grow(growth, cap)) {
            return false;
        }
    }
}
