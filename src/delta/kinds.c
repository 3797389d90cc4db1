/* SPDX-License-Identifier: MIT */
/*
 * delta/kinds.c - sample types by kind. A heap row is {alloc_objects, alloc_space, inuse_objects, inuse_space}, a lock
 * row {contentions, delay}; the key `types` selects one half of heap rows, and has no effect on locks.
 *
 * Mutex and block profiles have the same sample types. pprof's title is the text behind the first "Type: " in what it
 * shows above a report, and comments come first there: so a comment tells the two kinds apart.
 */
#include "delta/kinds.h"

#include <deltaprof/deltaprof.h>

#include <errno.h>

static const struct dp_encode_value_type heap_types[] = {
    {"alloc_objects", "count"},     {"alloc_space", "bytes"},     {"inuse_objects", "count"},
    {"inuse_space", "bytes"},       {"freed_objects", "count"}, /* from here on only where lifetimes are asked for */
    {"temporary_objects", "count"}, {"lifetime", "microseconds"},
};
static const struct dp_encode_value_type lock_types[] = {
    {"contentions", "count"},
    {"delay", "nanoseconds"},
};

int dp_kind_describe(unsigned kind, enum dp_types types, struct dp_kind *out)
{
    switch (kind) {
    case DELTAPROF_HEAP:
        *out = (struct dp_kind){heap_types, 0, 4, {"space", "bytes"}, false, NULL};
        if (types != DP_TYPES_ALL) {
            out->n_types = 2;
            out->inuse_only = types == DP_TYPES_INUSE;
            out->first = out->inuse_only ? 2 : 0;
            out->types += out->first;
        }
        return 0;
    case DELTAPROF_MUTEX:
    case DELTAPROF_BLOCK:
        *out = (struct dp_kind){lock_types, 0, 2, {"contentions", "count"}, false, NULL};
        out->title =
            kind == DELTAPROF_MUTEX ? "Type: mutex: who made others wait" : "Type: block: where threads waited";
        return 0;
    default:
        return -EINVAL;
    }
}

bool dp_kind_add_lifetimes(struct dp_kind *kind)
{
    if (kind->types != heap_types || kind->n_types != DP_VALUES_MAX)
        return false;
    kind->n_types = sizeof heap_types / sizeof *heap_types;
    return true;
}
