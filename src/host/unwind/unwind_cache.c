/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/unwind_cache.c - the unwind cache: a fixed array of rows. Each key has exactly one row where it can
 * stand.
 *
 * Any thread may overwrite any row at any time, without a lock and without waiting: the second word is key ^ first, so
 * that words of two writers match no key. All accesses are relaxed: a row publishes nothing else. The frame id in it
 * refers to words that only reports read, after the record with that id was published.
 *
 * A rule is a function of the address while the object stays loaded. A generation ends after an object was retired; its
 * rows do not match any more. While an unload is under way nothing is stored and nothing found (generation 0, which no
 * row has). An address without an object is never stored, because a file may be loaded there later.
 *
 * Rows lie as far apart as the code does, so each new frame would touch a page, and a forked worker has a hundred new
 * frames. The cache therefore begins with FIRST_ROWS rows, and uses four times as many after as many rows were filled
 * as a quarter of those in use: by new frames, or by frames that drive each other out. Rows that are not found after
 * that are filled again.
 */
#include "host/unwind/unwind_cache.h"

#include "base/mem.h"
#include "base/stats.h"
#include "host/objects/objects.h"
#include "host/unwind/bare_code.h"
#include "host/unwind/known_code.h"
#include "host/unwind/registered.h"
#include "host/unwind/rule.h"

#include <errno.h>

enum { FIRST_ROWS = 512, GROWTH = 4, PIECE_BYTES = 16 };

/* Tells rows of interrupted pcs, whose frame is another one, from rows of return addresses. */
#define INTERRUPTED UINT64_C(0xA24BAED4963EE407)

_Atomic uint64_t *dp_unwind_cache_rows;
_Atomic uint64_t dp_unwind_cache_mask;
static uint64_t largest_mask;
static _Atomic uint64_t n_filled; /* relaxed: a lost count delays the growth a little */
static bool rules_wanted;

int dp_unwind_cache_init(size_t budget_bytes, bool with_rules)
{
    size_t n = 256;
    while (n * 2 * sizeof *dp_unwind_cache_rows <= budget_bytes)
        n *= 2;
    dp_unwind_cache_rows = dp_mem_table(n * sizeof *dp_unwind_cache_rows);
    if (!dp_unwind_cache_rows)
        return -ENOMEM;
    largest_mask = n - 2;
    dp_store_relaxed(&dp_unwind_cache_mask, n < 2 * FIRST_ROWS ? n - 2 : 2 * FIRST_ROWS - 2);
    rules_wanted = with_rules;
    return 0;
}

/* Counts a row that is filled. */
static void grow(void)
{
    uint64_t mask = dp_load_relaxed(&dp_unwind_cache_mask), n = dp_load_relaxed(&n_filled) + 1;
    if (mask == largest_mask)
        return;
    dp_store_relaxed(&n_filled, n);
    if (n < (mask + 2) / 2 / 4)
        return;
    uint64_t next = (mask + 2) * GROWTH - 2;
    dp_store_relaxed(&dp_unwind_cache_mask, next < largest_mask ? next : largest_mask);
}

/* start: where the function begins, if its object has unwind data for it. is_caller: lookup_pc is in a call. */
static uint32_t make_rule(dp_object_id id, uintptr_t lookup_pc, bool is_caller, uintptr_t *start)
{
    struct dp_object unknown = {0}; /* if the table of objects is full */
    const struct dp_object *object = id ? dp_object_get(id) : &unknown;
    if (!id)
        dp_object_look(lookup_pc, &unknown);
    struct dp_cfi cfi = {(uintptr_t)object->eh_frame_hdr, object->fde_table, object->n_fdes, object->cfi_start,
                         object->cfi_end};
    struct dp_cfi_row row;
    bool found = dp_cfi_find(&cfi, lookup_pc, &row) > 0;
    if (found)
        *start = row.start;
#if defined(__x86_64__)
    bool may_return = id || unknown.end; /* generated code does not: it may go while it is read */
#else
    bool may_return = true; /* an emulator puts that code into memory of no file */
#endif
    if ((!found || row.signal) && may_return && dp_known_signal_return(lookup_pc + 1))
        return dp_rule_signal();
    if (!found && id && dp_known_context_start(lookup_pc + 1))
        return dp_rule_of_kind(DP_RULE_END);
    uint32_t rule;
    if (!id && !unknown.end && dp_registered_find(lookup_pc, &rule))
        return rule;
#if defined(__aarch64__)
    /* Where generated code was interrupted it is there: its page is. */
    uintptr_t page = lookup_pc & ~(uintptr_t)(DP_PAGE_LEAST - 1);
    if (!id && !unknown.end && !is_caller && dp_bare_code_find_in(page, page + DP_PAGE_LEAST, lookup_pc, false, &row)) {
        rule = dp_rule_make(&row, lookup_pc);
        return dp_rule_kind(rule) == DP_RULE_LIBUNWIND ? dp_rule_none() : rule;
    }
#endif
    if (!found && id &&
        (dp_bare_code_find(lookup_pc + is_caller, is_caller, &row) ||
         dp_bare_code_find_in(object->start, object->end, lookup_pc + is_caller, is_caller, &row))) {
        rule = dp_rule_make(&row, lookup_pc);
        return dp_rule_kind(rule) == DP_RULE_LIBUNWIND ? dp_rule_none() : rule; /* libunwind has no data either */
    }
    if (found && dp_known_left_trace(&row, lookup_pc + 1))
        return dp_rule_hosted();
    return found ? dp_rule_make(&row, lookup_pc) : dp_rule_none();
}

