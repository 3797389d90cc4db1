/* SPDX-License-Identifier: MIT */
/*
 * host/records/records.c - subtracts successive dumps of a runtime's records.
 *
 * An entry is a key (40 bytes), the values last committed with the record's id (32), a note (4), and 5 to 11 bytes of
 * the index. Entries stand in the order in which they were first met, and after each match a cursor expects the next
 * entry. Runtimes pass their records in the same order each time, so a dump costs two sequential scans, which write one
 * word per entry, and the indexes are searched only where the order differs.
 *
 * An id is a short cut to an entry, not a key. When an id is first met, the entry is found by its stack, as without
 * ids. Later the id alone finds it, and the stack is not read. So ids may be renumbered at any time without a loss
 * (dp_records_reset_ids), and records of one key with different ids are still summed.
 *
 * 1. A key's records of one dump are summed before anything is subtracted: the first is its row, others add to it. An
 *    unchanged record has no row until a second record of its key comes; its values are then those of the entry.
 * 2. A counter of allocations or waits that is smaller than before means that the runtime reset it: no alloc, and the
 *    lower value is the baseline. A counter of frees has no baseline, so it tells nothing. A heap record without an
 *    alloc has no block size: it stands for all sizes of its stack that are not in the dump.
 * 3. A stack that is missing in a dump keeps its entry, since it may come back with its old values. Entries are removed
 *    only if they exceed their budget, and then those that were not in the last dump; or if there is no memory for a
 * new one, and then those that were neither in the last dump nor in this one so far. So a stack that is left out once
 * may count anew, but only beyond the budget: stacks that never return would need it several times over otherwise.
 * 4. Only commit changes entries, to the values that the pass noted; a failed write leaves no trace but new entries
 *    with the value 0.
 */
#include "host/records/records.h"

#include "host/records/records_index.h"

#include <errno.h>

#define AHEAD 8 /* records ahead whose stacks are prefetched */

struct dp_records *dp_records_new(size_t budget_bytes)
{
    dp_records_stack_fingerprint_init();
    struct dp_records *r = dp_mem_map(sizeof *r);
    if (r)
        r->n_plenty =
            budget_bytes / (sizeof(struct dp_records_entry) + sizeof(struct dp_records_state) + 3 * sizeof *r->slots);
    return r;
}

void dp_records_free(struct dp_records *r)
{
    if (!r)
        return;
    dp_vec_fini(&r->entries);
    dp_vec_fini(&r->states);
    dp_vec_fini(&r->notes);
    dp_vec_fini(&r->begins);
    dp_mem_unmap(r->slots, r->n_slots * sizeof *r->slots);
    dp_mem_unmap(r->ids, r->n_id_slots * sizeof *r->ids);
    dp_mem_unmap(r, sizeof *r);
}

/* ---- one pass --------------------------------------------------------------------------------------------------- */

/* Adds without undefined overflow: the runtime's numbers are not trusted. */
static inline int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* values: {n, v, n freed, v freed}. */
static inline void values_of(const struct dp_records_dump *dump, size_t i, int64_t values[4])
{
    if (dump->heap) {
        const struct deltaprof_heap_record *h = &dump->heap[i];
        values[0] = h->alloc_objects;
        values[1] = h->alloc_bytes;
        values[2] = h->free_objects;
        values[3] = h->free_bytes;
        return;
    }
    values[0] = values[2] = dump->block[i].contentions; /* locks have no in-use values */
    values[1] = values[3] = dump->block[i].delay_ns;
}

/* The block size of a record; 0: not part of its key. */
static inline int64_t size_of(const struct dp_records_dump *dump, const int64_t values[4])
{
    return !dump->heap || dump->mixed_sizes || values[0] <= 0 ? 0 : values[1] / values[0];
}

static inline uint64_t id_of(const struct dp_records_dump *dump, size_t i)
{
    return dump->heap ? dump->heap[i].id : dump->block[i].id;
}

static inline bool has_stack(const struct dp_records_dump *dump, size_t i)
{
    const uintptr_t *stack;
    size_t depth;
    dp_records_dump_stack(dump, i, &stack, &depth);
    return stack || !depth;
}

static inline void ask_memory_for(const struct dp_records_dump *dump, size_t i)
{
    const uintptr_t *stack;
    size_t depth;
    if (i >= dump->n || id_of(dump, i))
        return;
    dp_records_dump_stack(dump, i, &stack, &depth);
    for (size_t word = 0; word < depth && word < 64; word += 8)
        __builtin_prefetch(stack + word);
}

static int add_row(struct dp_records *r, struct dp_rows *rows, size_t i, uint32_t entry, const int64_t values[4])
{
    struct dp_row *row = dp_vec_push(rows);
    if (!row)
        return -ENOMEM;
    *row = (struct dp_row){(uint32_t)i, entry, {values[0], values[1], values[2], values[3]}};
    r->states.at[entry].row = (uint32_t)rows->n - 1;
    return 0;
}

