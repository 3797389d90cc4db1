/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/address_rows.c - computes what was counted at each exact address since the last delivered profile, and
 * splits rows by these differences.
 *
 * The values of the rows are exact; the addresses only divide them. A sample is added to its address and to its record
 * at two moments, so a report may find it at the address only. Therefore an address gets at most what its row has left,
 * and the rest of its difference stays for the next report.
 */
#include "host/cpu/address_rows.h"

#include "host/cpu/addresses.h"

#include <errno.h>
#include <string.h>

/* Extends base to an entry for each slot. False: no memory. */
static bool extend_baseline(struct dp_address_baseline *base)
{
    size_t want = (size_t)dp_cpu_addresses_slots() * DP_CPU_ADDRESS_TABLES;
    if (want <= base->n)
        return true;
    if (!dp_vec_room(base, want - base->n))
        return false;
    memset(base->at + base->n, 0, (want - base->n) * sizeof *base->at);
    base->n = want;
    return true;
}

static bool read_slot(const struct dp_address_baseline *base, unsigned table, uint32_t slot, uint32_t generation,
                      struct dp_address_delta *delta)
{
    struct dp_cpu_address now;
    if (!dp_cpu_addresses_read(table, slot, &now))
        return false;
    uint32_t number = table * dp_cpu_addresses_slots() + slot;
    *delta = (struct dp_address_delta){.slot = number,
                                       .generation = generation,
                                       .record = now.record,
                                       .distance = now.distance,
                                       .n = now.n,
                                       .ns = now.ns};
    if (base && base->at[number].generation == generation) {
        delta->n -= base->at[number].n;
        delta->ns -= base->at[number].ns;
    }
    return delta->n > 0 || delta->ns > 0;
}

static int read_table(const struct dp_address_baseline *base, unsigned table, struct dp_address_deltas *deltas)
{
    uint32_t generation = dp_cpu_addresses_begin(table);
    size_t n_before = deltas->n;
    struct dp_address_delta delta;
    for (uint32_t slot = 0; generation && slot < dp_cpu_addresses_slots(); slot++) {
        if (!read_slot(base, table, slot, generation, &delta))
            continue;
        struct dp_address_delta *kept = dp_vec_push(deltas);
        if (!kept)
            return -ENOMEM;
        *kept = delta;
    }
    if (!dp_cpu_addresses_end(table, generation))
        deltas->n = n_before;
    return 0;
}

static int read_all(struct dp_address_baseline *base, struct dp_address_deltas *deltas)
{
    int err = base && !extend_baseline(base) ? -ENOMEM : 0;
    dp_vec_clear(deltas);
    for (unsigned table = 0; !err && table < DP_CPU_ADDRESS_TABLES; table++)
        err = read_table(base, table, deltas);
    return err;
}

/* n limited to [0, most]. */
static int64_t limit(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n < most ? n : most;
}

static bool push_row(struct dp_rows *to, const struct dp_row *row, uint32_t part, int64_t n, int64_t ns)
{
    struct dp_row *kept = n | ns ? dp_vec_push(to) : NULL;
    if (kept)
        *kept = (struct dp_row){.id = row->id, .entry = row->entry | part << DP_ROW_PART_SHIFT, .values = {n, ns}};
    return kept || !(n | ns);
}

static bool split_row(struct dp_rows *to, const struct dp_row *row, struct dp_address_deltas *deltas, uint32_t first)
{
    int64_t n_left = row->values[0], ns_left = row->values[1];
    bool fits = true;
    for (uint32_t i = first; fits && i; i = deltas->at[i - 1].next) {
        struct dp_address_delta *delta = &deltas->at[i - 1];
        n_left -= delta->n = limit(delta->n, n_left);
        ns_left -= delta->ns = limit(delta->ns, ns_left);
        fits = push_row(to, row, delta->distance + 1, delta->n, delta->ns);
    }
    return fits && push_row(to, row, 0, n_left, ns_left);
}

#define HAS_ROW UINT32_MAX

/*
 * Links the deltas of each record, and clears those of records without a row: they are not delivered now. firsts: the
 * first delta + 1 by record id, all zeros.
 */
static void link_deltas(const struct dp_rows *rows, struct dp_address_deltas *deltas, uint32_t *firsts)
{
    for (size_t i = 0; i < rows->n; i++)
        firsts[rows->at[i].id] = rows->at[i].entry ? 0 : HAS_ROW;
    for (size_t i = 0; i < deltas->n; i++) {
        uint32_t *first = &firsts[deltas->at[i].record];
        if (*first) {
            deltas->at[i].next = *first == HAS_ROW ? 0 : *first;
            *first = (uint32_t)i + 1;
        } else {
            deltas->at[i].n = deltas->at[i].ns = 0;
        }
    }
    for (size_t i = 0; i < rows->n; i++)
        if (firsts[rows->at[i].id] == HAS_ROW)
            firsts[rows->at[i].id] = 0;
}

static int split_rows(struct dp_rows *rows, struct dp_address_deltas *deltas)
{
    size_t firsts_bytes = ((size_t)dp_table_count(DP_KIND_CPU) + 1) * sizeof(uint32_t);
    uint32_t *firsts = dp_mem_map(firsts_bytes);
    struct dp_rows to = {.n_summed = rows->n_summed};
    if (!firsts)
        return -ENOMEM;
    link_deltas(rows, deltas, firsts);
    bool fits = dp_vec_room(&to, rows->n + deltas->n) != NULL;
    for (size_t i = 0; fits && i < rows->n; i++)
        fits = split_row(&to, &rows->at[i], deltas, rows->at[i].entry ? 0 : firsts[rows->at[i].id]);
    dp_mem_unmap(firsts, firsts_bytes);
    dp_vec_fini(fits ? rows : &to);
    if (!fits)
        return -ENOMEM;
    *rows = to;
    return 0;
}

void dp_address_rows_split(struct dp_rows *rows, struct dp_address_baseline *base, struct dp_address_deltas *deltas)
{
    int err = rows->n ? read_all(base, deltas) : 0;
    if (!err && rows->n && deltas->n)
        err = split_rows(rows, deltas);
    if (err || !rows->n)
        dp_vec_clear(deltas);
}

int dp_address_rows_skip(struct dp_address_baseline *base, struct dp_address_deltas *deltas)
{
    return read_all(base, deltas);
}

void dp_address_rows_commit(struct dp_address_baseline *base, const struct dp_address_deltas *deltas)
{
    for (size_t i = 0; i < deltas->n; i++) {
        const struct dp_address_delta *delta = &deltas->at[i];
        struct dp_address_delivered *delivered = &base->at[delta->slot];
        if (delivered->generation != delta->generation)
            *delivered = (struct dp_address_delivered){.generation = delta->generation};
        delivered->n += delta->n;
        delivered->ns += delta->ns;
    }
}
