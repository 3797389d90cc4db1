/* SPDX-License-Identifier: MIT */
/* host/report/kind_sources.c - the array of the kinds' sources, and what each kind does if its source says nothing
 * else. */
#include "host/report/kind_source.h"

/* dp_heap_source and so on, each in the room of its subject. */
#define SOURCE(ID, name) extern const struct dp_kind_source dp_##name##_source DP_INTERNAL;
DP_KINDS_OF_DELTAS(SOURCE)
#undef SOURCE

#define SOURCE(ID, name) [DP_KIND_##ID] = &dp_##name##_source,
static const struct dp_kind_source *const sources[DP_KIND_DELTAS] = {DP_KINDS_OF_DELTAS(SOURCE)};
#undef SOURCE

const struct dp_kind_source *dp_kind_source_of(unsigned kind)
{
    return sources[kind];
}

int dp_kind_source_scan(unsigned kind, unsigned locks, enum dp_symbolize symbolize, struct dp_symbols_files *files,
                        struct dp_baseline *base, struct dp_rows *rows)
{
    const struct dp_kind_source *source = sources[kind];
    return source->scan ? source->scan(source->rules, locks, symbolize, files, base, rows)
                        : dp_delta_scan(source->rules, locks, base, rows);
}

int dp_kind_source_scan_peak(unsigned kind, struct dp_baseline *base, struct dp_rows *rows, int64_t *wall_ns)
{
    const struct dp_kind_source *source = sources[kind];
    if (!source->peak_begin || !source->peak_begin(wall_ns))
        return 1;
    int err = dp_delta_scan(source->peak_rules, 0, base, rows);
    source->peak_end();
    return err;
}

bool dp_kind_source_is_empty(unsigned kind)
{
    return sources[kind]->is_empty ? sources[kind]->is_empty() : dp_table_is_empty(kind);
}

bool dp_kind_source_is_stuck(unsigned kind)
{
    return sources[kind]->is_stuck && sources[kind]->is_stuck();
}

unsigned dp_kind_source_lock_of(unsigned kind, const struct dp_record *record, bool *shown)
{
    const struct dp_delta_rules *rules = sources[kind]->rules;
    *shown = true;
    return rules && rules->lock_of ? rules->lock_of(record, shown) : 0;
}
