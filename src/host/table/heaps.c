/* SPDX-License-Identifier: MIT */
/*
 * host/table/heaps.c - keeps the names of heaps, by id; append-only, so a name never moves.
 *
 * A slot goes EMPTY -> WRITING -> NAMED, the last step with release [NAME]: else a reader could compare an incomplete
 * name. Two threads that register the same new name at once must get one id. So each waits until the slots before its
 * own are NAMED (the time to copy 32 bytes), and if one of them has the same name, uses that. The wait is bounded,
 * because in a forked child the writer may not exist.
 */
#include "host/table/heaps.h"

#include "base/atomic.h"
#include "base/mem.h"
#include "host/shared/shared.h"

#include <deltaprof/heap.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#define HEAPS_MAX  255
#define NAME_BYTES 48
#define WAITS      1000

enum { EMPTY, WRITING, NAMED };

static struct {
    _Atomic uint32_t state;
    char name[NAME_BYTES];
} heaps[HEAPS_MAX] DP_LARGE;

static bool is_named(uint32_t id, const char *name)
{
    for (int i = 0; i < WAITS && dp_load_acquire(&heaps[id].state) == WRITING; i++) /* [NAME] */
        sched_yield();
    return dp_load_acquire(&heaps[id].state) == NAMED && !strcmp(heaps[id].name, name); /* [NAME] */
}

uint32_t deltaprof_heap_register(const char *name)
{
    char kept[NAME_BYTES];
    size_t n = strnlen(name, NAME_BYTES - 1);
    memcpy(kept, name, n);
    kept[n] = 0;
    for (uint32_t id = 1; id < HEAPS_MAX; id++) {
        uint32_t state = EMPTY;
        if (dp_cas_acquire(&heaps[id].state, &state, WRITING)) {
            memcpy(heaps[id].name, kept, sizeof kept);
            dp_store_release(&heaps[id].state, NAMED); /* [NAME] */
            return id;
        }
        if (is_named(id, kept))
            return id;
    }
    return 0;
}

const char *dp_table_heap_name(uint32_t heap)
{
    return heap && heap < HEAPS_MAX && dp_load_acquire(&heaps[heap].state) == NAMED ? heaps[heap].name
                                                                                    : NULL; /* [NAME] */
}

int dp_table_heaps_share(void)
{
    return dp_shared_array_init(DP_ARRAY_HEAPS, NAME_BYTES, 0, HEAPS_MAX, 1);
}

void dp_table_heap_publish(uint32_t heap)
{
    const char *name = dp_table_heap_name(heap);
    if (name && dp_shared_commit(dp_shared_array(DP_ARRAY_HEAPS), heap + 1))
        memcpy((char *)dp_shared_at(DP_ARRAY_HEAPS) + (size_t)heap * NAME_BYTES, name, NAME_BYTES);
}

bool dp_table_heaps_adopt(uint32_t n)
{
    const char *names = dp_shared_at(DP_ARRAY_HEAPS);
    for (uint32_t id = 1; id < n && id < HEAPS_MAX; id++) {
        const char *name = names + (size_t)id * NAME_BYTES;
        if (!memchr(name, 0, NAME_BYTES))
            return false;
        memcpy(heaps[id].name, name, NAME_BYTES);
        dp_store_release(&heaps[id].state, *name ? NAMED : EMPTY); /* [NAME] */
    }
    return true;
}
