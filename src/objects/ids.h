/* SPDX-License-Identifier: MIT */
/*
 * objects/ids.h - the next id of a table that only grows.
 */
#pragma once

#include "base/atomic.h"

#include <stdint.h>

/* Takes the next id, or 0 when all `capacity` are taken: *next then stays near capacity, however often it is asked.
   Relaxed: an id says nothing of its row, which is published by a release of its own. Context: hook. */
static inline uint32_t dp_id_take(_Atomic uint32_t *next, uint32_t capacity)
{
    if (dp_load_relaxed(next) >= capacity)
        return 0;
    uint32_t id = dp_add_relaxed(next, 1);
    if (id < capacity)
        return id;
    dp_sub_relaxed(next, 1);
    return 0;
}
