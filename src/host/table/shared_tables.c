/* SPDX-License-Identifier: MIT */
/*
 * host/table/shared_tables.c - the tables as other processes see them: the file of a forked child begins with the
 * records of its parent, and a process outside takes the records of a file.
 *
 * A child's counters of the heap are those at the fork. The parent may change its own ones before the child has made
 * its file, so it notes them before the fork; events of its other threads in between are missing. All other counters
 * begin at 0: nothing is subtracted from them.
 */
#include "base/mem.h"
#include "host/table/label_sets.h"
#include "host/table/labels.h"
#include "host/table/table_state.h"

/* ---- a file for a forked child ---- */

/* The counters of the heap at the last fork, and the part of them that is the child's base. */
static struct {
    struct dp_table_counters *at;
    struct dp_table_base *base;
    uint32_t n, cap;
} forked;

void dp_table_fork_prepare(void)
{
    uint32_t n = dp_shared_file_is_mapped() ? dp_table_count(DP_KIND_HEAP) : 0;
    if (n <= 1 && dp_table_is_empty(DP_KIND_HEAP))
        n = 0;
    if (n > forked.cap) {
        uint32_t cap = n + n / 2;
        size_t each_bytes = sizeof *forked.at + sizeof *forked.base;
        dp_mem_unmap(forked.at, forked.cap * each_bytes);
        forked.at = dp_mem_map(cap * each_bytes);
        forked.cap = forked.at ? cap : 0;
        forked.base = (struct dp_table_base *)(void *)(forked.at + forked.cap);
    }
    forked.n = n < forked.cap ? n : forked.cap;
    for (uint32_t id = 0; id < forked.n; id++) {
        struct dp_counts counts;
        dp_table_read(DP_KIND_HEAP, id, &counts);
        forked.base[id] = (struct dp_table_base){counts.n, counts.v};
        struct dp_table_counters *to = &forked.at[id];
        dp_store_relaxed(&to->n, counts.n);
        dp_store_relaxed(&to->v, counts.v);
        dp_store_relaxed(&to->free_n, counts.free_n);
        dp_store_relaxed(&to->free_v, counts.free_v);
    }
}

bool dp_table_make_file(uint32_t epoch)
{
    bool has_forked = epoch && forked.n;
    struct dp_shared_content contents[] = {{DP_ARRAY_COUNTERS + DP_KIND_HEAP, forked.at, forked.n},
                                           {DP_ARRAY_BASE + DP_KIND_HEAP, forked.base, forked.n}};
    if (epoch && dp_shared_file_is_mapped())
        dp_table_stripes.next = 0;
    return dp_shared_file_make(epoch, contents, has_forked ? 2 : 0);
}

/* ---- of another process ---- */

static bool is_zero(const struct dp_table_counters *c)
{
    return !(dp_load_relaxed(&c->n) | dp_load_relaxed(&c->v) | dp_load_relaxed(&c->free_n) |
             dp_load_relaxed(&c->free_v));
}

#define SUM_MOST (INT64_C(1) << 60)

/* Whether a counter can be added to others. */
static bool is_sane(int64_t value)
{
    return value >= 0 && value <= SUM_MOST;
}

static bool is_valid(unsigned kind, dp_record_id id, uint32_t n_stacks, uint32_t n_frames,
                     bool (*has_valid_ids)(const dp_frame_id *ids, uint32_t n))
{
    const struct dp_record *record = &dp_table_kinds[kind].records[id];
    const struct dp_table_counters *c = &dp_table_kinds[kind].counters[id];
    int64_t n_stripe = dp_load_relaxed(&dp_table_kinds[kind].counters[id].n) >> DP_STRIPES_SHIFT;
    if (!is_sane(dp_load_relaxed(&c->v)) || !is_sane(dp_load_relaxed(&c->free_n)) ||
        !is_sane(dp_load_relaxed(&c->free_v)) || n_stripe < 0 || n_stripe > dp_table_stripes.cap ||
        record->depth > DP_STACK_MAX || !record->depth || dp_labels_of_set(record->labels) > DP_LABEL_SETS ||
        record->stack > n_stacks || record->depth > n_stacks - record->stack)
        return false;
    const dp_frame_id *frames = &dp_table_stacks.frames[record->stack];
    if (has_valid_ids && id)
        return has_valid_ids(frames, record->depth);
    for (uint32_t i = 0; i < record->depth; i++)
        if (frames[i] >= n_frames)
            return false;
    return true;
}

static bool is_named(const struct dp_table_adoption *adoption, dp_record_id id)
{
    return adoption->is_named && adoption->is_named(id);
}

bool dp_table_adopt(unsigned kind, uint32_t n, uint32_t n_stacks, uint32_t n_frames,
                    const struct dp_table_adoption *adoption)
{
    struct dp_table_of_kind *table = &dp_table_kinds[kind];
    while (n > 1 && is_zero(&table->counters[n - 1]) && !is_named(adoption, n - 1))
        n--;
    if (!n || n > table->ids.most)
        return false;
    int64_t sum = 0;
    for (dp_record_id id = 0; id < n; id++) {
        bool is_used = !is_zero(&table->counters[id]) || is_named(adoption, id);
        if (!is_used && id) /* perhaps it was being filled */
            table->records[id] = (struct dp_record){.stack = 0, .depth = 1};
        else if (!is_valid(kind, id, n_stacks, n_frames, adoption->has_valid_ids))
            return false;
        struct dp_counts counts;
        dp_table_read(kind, id, &counts);
        if (!is_sane(counts.v) || !is_sane(counts.free_v) || !is_sane(sum += counts.v))
            return false; /* all values together fit in a number */
    }
    dp_store_relaxed(&table->ids.next, n);
    dp_store_relaxed(&table->is_full, !is_zero(&table->counters[0]));
    return true;
}
