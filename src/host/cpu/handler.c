/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/handler.c - the signal handler that records a sample of CPU time: the stack of the interrupted place,
 * weighted with the CPU time that the thread used since its last sample.
 *
 * The signal may interrupt any instruction: the program's, libc's, the loader's, and this library's in the middle of a
 * hook. So the handler takes no lock, allocates nothing and never waits.
 *
 * 1. It walks in memory of its own. The thread's own scratch block may be half written.
 * 2. It uses rules only, never libunwind, whose locks the interrupted code may hold.
 * 3. The record's leaf is the beginning of its function: with exact addresses nearly every sample would make a record.
 *    They are counted beside it (addresses.h). Where half of the record table is used, new stacks keep their leafmost
 *    frames only, later only their leaf: there are far fewer of those, and half of the table is left for
 *    them.
 * 4. Its rows lie in a table of their own kind, where an interrupted hook of another kind writes nothing. The report
 *    that adds rest times to that table blocks the signal.
 * 5. Time is credited after the record was found. If there can be none now (a forked child copies its counters), the
 *    time stays with the thread, and its next sample has it.
 *
 * Blocks for walks are few: a handler takes microseconds, so hardly more threads are inside than there are processors.
 * A block remembers whose walk it held last, because the bounds of that thread's stack are then known. A thread that
 * finds no block free records its time without a stack. [BLOCK] as in host/thread/thread.c.
 *
 * The kernel delivers these signals when a system call has done its work, so none of them ends a wait early. If one
 * meets a system call that returned EINTR, it is counted: another signal may have done it, but where that is frequent
 * the kernel is not as it should be (probe.c).
 */
#include "host/cpu/handler.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/cpu/addresses.h"
#include "host/cpu/timers.h"
#include "host/objects/reach.h"
#include "host/shared/table_file.h"
#include "host/table/labels.h"
#include "host/table/event_ring.h"
#include "host/table/record.h"
#include "host/thread/thread.h"
#include "host/unwind/unwind.h"

#include <errno.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { N_BLOCKS = 16 };

static struct {
    char *_Atomic blocks; /* [BLOCKS]: mapped; NULL: there is no memory for them */
    size_t block_bytes;
    _Atomic uint32_t used[N_BLOCKS];
    uint32_t walked[N_BLOCKS];  /* serial of the thread whose walk was finished last in it; its user's to write */
    _Atomic uint64_t n_handled; /* relaxed: counts */
} pool;

int dp_cpu_handler_init(void)
{
    if (dp_load_relaxed(&pool.blocks))
        return 0;
    dp_cpu_addresses_init();
    pool.block_bytes = dp_page_ceil(dp_unwind_scratch_bytes());
    char *blocks = dp_mem_map(N_BLOCKS * pool.block_bytes);
    if (!blocks)
        return -ENOMEM;
    dp_store_release(&pool.blocks, blocks); /* [BLOCKS] */
    return 0;
}

/* -1: all are in use. */
static int claim_block(uint32_t serial)
{
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        uint32_t block = (serial + i) % N_BLOCKS, is_free = 0;
        if (!dp_load_relaxed(&pool.used[block]) && dp_cas_acquire(&pool.used[block], &is_free, 1)) /* [BLOCK] */
            return (int)block;
    }
    return -1;
}

static struct dp_interrupted place_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    const greg_t *r = context->uc_mcontext.gregs;
    return (struct dp_interrupted){(uintptr_t)r[REG_RIP], (uintptr_t)r[REG_RSP], (uintptr_t)r[REG_RBP], 0};
#elif defined(__aarch64__)
    const mcontext_t *m = &context->uc_mcontext;
    return (struct dp_interrupted){m->pc, m->sp, m->regs[29], m->regs[30]};
#endif
}

/* Whether the signal was delivered on the way out of a system call that returned EINTR. */
static bool is_at_eintr(const ucontext_t *context)
{
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    if (context->uc_mcontext.gregs[REG_RAX] != -EINTR || !dp_reach_probe(pc - 2))
        return false;
    const uint8_t *code = (const uint8_t *)pc;
    return code[-2] == 0x0f && code[-1] == 0x05;
#else
    uintptr_t pc = context->uc_mcontext.pc;
    if (context->uc_mcontext.regs[0] != (uint64_t)-EINTR || pc % 4 || !dp_reach_probe(pc - 4))
        return false;
    return *(const uint32_t *)(pc - 4) == 0xd4000001; /* svc #0 */
#endif
}

/* The record of a stack, of which less is kept the fuller the table is. */
static dp_record_id record_of(uint32_t labels, const struct dp_stack *stack)
{
    static const struct {
        uint32_t depth;
        unsigned sixteenths;
    } steps[] = {{UINT32_MAX, 7}, {8, 8}};
    struct dp_stack brief = *stack;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (brief.depth > steps[i].depth)
            brief = dp_stack_shorten(stack, steps[i].depth);
        dp_record_id id = dp_table_intern_within(DP_KIND_CPU, labels, &brief, steps[i].sixteenths);
        if (id) {
            dp_stats_add(DP_STAT_CPU_BRIEF, brief.depth != stack->depth);
            return id;
        }
    }
    brief = dp_stack_shorten(stack, 1);
    dp_stats_add(DP_STAT_CPU_BRIEF, stack->depth > 1);
    return dp_table_intern(DP_KIND_CPU, 0, labels, &brief);
}

