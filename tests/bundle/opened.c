/* SPDX-License-Identifier: MIT */
/* opened - a library that reports the blocks of a heap of its own, opened by victim_opens after libdeltaprof. */
#include <deltaprof/hooks.h>

#include <stdint.h>

#define SHOWN __attribute__((visibility("default"), noinline))

static uint32_t heap;

SHOWN int begin(const char *conf)
{
    heap = deltaprof_heap_register("blocks");
    return deltaprof_start(conf);
}

/* Blocks are only numbers. */
SHOWN void in_thread(int thread)
{
    for (uintptr_t i = 1; i <= 1000; i++) {
        void *block = (void *)((uintptr_t)thread << 32 | i << 8);
        deltaprof_alloc(heap, block, 100);
        deltaprof_free(heap, block);
    }
}

SHOWN void in_main(int number)
{
    deltaprof_alloc(heap, (void *)((uintptr_t)1 << 40 | (uintptr_t)number << 8), 10);
}

SHOWN void in_handler(int number)
{
    deltaprof_alloc(heap, (void *)((uintptr_t)1 << 41 | (uintptr_t)number << 8), 10);
}