/* A second record of the same key in this dump. */
static int add_duplicate(struct dp_records *r, struct dp_rows *rows, size_t i, uint32_t entry, const int64_t values[4])
{
    const struct dp_records_state *e = &r->states.at[entry];
    const int64_t first[4] = {e->n, e->v, e->n, e->v};
    const uint32_t *row = &r->states.at[entry].row;
    if ((*row >= rows->n || rows->at[*row].entry != entry) && add_row(r, rows, i, entry, first))
        return -ENOMEM;
    for (int k = 0; k < 4; k++)
        rows->at[*row].values[k] = plus(rows->at[*row].values[k], values[k]);
    return 0;
}

static int begin_at(struct dp_records *r, uint32_t entry, int64_t n, int64_t v)
{
    struct dp_records_begin *begin = dp_vec_room(&r->begins, 1);
    if (!begin)
        return -ENOMEM;
    *begin = (struct dp_records_begin){entry, n, v};
    r->begins.n++;
    return 0;
}

/* For a heap record without an alloc: notes that every size of its stack that is not in the dump was reset to 0. */
static int note_reset(struct dp_records *r, const struct dp_records_stack_fingerprint *stack)
{
    for (size_t i = r->n_slots ? dp_records_chain(r, stack) : 0; r->n_slots && r->slots[i];
         i = (i + 1) & (r->n_slots - 1)) {
        uint32_t at = r->slots[i] - 1;
        if (!dp_records_stack_fingerprint_equal(&r->entries.at[at].stack, stack) ||
            !(r->states.at[at].n | r->states.at[at].v))
            continue;
        if (begin_at(r, at, 0, 0))
            return -ENOMEM;
    }
    return 0;
}

static void drop_resets_of_the_shown(struct dp_records *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->begins.n; i++)
        if (r->states.at[r->begins.at[i].entry].shown != r->dump)
            r->begins.at[kept++] = r->begins.at[i];
    r->begins.n = kept;
}

/* The entry of a record, by its stack and size. DP_RECORDS_NONE with *err 0: all its values are 0 and it has no entry.
 */
static uint32_t entry_by_stack(struct dp_records *r, const struct dp_records_dump *dump, size_t i, uint32_t cursor,
                               const int64_t values[4], int *err)
{
    const uintptr_t *stack;
    size_t depth;
    *err = 0;
    dp_records_dump_stack(dump, i, &stack, &depth);
    struct dp_records_key key = {dp_records_stack_fingerprint_of(stack, depth < dump->depth ? depth : dump->depth),
                                 size_of(dump, values)};
    if (cursor < r->entries.n && dp_records_is_of(&r->entries.at[cursor], &key))
        return cursor;
    uint32_t at = dp_records_find(r, &key);
    if (at != DP_RECORDS_NONE)
        return at;
    if (!(values[0] | values[1] | values[2] | values[3])) {
        *err = note_reset(r, &key.stack);
        return DP_RECORDS_NONE;
    }
    if ((at = dp_records_insert(r, &key)) == DP_RECORDS_NONE)
        *err = -ENOMEM;
    return at;
}

/* The entry of a record with an id. A heap record without an alloc has no block size yet: its id is not kept. */
static uint32_t entry_by_id(struct dp_records *r, const struct dp_records_dump *dump, size_t i, uint64_t id,
                            uint32_t cursor, const int64_t values[4], int *err)
{
    uint32_t at = dp_records_find_id(r, id);
    *err = 0;
    if (at != DP_RECORDS_NONE)
        return at;
    at = entry_by_stack(r, dump, i, cursor, values, err);
    if (at != DP_RECORDS_NONE && (values[0] > 0 || dump->mixed_sizes || !dump->heap))
        dp_records_add_id(r, id, at);
    return at;
}

/* Whether the record is the entry's, by its id, and unchanged. Then the entry is shown by this dump. */
static inline bool is_unchanged(struct dp_records_state *e, uint32_t dump, uint64_t id, bool has_stack, int64_t changes)
{
    if (!id || e->id != id || changes || !has_stack || e->shown == dump)
        return false;
    e->shown = dump;
    return true;
}

/*
 * Counts the records from i on that are unchanged and in the order of the entries, whose first is `cursor`. If records
 * have ids, that is nearly the whole dump.
 */
static size_t pass_unchanged(struct dp_records *r, const struct dp_records_dump *dump, size_t i, uint32_t cursor)
{
    size_t k = 0, n = dump->n - i, n_entries = r->states.n - cursor;
    struct dp_records_state *e = r->states.at + cursor;
    uint32_t number = r->dump;
    n = n < n_entries ? n : n_entries;
    if (dump->heap) {
        const struct deltaprof_heap_record *h = dump->heap + i;
        while (k < n && is_unchanged(&e[k], number, h[k].id, h[k].stack || !h[k].depth,
                                     (h[k].alloc_objects ^ e[k].n) | (h[k].alloc_bytes ^ e[k].v) |
                                         (h[k].free_objects ^ e[k].n) | (h[k].free_bytes ^ e[k].v)))
            k++;
    } else {
        const struct deltaprof_block_record *b = dump->block + i;
        while (k < n && is_unchanged(&e[k], number, b[k].id, b[k].stack || !b[k].depth,
                                     (b[k].contentions ^ e[k].n) | (b[k].delay_ns ^ e[k].v)))
            k++;
    }
    return k;
}

