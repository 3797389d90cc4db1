/* SPDX-License-Identifier: MIT */
/*
 * host/thread/gate.c - the gate of an interposer: lets frees pass by on their address alone, and all hooks while all is
 * off.
 *
 * An interposer that gets a sampled block at a page boundary need not look a freed block up unless its address is at
 * one. The word `frees` holds the mask for that test in its low half. Some samples cannot be had at a page boundary (a
 * large calloc, a realloc in place, an allocation that a runtime reports): the high half counts those that are in the
 * set of live blocks, and while it is not 0 the mask is 0, so that every free asks the filter.
 *
 *     OPEN    mask, no count     --- add ------> 0 mask, 1
 *     COUNT   0 mask, n > 0      --- add ------> 0 mask, n + 1
 *                                --- remove ---> 0 mask, n - 1; OPEN after the last
 *     SHUT    0 mask, no count   for ever: the word is all zeros
 *
 * Each arrow is one compare-and-swap of the whole word. SHUT is what a gate begins with and what it becomes when a rate
 * comes into force that gives no pages. Entries are not counted any more then.
 *
 * 1. While an entry whose address is not at a page boundary is in the set, the mask is 0. Its insert was preceded by an
 *    add, which read or wrote a value with mask 0: a COUNT that holds its own 1 until the remove that follows its take,
 *    or SHUT, which is never left.
 * 2. A free of such a block never passes by. The inserting thread saw a value of 1. before the allocation returned. If
 *    another thread frees the block, the hand-over of the pointer orders that load before the load of the free. Two
 *    loads of one word in this order never read its values backwards (read-read coherence). So the free reads that
 * value or a later one, and up to the entry's own take, which is this free, they all have mask 0. Relaxed loads
 * suffice, for the same reason.
 * 3. No remove comes without its add, because whether an add counted depends on the key and on SHUT alone, and SHUT is
 *    never left. A fork, or a jump out of a signal handler, between add and insert or between take and remove leaves
 *    the count too high: frees ask the filter then, which is right and slower.
 *
 * Where the address does not tell (all of this, while the count is not 0, and always with an allocator that gives no
 * pages), the page may. `pages` has a byte for each page, which counts the entries that begin there, of all heaps. A
 * byte that has come to MANY stays so. A block whose byte is 0 passes by. That is right by the same argument as 2, with
 * the byte in place of the word.
 *
 * SHUT comes with pages NULL, for ever. Then nothing is counted [GATE]: a thread that finds NULL there finds SHUT in
 * the word too, and so does the free of what it inserts.
 *
 * heap_on and locks_on are sets of reasons. Only atomic or and and change them, so threads that change different
 * reasons never undo each other's. A hook that reads an old value records one event less or asks once in vain.
 *
 * Only one gate is kept. Another interposer's stays SHUT. One registered heap may share it (dp_thread_gate_heap): then
 * the count is of entries of both heaps.
 */
#include "host/thread/gate.h"

#include "base/mem.h"
#include "base/process.h"

#define OPEN  ((uint64_t)DELTAPROF_PAGE_MASK)
#define SHUT  ((uint64_t)0)
#define ONE   ((uint64_t)1 << 32)
#define TRIES 64
#define MANY  UINT8_MAX

enum { RATE = 1, POLL = 2, EVERY = DELTAPROF_GATE_EVERY, LEAF = DELTAPROF_GATE_LEAF }; /* why heap_on is not 0 */

static struct deltaprof_gate no_gate;
static DP_LARGE _Atomic uint8_t pages[DELTAPROF_GATE_PAGES];
static _Atomic uint32_t leaf;   /* LEAF, if the allocator enters no hook */
static _Atomic bool is_settled; /* relaxed: it is set before any event is recorded */
struct deltaprof_gate *_Atomic dp_thread_gate = &no_gate;
_Atomic uint32_t dp_thread_gate_heap;

static inline _Atomic uint64_t *frees_of(struct deltaprof_gate *gate)
{
    return (_Atomic uint64_t *)&gate->frees; /* part of the public ABI, so not _Atomic there */
}

/* Under contention: claims too much rather than loop. */
static void change(uint64_t (*next)(uint64_t))
{
    _Atomic uint64_t *frees = frees_of(dp_load_relaxed(&dp_thread_gate));
    uint64_t seen = dp_load_relaxed(frees);
    for (int i = 0; i < TRIES; i++)
        if (seen == SHUT || dp_cas_relaxed(frees, &seen, next(seen)))
            return;
    dp_store_relaxed(frees, SHUT);
}

static uint64_t one_more(uint64_t frees)
{
    return (frees == OPEN ? 0 : frees) + ONE;
}

static uint64_t one_less(uint64_t frees)
{
    return frees == ONE ? OPEN : frees - ONE;
}

