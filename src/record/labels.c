/* SPDX-License-Identifier: MIT */
/*
 * record/labels.c - the label sets that there are: one for each kind of lock wait, so that the set's id is the kind.
 * Static: the same in every thread and process, nothing to fill, nothing to lock.
 */
#include "record/labels.h"

#include <deltaprof/hooks.h>

static const struct dp_label of_lock[] = {
    [DELTAPROF_LOCK_MUTEX] = {"lock", "mutex"},
    [DELTAPROF_LOCK_READ] = {"lock", "rwlock-read"},
    [DELTAPROF_LOCK_WRITE] = {"lock", "rwlock-write"},
    [DELTAPROF_LOCK_COND] = {"lock", "cond"},
    [DELTAPROF_LOCK_SEM] = {"lock", "sem"},
    [DELTAPROF_LOCK_SPIN] = {"lock", "spin"},
    [DELTAPROF_LOCK_BARRIER] = {"lock", "barrier"},
    [DELTAPROF_LOCK_JOIN] = {"lock", "join"},
};

#define N_SETS (sizeof of_lock / sizeof *of_lock)

uint32_t dp_labels_of_lock(unsigned kind)
{
    return kind < N_SETS ? kind : 0;
}

size_t dp_labels_get(uint32_t id, const struct dp_label **labels)
{
    if (id == 0 || id >= N_SETS)
        return 0;
    *labels = &of_lock[id];
    return 1;
}
