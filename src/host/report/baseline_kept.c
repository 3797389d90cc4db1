/* SPDX-License-Identifier: MIT */
/*
 * host/report/baseline_kept.c - keeps the baselines of consumers in the file of tables.
 *
 * Each kind has two columns. The one that is not valid is filled before the file of a profile gets its name, and
 * becomes the valid one afterwards. If the process is killed in between, the number of the file is in the filled
 * column: where that file exists, a reader takes that column.
 *
 * Where another process writes the files (`deltaprof serve -o`), it keeps its baselines there in the same way, by
 * pwrite to the file: its own memory has a copy of the tables, with the same distances.
 */
#include "base/io.h"
#include "host/report/consumer.h"
#include "host/shared/table_file.h"

#include <errno.h>
#include <string.h>

static unsigned next_column(const struct dp_tables_file *header, unsigned kind)
{
    return dp_load_relaxed(&header->current[kind]) == 1;
}

void dp_consumer_baseline_keep(const struct dp_consumer *c, uint32_t seq)
{
    if (!dp_shared_file_is_mapped() || c->kind >= DP_KIND_TABLES || !c->buffers)
        return;
    struct dp_tables_file *header = dp_shared_file_header();
    unsigned which = next_column(header, c->kind);
    struct dp_shared_array *array = dp_shared_array(DP_ARRAY_COLUMNS + 2 * c->kind + which);
    struct dp_tables_file_column *column = &header->columns[which][c->kind];
    struct dp_baseline_entry *to = (void *)array->at;
    uint32_t n = (uint32_t)(c->base.n < array->most ? c->base.n : array->most);
    column->seq = 0;
    dp_fence_release();
    if (!dp_shared_commit(array, n))
        return;
    memcpy(to, c->base.at, n * sizeof *to);
    const struct dp_rows *rows = &c->buffers->rows;
    for (size_t i = 0; i < rows->n + rows->n_more; i++) {
        const struct dp_row *row = &rows->at[i];
        if (row->entry & DP_ROW_SUMMED || row->id >= n)
            continue;
        to[row->id].n += row->values[0];
        to[row->id].v += row->values[1];
    }
    column->n = n;
    column->wall_ns = c->to.wall_ns;
    column->mono_ns = c->to.mono_ns;
    column->off_ns = c->off_to_ns;
    dp_fence_release();
    column->seq = seq;
}

void dp_consumer_baseline_kept(const struct dp_consumer *c)
{
    if (!dp_shared_file_is_mapped() || c->kind >= DP_KIND_TABLES)
        return;
    struct dp_tables_file *header = dp_shared_file_header();
    unsigned which = next_column(header, c->kind);
    if (header->columns[which][c->kind].seq)
        dp_store_release(&header->current[c->kind], which + 1);
}

void dp_consumer_baseline_adopt(struct dp_consumer *c, unsigned which)
{
    const struct dp_shared_array *array = dp_shared_array(DP_ARRAY_COLUMNS + 2 * c->kind + which);
    const struct dp_tables_file_column *column = &dp_shared_file_header()->columns[which][c->kind];
    const struct dp_baseline_entry *from = (const void *)array->at;
    for (uint32_t id = 0; id < column->n; id++) {
        struct dp_baseline_entry *to = dp_vec_push(&c->base);
        if (to)
            *to = from[id];
    }
    c->showed_inuse = dp_kind_has_levels(c->kind); /* its last file has levels: one that has none is news */
    c->from = (struct dp_window_edge){column->wall_ns, column->mono_ns};
    c->off_from_ns = column->off_ns;
}

/* Writes a part of the copied tables to their file. */
static int write_range(int fd, const void *from, size_t n_bytes)
{
    return dp_io_write_at(fd, from, n_bytes, (const char *)from - (const char *)dp_shared_file_header());
}

int dp_consumer_baseline_store(const struct dp_consumer *c, int fd, unsigned which, uint32_t seq)
{
    struct dp_tables_file *header = dp_shared_file_header();
    enum dp_tables_array id = DP_ARRAY_COLUMNS + 2 * c->kind + which;
    const struct dp_shared_array *array = dp_shared_array(id);
    struct dp_tables_file_column *column = &header->columns[which][c->kind];
    uint32_t n = (uint32_t)(c->base.n < array->most ? c->base.n : array->most);
    if (n)
        memcpy(array->at, c->base.at, n * sizeof *c->base.at);
    *column = (struct dp_tables_file_column){c->from.wall_ns, c->from.mono_ns, c->off_from_ns, n, seq};
    dp_shared_file_commit(id, n);
    int err = write_range(fd, array->at, n * sizeof *c->base.at);
    if (!err)
        err = write_range(fd, &header->arrays[id].committed, sizeof header->arrays[id].committed);
    return err ? err : write_range(fd, column, sizeof *column); /* last: its number makes the column count */
}

int dp_consumer_baseline_choose(int fd, unsigned kind, unsigned which)
{
    _Atomic uint32_t *current = &dp_shared_file_header()->current[kind];
    dp_store_relaxed(current, which + 1);
    return write_range(fd, current, sizeof *current);
}

int dp_consumer_baseline_discard(int fd, unsigned kind, unsigned which)
{
    uint32_t *seq = &dp_shared_file_header()->columns[which][kind].seq;
    *seq = 0;
    return write_range(fd, seq, sizeof *seq);
}
