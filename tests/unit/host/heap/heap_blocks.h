/* SPDX-License-Identifier: MIT */
/* heap_blocks.h - for tests of the heap's events: starts the record store, sets the rate, and makes addresses of
 * blocks. */
#pragma once

#include "support/unit.h"

#include "host/heap/heap.h"
#include "host/api/recording.h"
#include "host/thread/thread.h"
#include "support/totals.h"

/* Block i: an address without memory. */
static void *block(uintptr_t i)
{
    return (void *)(0x10000000 + i * 64);
}

static struct dp_config conf;

static void tune(int64_t rate)
{
    conf.heap_rate = rate;
    dp_record_tune(&conf, true);
    deltaprof_guard_enter();
    deltaprof_guard_reset();
}

static int start(void **state)
{
    dp_config_init(&conf);
    return dp_record_init(&conf);
}
