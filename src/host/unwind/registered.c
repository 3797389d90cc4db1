/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/registered.c - keeps unwind rules of code that the program generated, from the tables that it gives to
 * libgcc
 * (__register_frame).
 *
 * The program may withdraw a table and unmap it while another thread walks. So walks never read these tables: the rules
 * of a function are made when its table is registered, and kept here. A step is {offset in the function, rule}; it
 * holds up to the next step.
 *
 *     push %rbp; push %rbx; sub $8, %rsp; call f; ...        steps: {0, none} {6, CFA = sp + 32, fp in slot 2} ...
 *
 * A return address lies behind a call. No call fits into the few bytes between two instructions of a prologue, so the
 * rows there are not kept: they would fill the steps. A frame that a signal interrupted there is walked as code without
 * tables.
 *
 * Functions stand in a hash table, by their size class k, the least with n_bytes <= 2^k, and by start >> k. The
 * function of a pc begins in the pc's piece of 2^k bytes or in the one before, so a search makes two probes for each
 * class in use. A row that was used once never looks unused again, so that no search ends too early at it.
 *
 * [ROW] A row is a sequence lock: version is odd while the row changes. Writers claim it by a compare-and-swap and
 * never wait; a row whose writer a fork has discarded is lost. A reader that sees a version change finds nothing.
 *
 * A withdrawal begins a new generation (objects.h), because the stack cache may hold frames of that code.
 *
 * LuaJIT registers a range for all its code, with a handler of exceptions and without rules. Its one step has a rule of
 * its own (walk.c).
 */
#include "host/unwind/registered.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "host/objects/objects.h"
#include "host/objects/reach.h"
#include "host/unwind/cfi.h"
#include "host/unwind/rule.h"

#include <deltaprof/hooks.h>
#include <stddef.h>

enum { ROWS = 4096, STEPS = 11, PROBES = 32, LEAST_CLASS = 4 };
enum { RECORDS_MAX = 1 << 20, RECORD_BYTES_MAX = 1 << 20, FUNCTION_ROWS_MAX = 4096, PAGE = DP_PAGE_LEAST };

#if defined(__x86_64__)
enum { CALL_BYTES = 3 }; /* the shortest call, and one byte of the instruction that changes the row */
#else
enum { CALL_BYTES = 0 };
#endif

struct function {
    _Atomic uint32_t version;
    _Atomic uint32_t n_steps;
    _Atomic uint64_t key;    /* 0: the row was never used */
    _Atomic uintptr_t table; /* 0: the row is free */
    _Atomic uintptr_t start;
    _Atomic uint64_t n_bytes;
    _Atomic uint64_t steps[STEPS]; /* offset << 32 | rule */
};
_Static_assert(sizeof(struct function) == 128, "two cache lines");

static struct function *_Atomic functions; /* NULL: nothing was registered */
static _Atomic uint64_t classes; /* a bit for each class in use; relaxed: a search may come a moment too early */

static unsigned class_of(uint64_t n_bytes)
{
    unsigned k = LEAST_CLASS;
    while (n_bytes > (uint64_t)1 << k)
        k++;
    return k;
}

static uint64_t key_of(uintptr_t piece, unsigned k)
{
    return (uint64_t)piece << 6 | k;
}

static struct function *row_of(struct function *rows, uint64_t key, unsigned probe)
{
    return &rows[(dp_hash_mix(key) + probe) % ROWS];
}

/* ---- walks ------------------------------------------------------------------------------------------------------ */

static bool read_rule(const struct function *f, uintptr_t pc, uint32_t *rule)
{
    uint32_t version = dp_load_acquire(&f->version), n = dp_load_relaxed(&f->n_steps); /* [ROW] */
    uint64_t at = pc - dp_load_relaxed(&f->start), step = dp_rule_none();
    if (version & 1 || at >= dp_load_relaxed(&f->n_bytes))
        return false;
    for (uint32_t i = 0; i < n && i < STEPS; i++) {
        uint64_t next = dp_load_relaxed(&f->steps[i]);
        if (next >> 32 > at)
            break;
        step = next;
    }
    dp_fence_acquire();
    *rule = (uint32_t)step;
    return dp_load_relaxed(&f->version) == version && *rule != dp_rule_none();
}

bool dp_registered_find(uintptr_t pc, uint32_t *rule)
{
    struct function *rows = dp_load_acquire(&functions); /* [ROW] */
    for (uint64_t left = dp_load_relaxed(&classes); rows && left; left &= left - 1) {
        unsigned k = (unsigned)__builtin_ctzll(left);
        for (uintptr_t back = 0; back < 2; back++) {
            uint64_t key = key_of((pc >> k) - back, k), seen = 1;
            for (unsigned i = 0; i < PROBES && seen; i++) {
                const struct function *f = row_of(rows, key, i);
                seen = dp_load_relaxed(&f->key);
                if (seen == key && read_rule(f, pc, rule))
                    return true;
            }
        }
    }
    return false;
}

/* ---- registration ----------------------------------------------------------------------------------------------- */