/* pc: where the thread was interrupted, or 0. False: no record can be made now. */
static bool record(dp_cpu_slot slot, const struct dp_stack *stack, uintptr_t pc, int64_t n)
{
    if (!dp_record_is_ready() || !dp_record_fork_copy_zero())
        return false;
    uint32_t labels = dp_labels_now(stack);
    dp_record_id id = record_of(labels, stack);
    int64_t clock_ns = dp_cpu_own_clock_ns(), ns = dp_cpu_thread_credit(slot, clock_ns);
    dp_record_count(DP_KIND_CPU, id, n, ns);
    dp_shared_file_set_sampled(dp_clock_coarse_ns());
    dp_events_add(DP_KIND_CPU, id, n, ns, 0, 0);
    const struct dp_frame *leaf = dp_frame_get(stack->frames[0]);
    if (pc && stack->frames[0] >= DP_FRAME_FIRST_REAL && leaf->type == DP_FRAME_CODE && pc >= leaf->pc &&
        pc - leaf->pc <= DP_CPU_DISTANCE_MAX)
        dp_cpu_address_add(id, (uint32_t)(pc - leaf->pc), n, ns);
    dp_cpu_tell(dp_cpu_thread_tid(slot), clock_ns, labels, stack, n);
    return true;
}

static bool record_synthetic(dp_cpu_slot slot, dp_frame_id frame, int64_t n)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    return record(slot, &stack, 0, n);
}

static bool record_walked(dp_cpu_slot slot, uint32_t serial, const ucontext_t *context, int64_t n)
{
    char *blocks = dp_load_acquire(&pool.blocks); /* [BLOCKS] */
    int block = blocks ? claim_block(serial) : -1;
    if (block < 0) {
        dp_stats_add(DP_STAT_CPU_UNWALKED, 1);
        return record_synthetic(slot, DP_FRAME_NOT_WALKED, n);
    }
    struct dp_interrupted at = place_of(context);
    struct dp_stack stack;
    bool is_same = pool.walked[block] == serial;
    pool.walked[block] = serial;
    dp_unwind_walk_interrupted(DP_KIND_CPU, blocks + (size_t)block * pool.block_bytes, is_same, &at, &stack);
    bool recorded = record(slot, &stack, at.pc, n);
    dp_store_release(&pool.used[block], 0); /* [BLOCK] */
    return recorded;
}

static void sample(dp_cpu_slot slot, uint32_t serial, int overrun, const ucontext_t *context)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    int64_t n = 1 + (int64_t)overrun;
    bool recorded;
    if (dp_thread_self()->ours) {
        dp_store_relaxed(&thread->is_ours, 1);
        dp_cpu_thread_disarm(slot);
        return;
    }
    if (is_at_eintr(context))
        dp_stats_add(DP_STAT_CPU_INTERRUPTED, 1);
    if (dp_load_relaxed(&thread->no_stack)) {
        recorded = record_synthetic(slot, dp_load_relaxed(&thread->no_stack), n);
        dp_store_relaxed(&thread->no_stack, 0);
    } else if (dp_thread_self()->reports) {
        recorded = record_synthetic(slot, DP_FRAME_BETWEEN, n);
    } else {
        recorded = record_walked(slot, serial, context, n);
    }
    if (!recorded)
        dp_stats_add(DP_STAT_CPU_UNWALKED, 1);
}

void dp_cpu_handle(const siginfo_t *info, void *context)
{
    dp_cpu_slot slot;
    uint32_t serial;
    int saved = errno;
    dp_add_relaxed(&pool.n_handled, 1);
    bool is_slot = dp_cpu_value_read((uint64_t)(uintptr_t)info->si_value.sival_ptr, &slot, &serial) && slot;
    if (is_slot && dp_cpu_is_on() && dp_cpu_thread_tid(slot) == (int32_t)syscall(SYS_gettid) &&
        dp_load_relaxed(&dp_cpu_thread_at(slot)->serial) == serial) {
        struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
        dp_store_relaxed(&thread->is_sampled, 1);
        sample(slot, serial, info->si_overrun, context);
        dp_store_release(&thread->is_sampled, 0); /* [SAMPLED] a thread that reads 0 also reads the credited time */
    }
    errno = saved;
}

uint64_t dp_cpu_n_handled(void)
{
    return dp_load_relaxed(&pool.n_handled);
}

DP_IN_CHILD void dp_cpu_handler_fork_child(void)
{
    dp_cpu_addresses_fork_child();
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        dp_store_relaxed(&pool.used[i], 0);
        pool.walked[i] = 0;
    }
}
