/* SPDX-License-Identifier: MIT */
/* host/report/table_source.c - turns the frames of a record into locations, and its heap and label set into text
 * labels. */
#include "host/report/table_source.h"

#include "host/table/labels.h"
#include "host/symbols/called.h"
#include "host/report/kind_source.h"
#include "host/table/heaps.h"
#include "host/table/table.h"
#include "profile/lock_kinds.h"

#include <string.h>

static void ahead(void *ctx, const struct dp_row *row, int distance)
{
    const struct dp_record *record = dp_table_record((unsigned)(uintptr_t)ctx, row->id);
    if (distance == DP_EMIT_FAR) {
        __builtin_prefetch(record);
        return;
    }
    const dp_frame_id *frames = dp_table_frames(record);
    __builtin_prefetch(frames);
    __builtin_prefetch(frames + 16);
}

dp_frame_id dp_report_table_frame_called(unsigned kind, const struct dp_record *record, unsigned *n_inside)
{
    const struct dp_kind_source *source = dp_kind_source_of(kind);
    *n_inside = 0;
    dp_frame_id called = source->leaf ? source->leaf(record, n_inside) : 0;
    if (!called && !source->is_interrupted && !record->heap && record->depth && !dp_labels_is_futex(record->labels))
        called = dp_symbols_called_tail(dp_table_frames(record)[0]);
    return called;
}

const dp_frame_id *dp_report_table_all_frames(unsigned kind, const struct dp_record *record, dp_frame_id *to, size_t *n)
{
    const struct dp_kind_source *source = dp_kind_source_of(kind);
    size_t n_reversed;
    *n = source->tower ? source->tower(record, to, &n_reversed) : record->depth;
    return source->tower ? to : dp_table_frames(record);
}

size_t dp_report_table_shown(unsigned kind, const struct dp_record *record, dp_frame_id *frames)
{
    size_t depth = record->depth < DP_STACK_MAX ? record->depth : DP_STACK_MAX, n = 0;
    unsigned inside;
    dp_frame_id called = dp_report_table_frame_called(kind, record, &inside);
    if (called && (inside || depth < DP_STACK_MAX))
        frames[n++] = called;
    memcpy(frames + n, dp_table_frames(record) + inside, (depth - inside) * sizeof *frames);
    n += depth - inside;
    if (record->cut)
        frames[n++] = DP_FRAME_TRUNCATED;
    return n;
}

/* For kinds with a tower. Not inlined, because its array of frames would widen the stack frame of its caller. */
static __attribute__((noinline)) size_t tower_stack(const struct dp_kind_source *source, const struct dp_record *record,
                                                    struct dp_locations *l, uint32_t *refs)
{
    dp_frame_id frames[DP_EMIT_STACK_MAX];
    size_t n_reversed, n = source->tower(record, frames, &n_reversed);
    dp_locations_stack_reversed(l, frames, n_reversed, refs);
    dp_locations_stack(l, frames + n_reversed, n - n_reversed, refs + n_reversed);
    return n;
}

/* part: of a row whose leaf was interrupted at an exact address; else 0. */
static size_t stack_of(unsigned kind, dp_record_id id, uint32_t part, struct dp_locations *l, uint32_t *refs)
{
    const struct dp_record *record = dp_table_record(kind, id);
    if (dp_kind_source_of(kind)->tower)
        return tower_stack(dp_kind_source_of(kind), record, l, refs);
    const dp_frame_id *frames = dp_table_frames(record);
    size_t n = record->depth < DP_STACK_MAX ? record->depth : DP_STACK_MAX;
    unsigned inside;
    dp_frame_id called = dp_report_table_frame_called(kind, record, &inside);
    size_t before = 0;
    if (called && (inside || n < DP_STACK_MAX))
        refs[before++] = dp_locations_frame(l, called);
    else if (part)
        refs[before++] = dp_locations_exact(l, frames[inside++], part - 1);
    dp_locations_stack(l, frames + inside, n - inside, refs + before);
    n += before - inside;
    if (record->cut)
        refs[n++] = dp_locations_frame(l, DP_FRAME_TRUNCATED);
    return n;
}

static size_t stack(void *ctx, struct dp_locations *l, const struct dp_row *row, uint32_t *refs)
{
    unsigned kind = (unsigned)(uintptr_t)ctx;
    bool is_interrupted = dp_kind_source_of(kind)->is_interrupted;
    return stack_of(kind, row->id, is_interrupted ? row->entry >> DP_ROW_PART_SHIFT : 0, l, refs);
}

enum { LOCK_AT_BYTES = 256 };

static struct dp_encode_label text_label(struct dp_encode *e, const char *key, const char *value)
{
    return (struct dp_encode_label){.key = dp_encode_string(e, key, strlen(key)),
                                    .str = dp_encode_string(e, value, strlen(value))};
}

static size_t labels(void *ctx, struct dp_locations *l, const struct dp_row *row, struct dp_encode_label *out)
{
    struct dp_encode *e = l->encode;
    const struct dp_record *record = dp_table_record((unsigned)(uintptr_t)ctx, row->id);
    struct dp_label pairs[DP_EMIT_LABELS_MAX];
    size_t n_out = 0;
    const char *heap = dp_table_heap_name(record->heap);
    if (heap)
        out[n_out++] = text_label(e, "heap", heap);
    if (row->entry & DP_ROW_INHERITED)
        out[n_out++] = text_label(e, "fork", "inherited");
    if (row->entry >> DP_ROW_PART_SHIFT && dp_kind_source_of((unsigned)(uintptr_t)ctx)->age)
        out[n_out++] = text_label(e, "age", dp_kind_source_of((unsigned)(uintptr_t)ctx)->age(row));
    const struct dp_kind_source *source = dp_kind_source_of((unsigned)(uintptr_t)ctx);
    const char *state = source->state ? source->state(record) : NULL;
    if (state)
        out[n_out++] = text_label(e, "state", state);
    if (source->is_idle && source->is_idle(record))
        out[n_out++] = text_label(e, "idle", "yes");
    uint32_t of_record = source->state ? dp_labels_with_set(0, record->labels) : record->labels;
    size_t n = dp_labels_get(of_record, pairs, DP_EMIT_LABELS_MAX - n_out);
    bool shown, futex = dp_labels_is_futex(of_record); /* then its pair is the first */
    const char *lock = NULL;                           /* none: a kind without locks, in a damaged table */
    if (n && futex)
        lock = dp_lock_kind_name(dp_kind_source_lock_of((unsigned)(uintptr_t)ctx, record, &shown));
    if (lock)
        pairs[0].value = lock;
    for (size_t i = 0; i < n; i++)
        if (!state || (strcmp(pairs[i].key, "state") && strcmp(pairs[i].key, "idle"))) /* not the program's own */
            out[n_out++] = text_label(e, pairs[i].key, pairs[i].value);
    char place[LOCK_AT_BYTES];
    if (n_out < DP_EMIT_LABELS_MAX && source->lock_at && source->lock_at(row->id, &l->settings, place, sizeof place))
        out[n_out++] = text_label(e, DP_LABELS_LOCK_AT_KEY, place);
    return n_out;
}

struct dp_emit_source dp_report_table_source(unsigned kind)
{
    return (struct dp_emit_source){stack, ahead, labels, (void *)(uintptr_t)kind, true, NULL};
}