/* Fills rows with the sums of each key, and notes the resets. */
static int gather(struct dp_records *r, const struct dp_records_dump *dump, struct dp_rows *rows)
{
    uint32_t cursor = 0;
    for (size_t i = 0; i < AHEAD; i++)
        ask_memory_for(dump, i);
    for (size_t i = 0; i < dump->n; i++) {
        int err = 0;
        uint64_t id = id_of(dump, i);
        if (id && cursor < r->states.n && r->states.at[cursor].id == id) {
            size_t n_same = pass_unchanged(r, dump, i, cursor);
            i += n_same;
            cursor += (uint32_t)n_same;
            if (i == dump->n)
                break;
            id = id_of(dump, i);
        }
        uint32_t at = cursor;
        size_t n_before = r->entries.n;
        int64_t values[4];
        values_of(dump, i, values);
        ask_memory_for(dump, i + AHEAD);
        if (!has_stack(dump, i))
            return -EINVAL;
        if (!id)
            at = entry_by_stack(r, dump, i, cursor, values, &err);
        else if (at >= r->states.n || r->states.at[at].id != id)
            at = entry_by_id(r, dump, i, id, cursor, values, &err);
        if (err)
            return err;
        if (at == DP_RECORDS_NONE)
            continue;
        struct dp_records_state *e = &r->states.at[at];
        if (e->shown == r->dump) {
            if (add_duplicate(r, rows, i, at, values))
                return -ENOMEM;
            continue;
        }
        if (r->entries.n == n_before)
            cursor = at + 1;
        e->shown = r->dump;
        bool same = values[0] == e->n && values[1] == e->v && values[2] == e->n && values[3] == e->v;
        if (!same && add_row(r, rows, i, at, values))
            return -ENOMEM;
    }
    return 0;
}

/* Turns the sums of a row into differences. */
static int difference(struct dp_records *r, struct dp_row *row)
{
    const struct dp_records_state *e = &r->states.at[row->entry];
    int64_t n = row->values[0], v = row->values[1], free_n = row->values[2], free_v = row->values[3];
    bool down = n < e->n || v < e->v;
    row->values[0] = down ? 0 : minus(n, e->n);
    row->values[1] = down ? 0 : minus(v, e->v);
    row->values[2] = n > free_n ? minus(n, free_n) : 0;
    row->values[3] = v > free_v ? minus(v, free_v) : 0;
    return down ? begin_at(r, row->entry, n, v) : 0;
}

int dp_records_subtract(struct dp_records *r, const struct dp_records_dump *dump, struct dp_rows *rows)
{
    dp_vec_clear(&r->begins);
    if (++r->dump == 0) /* entries of 2^32 dumps ago would look like entries of this one */
        r->dump = 1;
    if (r->entries.n > r->n_plenty) {
        dp_records_evict(r);
        if (r->entries.n > r->n_plenty / 2) /* most are in use: try again when the number has grown by half */
            r->n_plenty = r->entries.n + r->entries.n / 2;
    }
    int err = gather(r, dump, rows);
    if (err == -ENOMEM && !dp_records_evict(r)) {
        dp_vec_clear(rows);
        dp_vec_clear(&r->begins);
        r->dump++;
        err = gather(r, dump, rows);
    }
    if (!err)
        drop_resets_of_the_shown(r);
    if (err)
        return err;
    for (size_t i = 0; i < rows->n && !err; i++)
        err = difference(r, &rows->at[i]);
    return err;
}

void dp_records_commit(struct dp_records *r, const struct dp_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        struct dp_records_state *e = &r->states.at[rows->at[i].entry];
        e->n = plus(e->n, rows->at[i].values[0]);
        e->v = plus(e->v, rows->at[i].values[1]);
    }
    for (size_t i = 0; i < r->begins.n; i++) {
        struct dp_records_state *e = &r->states.at[r->begins.at[i].entry];
        e->n = r->begins.at[i].n;
        e->v = r->begins.at[i].v;
    }
    dp_vec_fini(&r->begins);
}

/* ---- what callers keep with an entry ---------------------------------------------------------------------------- */

int64_t dp_records_size(const struct dp_records *r, const struct dp_row *row)
{
    return r->entries.at[row->entry].size;
}

uint32_t *dp_records_note(struct dp_records *r, const struct dp_row *row)
{
    return &r->notes.at[row->entry];
}

void dp_records_clear_notes(struct dp_records *r)
{
    for (size_t i = 0; i < r->notes.n; i++)
        r->notes.at[i] = 0;
}