/* Adds `by` to the byte of a page. If other threads change it at the same time, the byte ends too high, as above. */
static void change_page(uintptr_t key, int by)
{
    _Atomic uint8_t *page = &pages[key / DELTAPROF_PAGE_BYTES % DELTAPROF_GATE_PAGES];
    uint8_t seen = dp_load_relaxed(page);
    for (int i = 0; i < TRIES; i++)
        if (seen == MANY || dp_cas_relaxed(page, &seen, (uint8_t)(seen + by)))
            return;
    dp_store_relaxed(page, MANY);
}

void dp_thread_gate_add_slow(uintptr_t key)
{
    change_page(key, 1);
    if (!dp_thread_gate_is_shut() && !dp_thread_gate_knows(key))
        change(one_more);
}

void dp_thread_gate_remove_slow(uintptr_t key)
{
    change_page(key, -1);
    if (!dp_thread_gate_is_shut() && !dp_thread_gate_knows(key))
        change(one_less);
}

void dp_thread_gate_mark(uintptr_t start, size_t n_bytes)
{
    for (uintptr_t at = start & -(uintptr_t)DELTAPROF_PAGE_BYTES; at < start + n_bytes; at += DELTAPROF_PAGE_BYTES)
        dp_store_relaxed(&pages[at / DELTAPROF_PAGE_BYTES % DELTAPROF_GATE_PAGES], MANY);
}

DP_IN_CHILD static void want(uint32_t *word, uint32_t why, bool wanted)
{
    if (wanted)
        (void)dp_or_acq_rel((_Atomic uint32_t *)word, why);
    else
        (void)dp_and_release((_Atomic uint32_t *)word, ~why);
}

/* LEAF is set exactly while something else than EVERY is. In between a hook guards the thread in vain. */
DP_IN_CHILD static void set_leaf(struct deltaprof_gate *gate)
{
    uint32_t why = dp_load_relaxed((_Atomic uint32_t *)&gate->heap_on) & (RATE | POLL);
    want(&gate->heap_on, dp_load_relaxed(&leaf), why != 0);
}

void dp_thread_gate_settle(void)
{
    dp_store_relaxed(&is_settled, true);
}

void dp_thread_gate_tune_heap(int64_t rate)
{
    struct deltaprof_gate *gate = dp_load_relaxed(&dp_thread_gate);
    if (rate && rate < DP_GATE_RATE_MIN) {
        dp_store_relaxed(frees_of(gate), SHUT);
        dp_store_release((const uint8_t *_Atomic *)&gate->pages, NULL); /* [GATE] */
    }
    want(&gate->heap_on, EVERY, rate == 1);
    want(&gate->heap_on, RATE, rate != 0);
    set_leaf(gate);
}

void dp_thread_gate_tune_locks(bool on)
{
    want(&dp_load_relaxed(&dp_thread_gate)->locks_on, RATE, on);
}

DP_IN_CHILD void dp_thread_gate_keep_polling(bool wanted)
{
    struct deltaprof_gate *gate = dp_load_relaxed(&dp_thread_gate);
    want(&gate->heap_on, POLL, wanted);
    set_leaf(gate);
}

static intptr_t countdown_offset(void)
{
#if defined(__x86_64__)
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
#else
    uintptr_t pointer = (uintptr_t)__builtin_thread_pointer();
#endif
    return (intptr_t)((uintptr_t)&deltaprof_thread.countdown - pointer);
}

/* ---- interpose.h ---- */

void deltaprof_gate_open(struct deltaprof_gate *gate, unsigned allocator)
{
    struct deltaprof_gate *none = &no_gate;
    gate->countdown_offset = countdown_offset();
    dp_fence_signal(); /* a hook reads the offset only when heap_on says so */
    if (dp_load_relaxed(&is_settled) || !dp_cas_publish(&dp_thread_gate, &none, gate)) {
        want(&gate->heap_on, RATE, true);
        want(&gate->locks_on, RATE, true);
        return;
    }
    if (allocator & DELTAPROF_IS_LEAF)
        dp_store_relaxed(&leaf, LEAF);
    want(&gate->heap_on, no_gate.heap_on, no_gate.heap_on);
    set_leaf(gate);
    want(&gate->locks_on, no_gate.locks_on, no_gate.locks_on);
    dp_store_relaxed((const uint8_t *_Atomic *)&gate->pages, (const uint8_t *)pages);
    if (allocator & DELTAPROF_GIVES_PAGES)
        dp_store_relaxed(frees_of(gate), OPEN);
}

const struct deltaprof_gate *deltaprof_gate_share(uint32_t heap)
{
    uint32_t shares = dp_load_relaxed(&dp_thread_gate_heap);
    no_gate.countdown_offset = countdown_offset();
    if (!heap || (shares && shares != heap))
        return &no_gate;
    dp_store_relaxed(&dp_thread_gate_heap, heap);
    return dp_load_relaxed(&dp_thread_gate);
}
