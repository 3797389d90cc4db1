/* SPDX-License-Identifier: MIT */
/* host/objects/ids.h - hands out the next id of a table that only grows. */
#pragma once

#include "base/atomic.h"

#include <stdint.h>

/*
 * Returns the next id, or 0 when all `capacity` ids are taken; *next then stays near capacity, however often this is
 * called. Relaxed: the id publishes nothing; a separate release publishes the row. Context: hook.
 */
static inline uint32_t dp_id_next(_Atomic uint32_t *next, uint32_t capacity)
{
    if (dp_load_relaxed(next) >= capacity)
        return 0;
    uint32_t id = dp_add_relaxed(next, 1);
    if (id < capacity)
        return id;
    dp_sub_relaxed(next, 1);
    return 0;
}
