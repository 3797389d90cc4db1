/* SPDX-License-Identifier: MIT */
/*
 * labels.c - finds the labels of the running task. They are the value of a Python context variable, read in the hook.
 *
 * Python has one context for each asyncio task, greenlet and thread, and switches between them itself. So the hooks
 * need no message when a task is suspended: a sample looks the variable up in the current context. A context has an
 * immutable mapping, which is a tree of nodes with 32 branches. Only the thread itself changes its current mapping.
 *
 * The thread state has a pointer to the current context. Its offset is found by deltaprof_python_labels, which is
 * called inside a known context and searches the thread state for it.
 *
 * Source of the layout: CPython's Python/hamt.c, unchanged from 3.7 on.
 */
#include "python.h"

#include <errno.h>

enum {
    CONTEXT_VARS = 24,
    MAPPING_ROOT = 16,
    /* A node with few branches: a bit for each, then pairs of key and value. If a key is NULL, its value is a node. */
    FEW_BITMAP = 24,
    FEW_PAIRS = 32,
    /* A node with many branches has a pointer to a node for each. */
    MANY_NODES = 16,
    INT_DIGIT = 24,
    BRANCH_BITS = 5,
    STATE_BYTES = 512
};

static struct {
    const char *variable; /* [VARIABLE]: NULL until the other fields are written */
    uint32_t hash;
    uint16_t state_context;
    const void *mapping_type, *few_type, *many_type;
} labels;

/* The value that the variable has in a mapping; NULL: it has none. */
static const char *look_up(const char *mapping, const char *variable)
{
    const char *node = dp_python_pointer(mapping, MAPPING_ROOT);
    for (unsigned shift = 0; shift < 32; shift += BRANCH_BITS) {
        unsigned branch = labels.hash >> shift & 31;
        if (dp_python_is(node, labels.many_type)) {
            node = dp_python_pointer(node, (uint16_t)(MANY_NODES + branch * 8));
            continue;
        }
        if (!dp_python_is(node, labels.few_type))
            return NULL;
        uint32_t bitmap = (uint32_t)dp_python_int(node, FEW_BITMAP);
        if (!(bitmap >> branch & 1))
            return NULL;
        unsigned before = (unsigned)__builtin_popcount(bitmap & ((1u << branch) - 1));
        const char *key = dp_python_pointer(node, (uint16_t)(FEW_PAIRS + before * 16));
        const char *value = dp_python_pointer(node, (uint16_t)(FEW_PAIRS + before * 16 + 8));
        if (key)
            return key == variable ? value : NULL;
        node = value;
    }
    return NULL;
}

uint32_t dp_python_labels_of(const char *tstate)
{
    const char *variable = __atomic_load_n(&labels.variable, __ATOMIC_ACQUIRE); /* [VARIABLE] */
    if (!variable)
        return 0;
    const char *context = dp_python_pointer(tstate, labels.state_context);
    if (!dp_python_plausible(context))
        return 0;
    const char *mapping = dp_python_pointer(context, CONTEXT_VARS);
    if (!dp_python_is(mapping, labels.mapping_type))
        return 0;
    const char *value = look_up(mapping, variable);
    return dp_python_plausible(value) ? (uint32_t)dp_python_int(value, INT_DIGIT) : 0;
}

uint32_t deltaprof_python_labels_now(void)
{
    const char *tstate = dp_python.minor ? dp_python.this_thread() : NULL;
    return tstate ? dp_python_labels_of(tstate) : 0;
}

int deltaprof_python_labels(const void *context, const void *variable, int64_t hash, const void *mapping_type,
                            const void *few_type, const void *many_type)
{
    const char *tstate = dp_python.minor ? dp_python.this_thread() : NULL;
    if (!tstate || !dp_python_is(dp_python_pointer(context, CONTEXT_VARS), mapping_type))
        return -ENOTSUP;
    uint16_t at = 0;
    while (at < STATE_BYTES && dp_python_pointer(tstate, at) != context)
        at += 8;
    if (at == STATE_BYTES)
        return -ENOTSUP;
    labels.state_context = at;
    labels.hash = (uint32_t)hash ^ (uint32_t)(hash >> 32);
    labels.mapping_type = mapping_type;
    labels.few_type = few_type;
    labels.many_type = many_type;
    /* [VARIABLE] Without the release a hook could see the variable before the other fields. */
    __atomic_store_n(&labels.variable, variable, __ATOMIC_RELEASE);
    return 0;
}
