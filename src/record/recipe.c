/* SPDX-License-Identifier: MIT */
/*
 * record/recipe.c - the cache of recipes: a fixed array of rows, a key lives in one of them or nowhere.
 *
 * Any thread may overwrite any row at any time, without a lock and without waiting: word0 = key ^ word1, so that words
 * of two writers do not match a key. All accesses are relaxed: a row publishes nothing but itself, and the frame id in
 * it refers to words that are read by reports only, after the record that holds it was published.
 *
 * A recipe is a function of the address while the object stays loaded. Keys carry the generation, which moves after an
 * object was retired; while an unload is under way nothing is stored, and an address without an object is never
 * stored, because something may be loaded there later. 16 bits of generation wrap: a row would have to survive
 * 65,536 unloads unused and unreplaced, and then be wanted.
 */
#include "record/recipe.h"

#include "base/mem.h"

#include <errno.h>

struct dp_recipe_row *dp_recipe_rows;
uint64_t dp_recipe_mask;

int dp_recipe_init(size_t budget_bytes, bool with_rules)
{
    size_t n = 256;
    while (n * 2 * sizeof *dp_recipe_rows <= budget_bytes)
        n *= 2;
    dp_recipe_rows = dp_mem_map(n * sizeof *dp_recipe_rows);
    if (!dp_recipe_rows)
        return -ENOMEM;
    dp_recipe_mask = n - 1;
    return 0;
}

uint64_t dp_recipe_fill(uintptr_t lookup_pc, uint64_t key)
{
    dp_object_id object = dp_object_find(lookup_pc);
    dp_frame_id frame = dp_frame_intern_in(object, lookup_pc);
    uint64_t value = (uint64_t)frame << 32;
    if (frame && object && !dp_objects_unloading()) {
        struct dp_recipe_row *row = &dp_recipe_rows[(lookup_pc ^ lookup_pc >> 14) & dp_recipe_mask];
        dp_store_relaxed(&row->value, value);
        dp_store_relaxed(&row->check, key ^ value);
    }
    return value;
}
