/* SPDX-License-Identifier: MIT */
/* record/scratch.c - the blocks behind thread.h: one mapping a thread, kept in its TLS. */
#include "record/thread.h"

#include "base/mem.h"
#include "record/unwind.h"

static __thread void *block;

void *dp_thread_scratch(void)
{
    if (!block)
        block = dp_mem_map(dp_unwind_scratch_bytes());
    return block;
}
