/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/libunwind.c - walks the whole stack through libunwind, from inside a hook.
 *
 * By itself libunwind would call dl_iterate_phdr and read memory that may be unmapped; both are forbidden in a hook. So
 * the module gets only this thread's registers and two functions. One finds the unwind table of an address by
 * _dl_find_object. The other reads a word: from the stack (reach.c), from an unwind table that is known to be mapped,
 * or from a page that the kernel was asked about.
 *
 * libunwind has an internal lock and holds it for short moments. A child that was forked in such a moment could never
 * walk again. So a fork bars new walks and waits for those inside. One word counts both, bars in the high bits and
 * walks in the low bits, so that no walk enters unnoticed. A thread that is stopped inside cannot delay a fork for
 * ever: after WAITS yields the fork proceeds, and the child does not use libunwind. A walk that meets the bar keeps the
 * frames that rules found.
 *
 * [INSIDE] a walk decrements the count with release; the fork reads it with acquire. So a fork that sees no walk inside
 * also sees libunwind's lock unlocked.
 */
#include "host/unwind/libunwind.h"

#include "base/mem.h"
#include "base/process.h"
#include "host/unwind/unwind_cache.h"
#include "host/unwind/unwinder.h"
#include "host/unwind/walk.h"

#include <deltaprof/thread.h>
#include <errno.h>
#include <sched.h>
#include <sys/single_threaded.h>

enum { WAITS = 20000, BAR = 1 << 16 };

extern const struct dp_unwinder_ops dp_module_unwind __attribute__((weak, visibility("hidden")));

static struct dp_module module = {.name = "unwind", .builtin = &dp_module_unwind};
static const struct dp_unwinder_ops *_Atomic ops; /* opened and ready */
static _Atomic uint32_t wanted, lost, inside;
static bool alone;

void dp_libunwind_want(void)
{
    if (!dp_load_relaxed(&wanted))
        dp_store_relaxed(&wanted, 1);
}

bool dp_libunwind_wanted(void)
{
    return dp_load_relaxed(&wanted) && !dp_load_relaxed(&lost) && !dp_load_acquire(&ops);
}

int dp_libunwind_load(void)
{
    const struct dp_unwinder_ops *opened = dp_module_open(&module);
    int err = opened ? opened->open() : -ENOENT;
    if (err)
        dp_store_relaxed(&lost, 1);
    else
        dp_store_release(&ops, opened);
    return err;
}

/* ---- the module's view of memory -------------------------------------------------------------------------------- */

struct view {
    struct dp_reach reach;
    uintptr_t table_start, table_end; /* of the object that was looked up last */
    uintptr_t page;                   /* the page that the kernel confirmed last */
};

static bool find_table(void *ctx, uintptr_t pc, uintptr_t *hdr, uintptr_t *fdes, size_t *n_fdes)
{
    struct view *view = ctx;
    const struct dp_object *object = dp_object_get(dp_object_find(pc));
    if (!object->n_fdes)
        return false;
    *hdr = (uintptr_t)object->eh_frame_hdr;
    *fdes = (uintptr_t)object->fde_table;
    *n_fdes = object->n_fdes;
    view->table_start = object->cfi_start;
    view->table_end = object->cfi_end;
    return true;
}

static bool read_word(void *ctx, uintptr_t address, uintptr_t *word)
{
    struct view *view = ctx;
    if (address % 8)
        return false;
    if (!dp_reach_here(&view->reach, address) && address - view->table_start >= view->table_end - view->table_start &&
        address - view->page >= DP_PAGE_LEAST) {
        if (!dp_reach_probe(address))
            return false;
        view->page = address & -(uintptr_t)DP_PAGE_LEAST;
    }
    *word = dp_reach_read(address);
    return true;
}

