/* SPDX-License-Identifier: MIT */
/*
 * host/objects/functions.c - the table of functions that runtimes name.
 *
 * A function is a row in an arena of bytes: header, name, NUL, file, NUL. Its id is the row's place in units of 8
 * bytes, so that no second table is needed; place 0 is never used. An index by hash holds the ids; a slot goes 0 -> id
 * once, by [FUNCTION]. Two threads that meet the same new function may both write a row; one publishes its row, the
 * other row is wasted. No thread waits for another. A hash places and does not identify: texts are compared.
 *
 * Bounds: a row is taken only below the capacity of the arena, and a probe looks at PROBES slots; beyond either the
 * table counts as full and the function is unknown (0).
 *
 * [FUNCTION] the id is stored with release and loaded with acquire; without it a thread could compare texts that are
 * not written yet.
 */
#include "host/objects/functions.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "host/shared/shared.h"

#include <errno.h>
#include <string.h>

enum { PROBES = 64, UNIT = 8 };

struct row {
    uint32_t first_line;
    uint16_t n_name, n_file;
    char text[]; /* name, NUL, file, NUL */
};

static char *rows;
static struct dp_shared_array *shared; /* the rows that frames refer to, at the same places */
static _Atomic uint32_t *slots;
static uint32_t capacity, slot_mask; /* capacity in units */
static _Atomic uint32_t next;

int dp_functions_init(size_t budget_bytes)
{
    uint32_t n_slots = 64;
    while (n_slots < 1u << 24 && (size_t)n_slots * 2 * sizeof *slots <= budget_bytes / 8)
        n_slots *= 2;
    if (budget_bytes < 2 * n_slots * sizeof *slots)
        return -ENOMEM;
    capacity = (uint32_t)((budget_bytes - n_slots * sizeof *slots) / UNIT);
    slot_mask = n_slots - 1;
    rows = dp_mem_table((size_t)capacity * UNIT);
    _Atomic uint32_t *table = dp_mem_table(n_slots * sizeof *slots);
    if (!rows || !table || dp_shared_array_init(DP_ARRAY_FUNCTIONS, UNIT, 0, capacity, 1))
        return -ENOMEM;
    shared = dp_shared_array(DP_ARRAY_FUNCTIONS);
    shared->used = &next;
    dp_store_relaxed(&next, 1);
    slots = table;
    return 0;
}

/* Cuts the texts to the size of a row, never in the middle of a character. */
static struct deltaprof_function clip(const struct deltaprof_function *f)
{
    struct deltaprof_function out = *f;
    if (!out.file)
        out.file = "", out.n_file = 0;
    if (out.n_name > DP_FUNCTION_NAME_MAX)
        for (out.n_name = DP_FUNCTION_NAME_MAX; out.n_name && (out.name[out.n_name] & 0xc0) == 0x80;)
            out.n_name--;
    if (out.n_file > DP_FUNCTION_FILE_MAX) /* the end of a path is more useful than its beginning */
        for (out.file += out.n_file - DP_FUNCTION_FILE_MAX, out.n_file = DP_FUNCTION_FILE_MAX;
             out.n_file && (*out.file & 0xc0) == 0x80; out.file++)
            out.n_file--;
    return out;
}

static bool is(uint32_t id, const struct deltaprof_function *f)
{
    const struct row *row = (const struct row *)(rows + (size_t)id * UNIT);
    return row->first_line == f->first_line && row->n_name == f->n_name && row->n_file == f->n_file &&
           !memcmp(row->text, f->name, f->n_name) && !memcmp(row->text + f->n_name + 1, f->file, f->n_file);
}

/* Appends a row; returns its id. 0: the arena is full. */
static uint32_t append(const struct deltaprof_function *f)
{
    uint32_t n = (uint32_t)((sizeof(struct row) + f->n_name + f->n_file + 2 + UNIT - 1) / UNIT);
    if (dp_load_relaxed(&next) > capacity - n || n > capacity)
        return 0;
    uint32_t id = dp_add_relaxed(&next, n);
    if (id > capacity - n) {
        dp_sub_relaxed(&next, n);
        return 0;
    }
    struct row *row = (struct row *)(rows + (size_t)id * UNIT);
    row->first_line = f->first_line;
    row->n_name = (uint16_t)f->n_name;
    row->n_file = (uint16_t)f->n_file;
    memcpy(row->text, f->name, f->n_name);
    memcpy(row->text + f->n_name + 1, f->file, f->n_file); /* the arena was zeroed: both end with a NUL */
    return id;
}

bool deltaprof_function_is(uint32_t id, const struct deltaprof_function *function)
{
    if (!slots || !id || id >= dp_load_relaxed(&next))
        return false;
    struct deltaprof_function f = clip(function);
    return is(id, &f);
}

uint32_t deltaprof_function_find(const struct deltaprof_function *function)
{
    if (!slots)
        return 0;
    struct deltaprof_function f = clip(function);
    uint64_t hash = dp_hash_bytes(f.file, f.n_file, dp_hash_bytes(f.name, f.n_name, f.first_line));
    uint32_t mine = 0;
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *slot = &slots[(hash + i) & slot_mask];
        uint32_t id = dp_load_acquire(slot); /* [FUNCTION] */
        if (!id) {
            if (!mine && !(mine = append(&f)))
                return 0;
            if (dp_cas_publish(slot, &id, mine)) /* [FUNCTION] */
                return mine;
        }
        if (is(id, &f))
            return id;
    }
    return 0;
}

void dp_function_publish(uint32_t id)
{
    if (!slots || !id || id >= dp_load_relaxed(&next))
        return;
    const struct row *row = (const struct row *)(rows + (size_t)id * UNIT);
    size_t n_bytes = sizeof *row + row->n_name + row->n_file + 2u;
    if (dp_shared_commit(shared, id + (uint32_t)((n_bytes + UNIT - 1) / UNIT)))
        memcpy(shared->at + (size_t)id * UNIT, row, n_bytes);
}

struct dp_function dp_function_get(uint32_t id)
{
    if (!slots || !id || id >= dp_load_relaxed(&next))
        return (struct dp_function){.name = "", .file = ""};
    const struct row *row = (const struct row *)(rows + (size_t)id * UNIT);
    return (struct dp_function){row->text, row->text + row->n_name + 1, row->first_line};
}

bool dp_functions_adopt(uint32_t n)
{
    if (n > capacity)
        return false;
    memcpy(rows, shared->at, (size_t)n * UNIT);
    dp_store_relaxed(&next, n ? n : 1);
    return true;
}

bool dp_function_is_valid(uint32_t id)
{
    uint32_t n = dp_load_relaxed(&next);
    const struct row *row = (const struct row *)(rows + (size_t)id * UNIT);
    if (!id || id >= n)
        return false;
    size_t room = (size_t)(n - id) * UNIT, text = sizeof *row;
    return text <= room && text + row->n_name + row->n_file + 2u <= room && !row->text[row->n_name] &&
           !row->text[row->n_name + 1 + row->n_file];
}
