/* SPDX-License-Identifier: MIT */
/*
 * host/heap/age.c - reads the table of live blocks once and sums its entries by record and age.
 *
 * Blocks come and go while the table is read, so its sums differ a little from the counters of the records. The
 * counters are right: each age gets what the table says, from the oldest on, as long as there is some left; what
 * remains is new, and goes to the youngest age.
 */
#include "host/heap/age.h"

#include "host/heap/inherited.h"
#include "host/heap/lifetime.h"
#include "host/heap/live_blocks.h"
#include "host/table/record.h"

#include <errno.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static const struct {
    int64_t below_ns;
    const char *name;
} ages[DP_HEAP_AGES] = {{SECOND, "<1s"},        {10 * SECOND, "<10s"},  {60 * SECOND, "<1m"},
                        {600 * SECOND, "<10m"}, {3600 * SECOND, "<1h"}, {INT64_MAX, "older"}};

const char *dp_heap_age_of_row(const struct dp_row *row)
{
    return row->entry >> DP_ROW_PART_SHIFT ? ages[(row->entry >> DP_ROW_PART_SHIFT) - 1].name : NULL;
}

unsigned dp_heap_age_of(int64_t ns)
{
    unsigned age = 0;
    while (ns >= ages[age].below_ns && age < DP_HEAP_AGES - 1)
        age++;
    return age;
}

/* In use, by record, origin (own, inherited) and age. */
struct cells {
    struct {
        int64_t n, v;
    } * at;
    uint32_t n_records;
    unsigned n_origins;
};

static size_t cell(const struct cells *cells, uint32_t id, bool inherited, unsigned age)
{
    return ((size_t)id * cells->n_origins + inherited) * DP_HEAP_AGES + age;
}

static size_t bytes_of(const struct cells *cells)
{
    return (size_t)cells->n_records * cells->n_origins * DP_HEAP_AGES * sizeof *cells->at;
}

static int read_blocks(struct cells *cells, int64_t now_ns)
{
    struct dp_heap_live_block block;
    uint32_t epoch = dp_record_epoch();
    cells->n_records = dp_table_count(DP_KIND_HEAP);
    cells->n_origins = epoch ? 2 : 1;
    cells->at = dp_mem_map(bytes_of(cells));
    if (!cells->at)
        return -ENOMEM;
    for (size_t i = 0, n = dp_heap_live_blocks_table().n_slots; i < n; i++) {
        uintptr_t key;
        if (!dp_heap_live_blocks_read(i, &key, &block) || block.record >= cells->n_records || !block.born_ns)
            continue;
        bool inherited = epoch && !dp_heap_inherited_is_own(&block, epoch);
        size_t to = cell(cells, block.record, inherited, dp_heap_age_of(now_ns - block.born_ns));
        cells->at[to].n += block.objects;
        cells->at[to].v += dp_heap_inherited_bytes(&block);
    }
    return 0;
}

static int append_row(struct dp_rows *rows, const struct dp_row *row)
{
    struct dp_row *kept = dp_vec_push(rows);
    if (kept)
        *kept = *row;
    return kept ? 0 : -ENOMEM;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Appends a row for each age of what the row has in use. A sum of rows has no age. */
static int split_row(struct dp_rows *to, const struct cells *cells, const struct dp_row *row)
{
    if (row->entry & DP_ROW_SUMMED)
        return append_row(to, row);
    int64_t n = row->values[2], v = row->values[3];
    for (unsigned age = DP_HEAP_AGES; n && age--;) {
        struct dp_row part = {.id = row->id, .entry = row->entry | (age + 1) << DP_ROW_PART_SHIFT};
        bool known = row->id < cells->n_records && (row->entry & DP_ROW_INHERITED) < cells->n_origins;
        size_t i = known ? cell(cells, row->id, row->entry & DP_ROW_INHERITED, age) : 0;
        part.values[2] = !age ? n : known ? least(cells->at[i].n, n) : 0;
        part.values[3] = part.values[2] == n ? v : known ? least(cells->at[i].v, v) : 0;
        n -= part.values[2];
        v -= part.values[2] ? part.values[3] : 0;
        if (part.values[2] && append_row(to, &part))
            return -ENOMEM;
    }
    return 0;
}

int dp_heap_age_read_lives(struct dp_heap_age_baseline *base, struct dp_heap_age_lives *lives)
{
    uint32_t n = dp_heap_lifetime_is_mapped() ? dp_table_count(DP_KIND_HEAP) : 0;
    if (base && n > base->n) {
        if (!dp_vec_room(base, n - base->n))
            return -ENOMEM;
        memset(base->at + base->n, 0, (n - base->n) * sizeof *base->at);
        base->n = n;
    }
    for (uint32_t id = 0; id < n; id++) {
        struct dp_heap_lifetime now = dp_heap_lifetime_read(id);
        struct dp_heap_age_life life = {.id = id};
        int64_t any = 0;
        memcpy(life.values, &now, sizeof now);
        for (int i = 0; i < DP_AGE_VALUES; i++)
            any |= life.values[i] -= base ? base->at[id].values[i] : 0;
        if (!any)
            continue;
        struct dp_heap_age_life *kept = dp_vec_push(lives);
        if (!kept)
            return -ENOMEM;
        *kept = life;
    }
    return 0;
}

/* The rows are by record; a record's inherited row comes before its own one. */
static int rebuild(struct dp_rows *to, const struct dp_rows *rows, const struct dp_heap_age_lives *lives,
                   const struct cells *cells)
{
    size_t i = 0, j = 0;
    int err = 0;
    while (!err && (i < rows->n || j < lives->n)) {
        const struct dp_row *row = i < rows->n ? &rows->at[i] : NULL;
        if (row && j < lives->n && lives->at[j].id < row->id)
            row = NULL;
        struct dp_row plain = {.id = row ? row->id : lives->at[j].id};
        bool own = !row || !row->entry, lived = own && j < lives->n && lives->at[j].id == plain.id;
        if (row && !(row->entry & DP_ROW_SUMMED)) {
            plain.values[0] = row->values[0];
            plain.values[1] = row->values[1];
        }
        if (plain.values[0] || plain.values[1] || lived)
            err = append_row(to, &plain);
        if (row && !err)
            err = split_row(to, cells, row);
        i += row != NULL;
        j += lived;
    }
    return err;
}

int dp_heap_age_split(struct dp_rows *rows, struct dp_heap_age_baseline *base, struct dp_heap_age_lives *lives,
                      int64_t now_ns)
{
    struct cells cells = {0};
    struct dp_rows to = {0};
    int err = read_blocks(&cells, now_ns);
    if (!err)
        err = dp_heap_age_read_lives(base, lives);
    if (!err)
        err = rebuild(&to, rows, lives, &cells);
    dp_mem_unmap(cells.at, bytes_of(&cells));
    if (err) {
        dp_vec_fini(&to);
        return err;
    }
    dp_vec_fini(rows);
    *rows = to;
    return 0;
}

void dp_heap_age_commit(struct dp_heap_age_baseline *base, const struct dp_heap_age_lives *lives)
{
    for (size_t i = 0; i < lives->n; i++)
        for (int v = 0; v < DP_AGE_VALUES; v++)
            base->at[lives->at[i].id].values[v] += lives->at[i].values[v];
}
