/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/address_rows.c - subtracts the counts of exact addresses from what a consumer delivered of them, and splits
 * rows by the differences.
 *
 * The counters of records are right; the addresses share them out. A sample between two counters may be in one report
 * at its address and not yet in its record: an address gets at most what its row has left, and the rest of it stays for
 * the next report.
 */
#include "host/cpu/address_rows.h"

#include "host/cpu/addresses.h"

#include <errno.h>
#include <string.h>

/* Gives base an entry for each slot. False: no memory. */
static bool cover(struct dp_address_baseline *base)
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
                      struct dp_address_piece *piece)
{
    struct dp_cpu_address now;
    if (!dp_cpu_addresses_read(table, slot, &now))
        return false;
    uint32_t number = table * dp_cpu_addresses_slots() + slot;
    *piece = (struct dp_address_piece){.slot = number,
                                       .generation = generation,
                                       .record = now.record,
                                       .distance = now.distance,
                                       .n = now.n,
                                       .ns = now.ns};
    if (base && base->at[number].generation == generation) {
        piece->n -= base->at[number].n;
        piece->ns -= base->at[number].ns;
    }
    return piece->n > 0 || piece->ns > 0;
}

static int read_table(const struct dp_address_baseline *base, unsigned table, struct dp_address_pieces *pieces)
{
    uint32_t generation = dp_cpu_addresses_begin(table);
    size_t n_before = pieces->n;
    struct dp_address_piece piece;
    for (uint32_t slot = 0; generation && slot < dp_cpu_addresses_slots(); slot++) {
        if (!read_slot(base, table, slot, generation, &piece))
            continue;
        struct dp_address_piece *kept = dp_vec_push(pieces);
        if (!kept)
            return -ENOMEM;
        *kept = piece;
    }
    if (!dp_cpu_addresses_end(table, generation))
        pieces->n = n_before;
    return 0;
}

static int read_all(struct dp_address_baseline *base, struct dp_address_pieces *pieces)
{
    int err = base && !cover(base) ? -ENOMEM : 0;
    dp_vec_clear(pieces);
    for (unsigned table = 0; !err && table < DP_CPU_ADDRESS_TABLES; table++)
        err = read_table(base, table, pieces);
    return err;
}

static int64_t at_most(int64_t n, int64_t most)
{
    return n < 0 ? 0 : n < most ? n : most;
}

static bool push(struct dp_rows *to, const struct dp_row *row, uint32_t part, int64_t n, int64_t ns)
{
    struct dp_row *kept = n | ns ? dp_vec_push(to) : NULL;
    if (kept)
        *kept = (struct dp_row){.id = row->id, .entry = row->entry | part << DP_ROW_PART_SHIFT, .values = {n, ns}};
    return kept || !(n | ns);
}

static bool split(struct dp_rows *to, const struct dp_row *row, struct dp_address_pieces *pieces, uint32_t first)
{
    int64_t n_left = row->values[0], ns_left = row->values[1];
    bool fits = true;
    for (uint32_t i = first; fits && i; i = pieces->at[i - 1].next) {
        struct dp_address_piece *piece = &pieces->at[i - 1];
        n_left -= piece->n = at_most(piece->n, n_left);
        ns_left -= piece->ns = at_most(piece->ns, ns_left);
        fits = push(to, row, piece->distance + 1, piece->n, piece->ns);
    }
    return fits && push(to, row, 0, n_left, ns_left);
}

#define HAS_ROW UINT32_MAX

/* Links the pieces of each record; those of records without a row are not delivered. firsts: by record, all zeros. */
static void link_pieces(const struct dp_rows *rows, struct dp_address_pieces *pieces, uint32_t *firsts)
{
    for (size_t i = 0; i < rows->n; i++)
        firsts[rows->at[i].id] = rows->at[i].entry ? 0 : HAS_ROW;
    for (size_t i = 0; i < pieces->n; i++) {
        uint32_t *first = &firsts[pieces->at[i].record];
        if (*first) {
            pieces->at[i].next = *first == HAS_ROW ? 0 : *first;
            *first = (uint32_t)i + 1;
        } else {
            pieces->at[i].n = pieces->at[i].ns = 0;
        }
    }
    for (size_t i = 0; i < rows->n; i++)
        if (firsts[rows->at[i].id] == HAS_ROW)
            firsts[rows->at[i].id] = 0;
}

static int split_all(struct dp_rows *rows, struct dp_address_pieces *pieces)
{
    size_t firsts_bytes = ((size_t)dp_table_count(DP_KIND_CPU) + 1) * sizeof(uint32_t);
    uint32_t *firsts = dp_mem_map(firsts_bytes);
    struct dp_rows to = {.n_summed = rows->n_summed};
    if (!firsts)
        return -ENOMEM;
    link_pieces(rows, pieces, firsts);
    bool fits = dp_vec_room(&to, rows->n + pieces->n) != NULL;
    for (size_t i = 0; fits && i < rows->n; i++)
        fits = split(&to, &rows->at[i], pieces, rows->at[i].entry ? 0 : firsts[rows->at[i].id]);
    dp_mem_unmap(firsts, firsts_bytes);
    dp_vec_fini(fits ? rows : &to);
    if (!fits)
        return -ENOMEM;
    *rows = to;
    return 0;
}

void dp_address_rows_split(struct dp_rows *rows, struct dp_address_baseline *base, struct dp_address_pieces *pieces)
{
    int err = rows->n ? read_all(base, pieces) : 0;
    if (!err && rows->n && pieces->n)
        err = split_all(rows, pieces);
    if (err || !rows->n)
        dp_vec_clear(pieces);
}

int dp_address_rows_skip(struct dp_address_baseline *base, struct dp_address_pieces *pieces)
{
    return read_all(base, pieces);
}

void dp_address_rows_commit(struct dp_address_baseline *base, const struct dp_address_pieces *pieces)
{
    for (size_t i = 0; i < pieces->n; i++) {
        const struct dp_address_piece *piece = &pieces->at[i];
        struct dp_address_given *given = &base->at[piece->slot];
        if (given->generation != piece->generation)
            *given = (struct dp_address_given){.generation = piece->generation};
        given->n += piece->n;
        given->ns += piece->ns;
    }
}