static struct function *map_rows(void)
{
    struct function *rows = dp_load_acquire(&functions), *none = NULL; /* [ROW] */
    if (rows)
        return rows;
    rows = dp_mem_map(ROWS * sizeof *rows);
    if (rows && !dp_cas_publish(&functions, &none, rows)) {
        dp_mem_unmap(rows, ROWS * sizeof *rows);
        rows = none;
    }
    return rows;
}

/* Fills in the steps of a function; returns their number, 0 if its table is damaged. */
static uint32_t make_steps(const struct dp_cfi *cfi, uintptr_t fde, uintptr_t start, uintptr_t end,
                           uint64_t steps[STEPS])
{
    uint32_t n = 0;
    uintptr_t pc = start;
    for (int rows = 0; pc < end && rows < FUNCTION_ROWS_MAX; rows++) {
        struct dp_cfi_row row;
        if (dp_cfi_row_of(cfi, fde, pc, &row) <= 0)
            return 0;
        uintptr_t next = row.next < end ? row.next : end;
        uint32_t rule = dp_rule_make(&row, pc);
        if (next < pc + CALL_BYTES || dp_rule_kind(rule) == DP_RULE_LIBUNWIND)
            rule = dp_rule_none();
        if (!n || (uint32_t)steps[n - 1] != rule) {
            if (n == STEPS) /* the rest is not known */
                break;
            steps[n++] = (uint64_t)(pc - start) << 32 | rule;
        }
        pc = next;
    }
    if (pc < end)
        steps[n - 1] = steps[n - 1] >> 32 << 32 | dp_rule_none();
    return n;
}

static void add(struct function *rows, uintptr_t table, const struct dp_cfi *cfi, uintptr_t fde)
{
    uintptr_t start, end;
    uint64_t steps[STEPS];
    if (dp_cfi_code_of(cfi, fde, &start, &end) || end - start > INT32_MAX)
        return;
    steps[0] = dp_rule_hosted();
    uint32_t n = dp_cfi_is_hosted(cfi, fde) ? 1 : make_steps(cfi, fde, start, end, steps);
    unsigned k = class_of(end - start);
    uint64_t key = key_of(start >> k, k);
    for (unsigned i = 0; n && i < PROBES; i++) {
        struct function *f = row_of(rows, key, i);
        uint32_t version = dp_load_relaxed(&f->version);
        if (version & 1 || dp_load_relaxed(&f->table) || !dp_cas_acquire(&f->version, &version, version + 1))
            continue;
        dp_fence_release(); /* [ROW] a reader that finds any of what follows finds an odd version, or a later one */
        dp_store_relaxed(&f->key, key);
        dp_store_relaxed(&f->table, table);
        dp_store_relaxed(&f->start, start);
        dp_store_relaxed(&f->n_bytes, end - start);
        dp_store_relaxed(&f->n_steps, n);
        for (uint32_t step = 0; step < n; step++)
            dp_store_relaxed(&f->steps[step], steps[step]);
        dp_store_release(&f->version, version + 2); /* [ROW] */
        dp_or_relaxed(&classes, (uint64_t)1 << k);
        return;
    }
}

/* Whether n_bytes at `at` can be read; *known: up to here they can. */
static bool readable(uintptr_t at, size_t n_bytes, uintptr_t *known)
{
    for (; *known < at + n_bytes; *known += PAGE)
        if (!dp_reach_probe(*known))
            return false;
    return true;
}

typedef uint32_t unaligned_half __attribute__((may_alias, aligned(1)));

void deltaprof_code_registered(const void *eh_frame)
{
    uintptr_t table = (uintptr_t)eh_frame, at = table, known = table & ~(uintptr_t)(PAGE - 1);
    struct function *rows = table ? map_rows() : NULL;
    for (int i = 0; rows && i < RECORDS_MAX && readable(at, 8, &known); i++) {
        const unaligned_half *record = (const unaligned_half *)at;
        uint32_t length = record[0], back = record[1];
        if (!length || length > RECORD_BYTES_MAX || length < 4 || !readable(at, length + 4, &known))
            return;
        struct dp_cfi cfi = {.start = table, .end = at + 4 + length};
        if (back && back <= at + 4 - table) /* its CIE was read, too */
            add(rows, table, &cfi, at);
        at = cfi.end;
    }
}

void deltaprof_code_withdrawn(const void *eh_frame)
{
    struct function *rows = dp_load_acquire(&functions); /* [ROW] */
    bool any = false;
    for (unsigned i = 0; rows && eh_frame && i < ROWS; i++) {
        struct function *f = &rows[i];
        uint32_t version = dp_load_relaxed(&f->version);
        if (dp_load_relaxed(&f->table) != (uintptr_t)eh_frame || version & 1 ||
            !dp_cas_acquire(&f->version, &version, version + 1))
            continue;
        dp_fence_release(); /* [ROW] */
        dp_store_relaxed(&f->n_bytes, 0);
        dp_store_relaxed(&f->table, 0);
        dp_store_release(&f->version, version + 2); /* [ROW] */
        any = true;
    }
    if (any)
        dp_objects_new_generation();
}