static dp_frame_id frame_at(dp_object_id object, uintptr_t lookup_pc)
{
    dp_frame_id frame = dp_frame_intern_in(object, lookup_pc);
    if (frame)
        return frame;
    dp_stats_add(DP_STAT_FRAMES_FULL, 1);
    return DP_FRAME_OVERFLOW;
}

static void store(uintptr_t behind, uint64_t generation_key, uint64_t value)
{
    grow();
    _Atomic uint64_t *row = &dp_unwind_cache_rows[behind & dp_load_relaxed(&dp_unwind_cache_mask)];
    dp_store_relaxed(&row[0], value);
    dp_store_relaxed(&row[1], value ^ dp_unwind_cache_key(behind, generation_key));
}

static uint64_t fill(uintptr_t behind, bool is_caller, uint32_t generation)
{
    uintptr_t lookup_pc = behind - 1, start;
    dp_object_id object = dp_object_find(lookup_pc);
    bool may_store = object && generation && !dp_objects_unloading();
    uint64_t value = frame_at(object, lookup_pc);
    if (rules_wanted)
        value |= (uint64_t)make_rule(object, lookup_pc, is_caller, &start) << 32;
    if (may_store && !dp_objects_unloading())
        store(behind, dp_unwind_cache_generation_key(generation), value);
    return value;
}

uint64_t dp_unwind_cache_fill(uintptr_t behind, uint32_t generation)
{
    return fill(behind, true, generation);
}

uint64_t dp_unwind_cache_exact(uintptr_t pc, uint32_t generation)
{
    uint64_t key = dp_unwind_cache_generation_key(generation), value;
    if (dp_unwind_cache_peek(dp_unwind_cache_rows, dp_load_relaxed(&dp_unwind_cache_mask), key, pc + 1, &value) &&
        value)
        return value;
    return fill(pc + 1, false, generation);
}

uint64_t dp_unwind_cache_interrupted(uintptr_t pc, uint32_t generation)
{
    uint64_t key = dp_unwind_cache_generation_key(generation) ^ INTERRUPTED, value;
    if (dp_unwind_cache_peek(dp_unwind_cache_rows, dp_load_relaxed(&dp_unwind_cache_mask), key, pc + 1, &value) &&
        value)
        return value;
    dp_object_id object = dp_object_find(pc);
    bool may_store = object && generation && !dp_objects_unloading();
    uintptr_t start = pc & ~(uintptr_t)(PIECE_BYTES - 1);
    uint32_t rule = make_rule(object, pc, false, &start);
    value = frame_at(object, start) | (uint64_t)rule << 32;
    if (may_store && !dp_objects_unloading())
        store(pc + 1, key, value);
    return value;
}

static uint64_t value_of_sibling(uintptr_t pc, bool exact, dp_object_id object)
{
    uintptr_t lookup_pc = exact ? pc : pc - 1, start = pc & ~(uintptr_t)(PIECE_BYTES - 1);
    if (!object) /* generated code may go while it is read */
        return frame_at(0, exact ? start : lookup_pc) | (uint64_t)dp_rule_none() << 32;
    uint32_t rule = make_rule(object, lookup_pc, !exact, &start);
    return frame_at(object, exact ? start : lookup_pc) | (uint64_t)rule << 32;
}

uint64_t dp_unwind_cache_of_sibling(uintptr_t pc, bool exact, uint32_t generation, bool (*is_there)(void *ctx),
                                    void *ctx)
{
    uint64_t key = dp_unwind_cache_generation_key(generation) ^ (exact ? INTERRUPTED : 0), value;
    uintptr_t behind = exact ? pc + 1 : pc;
    uint64_t mask = dp_load_relaxed(&dp_unwind_cache_mask);
    if (dp_unwind_cache_peek(dp_unwind_cache_rows, mask, key, behind, &value) && value)
        return value;
    if (!dp_objects_forbid_unload())
        return 0;
    dp_object_id object = 0;
    value = 0;
    if (is_there(ctx)) {
        object = dp_object_find(exact ? pc : pc - 1);
        value = value_of_sibling(pc, exact, object);
    }
    if (object)
        store(behind, key, value);
    dp_objects_allow_unload();
    return value;
}

bool dp_unwind_cache_depth_of_sibling(uintptr_t pc, bool exact, bool (*is_there)(void *ctx), void *ctx,
                                      uintptr_t *depth_bytes)
{
    if (!dp_objects_forbid_unload())
        return false;
    uintptr_t lookup_pc = exact ? pc : pc - 1, start = 0;
    dp_object_id object = is_there(ctx) ? dp_object_find(lookup_pc) : 0;
    if (object)
        make_rule(object, lookup_pc, !exact, &start);
    bool known = start && dp_unwind_prologue_depth(start, pc, dp_object_get(object)->end, depth_bytes);
    dp_objects_allow_unload();
    return known;
}
