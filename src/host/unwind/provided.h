/* SPDX-License-Identifier: MIT */
/* host/unwind/provided.h - puts frames that runtimes name into a walked stack. Context: hook. */
#pragma once

#include "host/unwind/stack_cache.h"

#include <stdbool.h>

/* A walked stack and where its frames lie. */
struct dp_native_stack {
    unsigned kind; /* losses are counted for it */
    const dp_frame_id *ids;
    uint32_t depth;
    bool cut;
    bool guessed;     /* by frame pointers: frames may be missing */
    bool interrupted; /* a signal interrupted the thread at any instruction */
    int32_t
        waiting; /* the id of another thread, whose stack it is and which waits in the kernel; 0: the calling one's */
    /* sps[i]: where frame i begins; it ends where frame i + 1 begins. NULL: they are in the stack cache. */
    const uintptr_t *sps;
};

/* Whether a runtime has registered a provider. */
extern _Atomic bool dp_provided_exist DP_INTERNAL;
static inline bool dp_provided_any(void)
{
    return dp_load_relaxed(&dp_provided_exist);
}

/* The same for threads that wait. */
extern _Atomic bool dp_provided_exist_waiting DP_INTERNAL;
static inline bool dp_provided_any_waiting(void)
{
    return dp_load_relaxed(&dp_provided_exist_waiting);
}

/*
 * Asks the providers, and puts their frames into the native stack. True: there were some; *out is the stack, at most
 * depth frames, valid until the next walk.
 */
bool dp_provided_merge(struct dp_stack_cache *cache, const struct dp_native_stack *native, uintptr_t sp, unsigned depth,
                       struct dp_stack *out);

/* Room for the sps of `depth` frames during a walk through libunwind or by frame pointers. */
uintptr_t *dp_provided_sps(struct dp_stack_cache *cache, unsigned depth);
