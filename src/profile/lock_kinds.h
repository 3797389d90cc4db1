/* SPDX-License-Identifier: MIT */
/*
 * profile/lock_kinds.h - the kinds of locks, as one number everywhere: in labels of records, in the classes and
 * verdicts of futexes, in the file of the key `lock_names`. Those of the public interface have the values of enum
 * deltaprof_lock_kind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum dp_lock_kind {
    DP_LOCK_NONE, /* no lock; of a futex: not decided yet */
    DP_LOCK_MUTEX,
    DP_LOCK_READ,
    DP_LOCK_WRITE,
    DP_LOCK_COND,
    DP_LOCK_SEM,
    DP_LOCK_SPIN,
    DP_LOCK_BARRIER,
    DP_LOCK_JOIN,
    DP_LOCK_FUTEX,  /* a futex of unknown kind */
    DP_LOCK_RWLOCK, /* this and the next two: of futexes only */
    DP_LOCK_ONCE,
    DP_LOCK_PARK,
    DP_LOCK_GIL,
    DP_LOCK_KINDS,
    /* Of functions only, for which the function that called them decides. */
    DP_LOCK_PASS = DP_LOCK_KINDS, /* it serves several kinds */
    DP_LOCK_UNNAMED,              /* its name is not known */
};

/* Whether a futex of this known kind has a holder. */
static inline bool dp_lock_kind_has_holder(enum dp_lock_kind kind)
{
    return kind == DP_LOCK_MUTEX || kind == DP_LOCK_RWLOCK || kind == DP_LOCK_ONCE;
}

/* The value of the label `lock`; NULL: no such kind. The kind of a name, which is n_bytes long; 0: no such name. */
const char *dp_lock_kind_name(unsigned kind);
unsigned dp_lock_kind_named(const char *name, size_t n_bytes);
