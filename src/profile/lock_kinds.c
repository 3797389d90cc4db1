/* SPDX-License-Identifier: MIT */
/* profile/lock_kinds.c - the names of the kinds of locks. */
#include "profile/lock_kinds.h"

#include <string.h>

static const char *const names[DP_LOCK_KINDS] = {
    [DP_LOCK_MUTEX] = "mutex",     [DP_LOCK_READ] = "rwlock-read", [DP_LOCK_WRITE] = "rwlock-write",
    [DP_LOCK_COND] = "cond",       [DP_LOCK_SEM] = "sem",          [DP_LOCK_SPIN] = "spin",
    [DP_LOCK_BARRIER] = "barrier", [DP_LOCK_JOIN] = "join",        [DP_LOCK_FUTEX] = "futex",
    [DP_LOCK_RWLOCK] = "rwlock",   [DP_LOCK_ONCE] = "once",        [DP_LOCK_PARK] = "park",
    [DP_LOCK_GIL] = "gil",
};

const char *dp_lock_kind_name(unsigned kind)
{
    return kind < DP_LOCK_KINDS ? names[kind] : NULL;
}

unsigned dp_lock_kind_named(const char *name, size_t n_bytes)
{
    for (unsigned kind = 1; kind < DP_LOCK_KINDS; kind++)
        if (names[kind] && strlen(names[kind]) == n_bytes && memcmp(names[kind], name, n_bytes) == 0)
            return kind;
    return 0;
}