/* Stores the call-preserved registers, the stack pointer, and a pc of the function that this is inlined into. */
static inline __attribute__((always_inline)) void registers_here(uintptr_t regs[DP_UNWINDER_REGS])
{
#if defined(__x86_64__)
    __asm__ volatile("movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\tmovq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\tmovq %%r14, 112(%0)\n\tmovq %%r15, 120(%0)\n\t"
                     "leaq 0(%%rip), %%rax\n\tmovq %%rax, 128(%0)"
                     :
                     : "r"(regs)
                     : "rax", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("stp x19, x20, [%0, #152]\n\tstp x21, x22, [%0, #168]\n\tstp x23, x24, [%0, #184]\n\t"
                     "stp x25, x26, [%0, #200]\n\tstp x27, x28, [%0, #216]\n\tstp x29, x30, [%0, #232]\n\t"
                     "mov x9, sp\n\tadr x10, .\n\tstp x9, x10, [%0, #248]"
                     :
                     : "r"(regs)
                     : "x9", "x10", "memory");
#endif
}

/* ---- walks ------------------------------------------------------------------------------------------------------ */

static bool enter(struct dp_stack_cache *cache)
{
    uint32_t word = dp_load_relaxed(&inside);
    do {
        if (word >= BAR)
            return false;
    } while (!dp_cas_acquire(&inside, &word, word + 1));
    cache->inside = 1;
    return true;
}

void dp_libunwind_exit(struct dp_stack_cache *cache)
{
    cache->inside = 0;
    dp_sub_release(&inside, 1); /* [INSIDE] */
}

uint32_t dp_libunwind_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth,
                           uintptr_t *sps, bool *whole)
{
    const struct dp_unwinder_ops *module_ops = dp_load_acquire(&ops);
    if (!module_ops) {
        dp_libunwind_want();
        return 0;
    }
    uintptr_t registers[DP_UNWINDER_REGS] = {0};
    registers_here(registers);
    struct view view;
    view = (struct view){.page = (uintptr_t)&view & -(uintptr_t)DP_PAGE_LEAST}; /* surely mapped; 0 would not be */
    dp_reach_begin(&view.reach, &cache->own, registers[DP_REG_SP]);
    struct dp_unwinder_process process = {find_table, read_word, &view};
    /* The steps use the memory of `stage`; both have `depth` entries. */
    struct dp_unwinder_step *steps = (struct dp_unwinder_step *)cache->stage;
    _Static_assert(sizeof *steps <= sizeof *cache->stage, "steps take no more room than frames");
    if (!enter(cache))
        return 0;
    size_t n = module_ops->walk(registers, site->sp, steps, depth, whole, &process);
    dp_libunwind_exit(cache);
    if (!n || steps[0].pc != site->pc)
        return 0;
    for (size_t i = 0; i < n; i++) {
        struct dp_unwinder_step step = steps[i]; /* sps may lie over the steps, and never gets ahead of them */
        uintptr_t behind = dp_walk_strip(step.pc) + step.interrupted;
        sps[i] = step.sp;
        cache->others[i] = dp_walk_plausible(behind)
                               ? dp_unwind_cache_frame(dp_unwind_cache_get(behind, cache->generation))
                               : DP_FRAME_NO_STACK;
    }
    return (uint32_t)n;
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

/* The number of this thread's own walks inside: 1 if it forks in a signal handler that interrupted its walk. */
DP_IN_CHILD static uint32_t own_walks(const void *scratch)
{
    const struct dp_stack_cache *cache = scratch;
    return cache && cache->inside;
}

void dp_libunwind_fork_prepare(const void *scratch)
{
    alone = __libc_single_threaded;
    dp_add_acq_rel(&inside, BAR);
    for (int i = 0; i < WAITS && (dp_load_acquire(&inside) & (BAR - 1)) > own_walks(scratch); i++) /* [INSIDE] */
        sched_yield();
}

void dp_libunwind_fork_parent(void)
{
    dp_sub_release(&inside, BAR);
}

DP_IN_CHILD void dp_libunwind_fork_child(const void *scratch)
{
    uint32_t own = own_walks(scratch);
    bool torn = (dp_load_relaxed(&inside) & (BAR - 1)) > own;
    dp_store_relaxed(&inside, torn ? own + BAR : own);
    /* the loader's lock may stay locked for ever in the child: do not load the module there */
    if (!alone && !dp_load_relaxed(&ops))
        dp_store_relaxed(&lost, 1);
}
