/* SPDX-License-Identifier: MIT */
/*
 * labels.c - finds the labels and the trace context of the running task. They are the values of two Python context
 * variables, read in the hook.
 *
 * Python has one context for each asyncio task, greenlet and thread, and switches between them itself. So the hooks
 * need no message when a task is suspended: a sample looks the variables up in the current context. A context has an
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
    TRACE_BYTES = 16,
    SPAN_BYTES = 8,
    BRANCH_BITS = 5,
    STATE_BYTES = 512
};

static struct {
    uint16_t state_context;
    const void *mapping_type, *few_type, *many_type;
} contexts;

struct variable {
    const char *object; /* [VARIABLE]: NULL until the hash, and the layout of contexts, are written */
    uint32_t hash;
};
static struct variable labels, trace;

/* The value that the variable has in a mapping; NULL: it has none. */
static const char *look_up(const char *mapping, const struct variable *variable)
{
    const char *node = dp_python_pointer(mapping, dp_python_field(MAPPING_ROOT));
    for (unsigned shift = 0; shift < 32; shift += BRANCH_BITS) {
        unsigned branch = variable->hash >> shift & 31;
        if (dp_python_is(node, contexts.many_type)) {
            node = dp_python_pointer(node, dp_python_field((uint16_t)(MANY_NODES + branch * 8)));
            continue;
        }
        if (!dp_python_is(node, contexts.few_type))
            return NULL;
        uint32_t bitmap = (uint32_t)dp_python_int(node, dp_python_field(FEW_BITMAP));
        if (!(bitmap >> branch & 1))
            return NULL;
        unsigned before = (unsigned)__builtin_popcount(bitmap & ((1u << branch) - 1));
        uint16_t pair = dp_python_field((uint16_t)(FEW_PAIRS + before * 16));
        const char *key = dp_python_pointer(node, pair);
        const char *value = dp_python_pointer(node, (uint16_t)(pair + 8));
        if (key)
            return key == variable->object ? value : NULL;
        node = value;
    }
    return NULL;
}

/* The value of a variable in the thread's context; NULL: it has none there, or is not known yet. */
static const char *value_of(const struct variable *variable, const char *tstate)
{
    if (!__atomic_load_n(&variable->object, __ATOMIC_ACQUIRE)) /* [VARIABLE] */
        return NULL;
    const char *context = dp_python_pointer(tstate, contexts.state_context);
    if (!dp_python_plausible(context))
        return NULL;
    const char *mapping = dp_python_pointer(context, dp_python_field(CONTEXT_VARS));
    if (!dp_python_is(mapping, contexts.mapping_type))
        return NULL;
    const char *value = look_up(mapping, variable);
    return dp_python_plausible(value) ? value : NULL;
}

uint32_t dp_python_labels_of(const char *tstate)
{
    const char *value = value_of(&labels, tstate);
    return value ? (uint32_t)dp_python_int(value, dp_python_field(INT_DIGIT)) : 0;
}

void dp_python_trace_of(const char *tstate)
{
    if (!__atomic_load_n(&trace.object, __ATOMIC_RELAXED))
        return;
    const char *value = value_of(&trace, tstate);
    if (dp_python_is(value, dp_python.bytes_type) &&
        dp_python_long(value, dp_python_field(DP_PYTHON_BYTES_SIZE)) >= TRACE_BYTES + SPAN_BYTES) {
        const unsigned char *bytes = (const unsigned char *)value + dp_python_field(DP_PYTHON_BYTES_DATA);
        deltaprof_trace_set(bytes, bytes + TRACE_BYTES);
    } else {
        deltaprof_trace_set(NULL, NULL);
    }
}

uint32_t deltaprof_python_labels_now(void)
{
    const char *tstate = dp_python.minor ? dp_python.this_thread() : NULL;
    return tstate ? dp_python_labels_of(tstate) : 0;
}

static void follow(struct variable *variable, const void *object, int64_t hash)
{
    variable->hash = (uint32_t)hash ^ (uint32_t)(hash >> 32);
    /* [VARIABLE] Without the release a hook could see the variable before the other fields. */
    __atomic_store_n(&variable->object, object, __ATOMIC_RELEASE);
}

int deltaprof_python_labels(const void *context, const void *variable, int64_t hash, const void *mapping_type,
                            const void *few_type, const void *many_type)
{
    const char *tstate = dp_python.minor ? dp_python.this_thread() : NULL;
    if (!tstate || !dp_python_is(dp_python_pointer(context, dp_python_field(CONTEXT_VARS)), mapping_type))
        return -ENOTSUP;
    uint16_t at = 0;
    while (at < STATE_BYTES && dp_python_pointer(tstate, at) != context)
        at += 8;
    if (at == STATE_BYTES)
        return -ENOTSUP;
    contexts.state_context = at;
    contexts.mapping_type = mapping_type;
    contexts.few_type = few_type;
    contexts.many_type = many_type;
    follow(&labels, variable, hash);
    return 0;
}

int deltaprof_python_trace(const void *variable, int64_t hash)
{
    if (!contexts.mapping_type)
        return -ENOTSUP;
    follow(&trace, variable, hash);
    return 0;
}
