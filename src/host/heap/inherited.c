/* SPDX-License-Identifier: MIT */
/*
 * host/heap/inherited.c - counts the frees of a forked process's own blocks, by record.
 *
 * The inherited blocks that are still in use are base - (all frees - own frees), where base is the record's allocs at
 * the fork. So frees of inherited blocks, which may come at any time, need no counter. Only records that existed at the
 * fork are counted: blocks of later records are all own.
 */
#include "host/heap/inherited.h"

#include "host/shared/table_file.h"

#include <errno.h>
#include <string.h>

struct freed {
    _Atomic int64_t n, v; /* relaxed: a reader may miss the newest events */
};

static struct {
    struct freed *at;
    uint32_t n;
} own_freed;

int dp_heap_inherited_init(void)
{
    size_t most = dp_table_most(DP_KIND_HEAP);
    if (dp_shared_array_init(DP_ARRAY_FREED, sizeof(struct freed), 0, most, 1))
        return -ENOMEM;
    dp_shared_array(DP_ARRAY_FREED)->is_fresh = true;
    own_freed.at = dp_shared_at(DP_ARRAY_FREED);
    return 0;
}

/* No own blocks exist yet, so nothing is added meanwhile. */
void dp_heap_inherited_begin(void)
{
    uint32_t n = dp_table_count(DP_KIND_HEAP), n_before = own_freed.n;
    own_freed.n = 0;
    if (!own_freed.at || !dp_shared_commit(dp_shared_array(DP_ARRAY_FREED), n))
        return;
    if (!dp_shared_file_is_mapped())
        memset(own_freed.at, 0, n_before * sizeof *own_freed.at);
    own_freed.n = n;
}

void dp_heap_inherited_add_own_free(dp_record_id id, int64_t n, int64_t v)
{
    if (id >= own_freed.n)
        return;
    dp_add_relaxed(&own_freed.at[id].v, v);
    dp_add_relaxed(&own_freed.at[id].n, n);
}

static int64_t between(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value < most ? value : most;
}

void dp_heap_inherited_read(dp_record_id id, const struct dp_counts *counts, int64_t *n, int64_t *v)
{
    struct dp_table_base base;
    *n = *v = 0;
    if (id >= own_freed.n)
        return;
    dp_table_base(DP_KIND_HEAP, id, &base);
    *n = between(base.n - counts->free_n + dp_load_relaxed(&own_freed.at[id].n), counts->n - counts->free_n);
    *v = between(base.v - counts->free_v + dp_load_relaxed(&own_freed.at[id].v), counts->v - counts->free_v);
    if (*n == 0)
        *v = 0;
}

void dp_heap_inherited_adopt(uint32_t n)
{
    own_freed.n = n;
}
