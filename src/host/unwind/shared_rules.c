/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/shared_rules.c - a table of unwind rules in memory that forked processes share.
 *
 * 1. A key is an object and an address in it, exactly. Ids of objects mean the same in two processes only if the object
 *    was entered before the fork that separates them. So `n_objects` is a bound: ids below it are shared. It is raised
 *    only by the process that made the table, and a forked child keeps the bound that its parent had. An object without
 *    a build-id is not shared, because another file could take its place and its id.
 * 2. A row is two words, value and value ^ product of the key. All processes may write it at the same time, without a
 *    lock: words of two writers match no key. The product of an odd factor is a different one for each key. All
 *    accesses to rows are relaxed, because a row publishes nothing else.
 * 3. Processes of a family may have different rights, so a rule is not trusted: a rule that dp_rule_make could not have
 *    made is ignored. Any other rule leads to readable memory only, because a walk checks its bounds. A hostile process
 *    can cause wrong stacks, and no more.
 * 4. A child that knows more objects makes a table for its own children, at most TABLES times in a line of processes:
 *    a table that is replaced stays mapped, because another thread may be reading it.
 *
 * [BOUND] The table is stored before its bound, with release, and the bound is loaded first, with acquire. Without it a
 * thread could use the new bound with the old table, where ids have another meaning.
 */
#include "host/unwind/shared_rules.h"

#include "base/atomic.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/objects/objects.h"
#include "host/unwind/rule.h"

enum { ROW_BITS = 13, TABLES = 4, ID_MAX = UINT16_MAX };
#define PC_BITS     48
#define TABLE_BYTES (sizeof(struct row) << ROW_BITS)
#define KNOWN       ((uint64_t)1 << 32) /* above the rule: tells a row from an empty one */

struct row {
    _Atomic uint64_t value, check;
};

static struct {
    _Atomic(struct row *) rows;
    _Atomic uint32_t n_objects; /* 0: nothing is shared */
    _Atomic uint32_t n_tables;  /* relaxed, as is_own: written by the thread that forks */
    _Atomic bool is_own;
} shared;

/* The product of the key of this code; 0: it is not shared. */
static uint64_t product(dp_object_id id, uintptr_t pc)
{
    if (id >= dp_load_acquire(&shared.n_objects) /* [BOUND] */ || id > ID_MAX || (uint64_t)pc >> PC_BITS ||
        !dp_object_get(id)->build_id_bytes)
        return 0;
    return ((uint64_t)id << PC_BITS | pc) * 0x9E3779B97F4A7C15u;
}

static struct row *row_of(uint64_t product)
{
    return dp_load_relaxed(&shared.rows) + (product >> (64 - ROW_BITS));
}

bool dp_shared_rules_find(dp_object_id id, uintptr_t lookup_pc, uint32_t *rule)
{
    uint64_t key = product(id, lookup_pc);
    if (!key)
        return false;
    const struct row *row = row_of(key);
    uint64_t value = dp_load_relaxed(&row->value);
    *rule = (uint32_t)value;
    return value >> 32 == KNOWN >> 32 && (dp_load_relaxed(&row->check) ^ value) == key && dp_rule_is_valid(*rule);
}

void dp_shared_rules_put(dp_object_id id, uintptr_t lookup_pc, uint32_t rule)
{
    uint64_t key = product(id, lookup_pc);
    if (!key)
        return;
    struct row *row = row_of(key);
    dp_store_relaxed(&row->value, KNOWN | rule);
    dp_store_relaxed(&row->check, (KNOWN | rule) ^ key);
}

static bool make_table(void)
{
    struct row *rows = dp_load_relaxed(&shared.rows), *made;
    if (dp_load_relaxed(&shared.n_tables) == TABLES || !(made = dp_mem_map_shared(TABLE_BYTES)))
        return false;
    dp_add_relaxed(&shared.n_tables, 1);
    if (!dp_cas_publish(&shared.rows, &rows, made)) /* another thread forks, too */
        dp_mem_unmap(made, TABLE_BYTES);
    dp_store_relaxed(&shared.is_own, true);
    return true;
}

bool dp_shared_rules_learn(void)
{
    uint32_t n_objects = dp_objects_count();
    bool is_own = dp_load_relaxed(&shared.is_own);
    if (!is_own && (n_objects == dp_load_relaxed(&shared.n_objects) || !make_table()))
        return false;
    dp_store_release(&shared.n_objects, n_objects); /* [BOUND] */
    return true;
}

DP_IN_CHILD void dp_shared_rules_fork_child(void)
{
    dp_store_relaxed(&shared.is_own, false);
}
