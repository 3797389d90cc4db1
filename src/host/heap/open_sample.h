/* SPDX-License-Identifier: MIT */
/* host/heap/open_sample.h - an allocation between the begin and the end of its hook. */
#pragma once

#include "host/heap/live_blocks.h"

#include <deltaprof/heap.h>

/* The content of deltaprof_sample between begin and end. */
struct __attribute__((may_alias)) sample {
    int64_t rest; /* the countdown after this event; below 1: draw a new distance */
    uint64_t bytes;
    uint32_t weight; /* 0: not a sample */
    bool claimed;
    bool muted; /* the thread was guarded; weight is 0, and bytes what was asked for */
    uint8_t heap;
    uint8_t n_skipped; /* frames at the leaf end */
    uint32_t slot;
    uintptr_t old; /* key of the claimed entry */
    struct dp_heap_live_block entry;
};
_Static_assert(sizeof(struct sample) <= sizeof(struct deltaprof_sample), "the public struct reserves it");
