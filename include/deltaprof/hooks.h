/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - functions that an interposer, or a runtime with its own allocator, calls for each event.
 *
 * Each thread has a word `countdown`, the number of bytes to the next sample. An event subtracts its size; while
 * something is left nothing else happens. While a call may enter another hook, the thread is guarded: countdown is 0,
 * and the word `guard` has the stack pointer of the hook. Every nested event is then due, and the library ignores it:
 * each event counts once. If an event comes from a place on the stack that a nested event cannot have, the hook that
 * guarded is gone (a fiber left this thread in the middle of malloc, and goes on in another): the library ends the
 * guard. All zeros are a valid start: the first event of a thread is due at once, and sets the thread up. All events
 * come through the inline functions here; the profiler's own interposers use them too.
 *
 * Context: everything here may be called from any thread and any hook, from signal handlers too, before and after
 * deltaprof_start, in a forked child. No function allocates, locks, logs or changes errno, unless its comment says so.
 * No function fails: losses are counted (deltaprof_get_stats).
 *
 *     an allocator:                        an interposer:
 *       p = carve(n);                        if (!deltaprof_countdown_subtract(n, &rest)) {
 *       deltaprof_alloc(heap, p, n);             p = real(n);
 *       ...                                      deltaprof_countdown_restore(rest);
 *       deltaprof_free(heap, p);             } else {
 *       release(p);                              deltaprof_sample_begin(&sample, 0, n);
 *                                                p = real(n);
 *                                                deltaprof_sample_end(&sample, p, &site);
 *                                            }
 */
#pragma once

#include <deltaprof/deltaprof.h>
#include <signal.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the thread's countdown ------------------------------------------------------------------------------------- */

/* A thread's state: the countdown, then fields that only the library uses. All zero is valid. */
struct deltaprof_thread {
    int64_t countdown; /* bytes to the next sample, at least 1; 0: see guard */
    uintptr_t guard;   /* where countdown is 0: not 0 if the thread is guarded; then the stack pointer of the hook */
    uint64_t opaque[14];
};
extern DELTAPROF_API __thread struct deltaprof_thread deltaprof_thread __attribute__((tls_model("initial-exec")));

/* The guard of a thread that asked for it: it ends only where the thread says so. */
#define DELTAPROF_GUARD_KEPT UINTPTR_MAX

/* Whether allocations of this thread are no events now. */
static inline bool deltaprof_is_guarded(void)
{
    return deltaprof_thread.countdown == 0 && deltaprof_thread.guard != 0;
}

/* The calling function's stack pointer, at any point after its entry. */
static inline __attribute__((always_inline)) uintptr_t deltaprof_stack_pointer(void)
{
    uintptr_t sp;
#if defined(__x86_64__)
    __asm__("mov %%rsp, %0" : "=r"(sp));
#else
    __asm__("mov %0, sp" : "=r"(sp));
#endif
    return sp;
}

/* countdown - want; true: nothing would be left. By its flags, because compilers compare once more. */
static inline __attribute__((always_inline)) bool deltaprof_take(int64_t countdown, uint64_t want, int64_t *rest)
{
    uint64_t left = (uint64_t)countdown;
    bool due;
#if defined(__x86_64__)
    __asm__("sub %2, %0" : "+r"(left), "=@ccbe"(due) : "r"(want));
#else
    due = left <= want;
    left -= want;
#endif
    *rest = (int64_t)left;
    return __builtin_expect(due, 0);
}

/*
 * Subtracts n bytes from the countdown. False, the usual case: no sample. The countdown is now guarded; call the
 * allocator, then deltaprof_countdown_restore(*rest). True: a sample is due and nothing was changed; call
 * deltaprof_sample_begin. A request of 0 bytes counts as 1.
 */
static inline __attribute__((always_inline)) bool deltaprof_countdown_subtract(size_t n, int64_t *rest)
{
    if (deltaprof_take(deltaprof_thread.countdown, (uint64_t)n + (n == 0), rest))
        return true;
    deltaprof_thread.guard = deltaprof_stack_pointer();
    __atomic_signal_fence(__ATOMIC_RELEASE); /* a handler that finds 0 finds the guard */
    deltaprof_thread.countdown = 0;
    return false;
}

static inline __attribute__((always_inline)) void deltaprof_countdown_restore(int64_t rest)
{
    deltaprof_thread.countdown = rest;
}

/* ---- sites: where a stack begins -------------------------------------------------------------------------------- */

/*
 * The state of a calling frame: the return address into it, its stack pointer after the call returns, and its frame
 * pointer register.
 */
struct deltaprof_site {
    uintptr_t pc, sp, fp;
};

/*
 * The site of the caller of the function that uses this macro, which must not be inlined: a sample's stack begins at
 * the caller of malloc.
 */
#if defined(__x86_64__)
#define DELTAPROF_SITE_CALLER()                                                  \
    __extension__({                                                              \
        const uintptr_t *frame_ = (const uintptr_t *)__builtin_frame_address(0); \
        (struct deltaprof_site){frame_[1], (uintptr_t)(frame_ + 2), frame_[0]};  \
    })
#elif defined(__aarch64__)
#define DELTAPROF_SITE_CALLER()                                                                                \
    __extension__({                                                                                            \
        const uintptr_t *frame_ = (const uintptr_t *)__builtin_frame_address(0);                               \
        (struct deltaprof_site){(uintptr_t)__builtin_extract_return_addr((void *)__builtin_return_address(0)), \
                                (uintptr_t)__builtin_dwarf_cfa(), frame_[0]};                                  \
    })
#else
#error "deltaprof knows x86_64 and aarch64"
#endif

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

/*
 * A heap is a source of blocks whose addresses are unique within it; 0 is the C heap. Registers one by name (copied;
 * shown as the label `heap`), or finds a registered one. Returns its id, 1 to 254; 0 if there is no room: its events
 * then count as events of the C heap. Context: any thread, not a hook.
 */
DELTAPROF_API uint32_t deltaprof_heap_register(const char *name);

/* The state of one sampled event between begin and end, on the stack of the hook. begin fills it; it need not be
 * zeroed. */
struct deltaprof_sample {
    uint64_t opaque[8];
};

/*
 * The sampled path of an interposer, after deltaprof_countdown_subtract returned true. begin guards the countdown and
 * determines the weight; then the interposer makes the real call; then end records ptr (NULL: the call failed, nothing
 * is recorded) and restores the countdown.
 */
DELTAPROF_API void deltaprof_sample_begin(struct deltaprof_sample *sample, uint32_t heap, size_t n_bytes);
DELTAPROF_API void deltaprof_sample_end(struct deltaprof_sample *sample, const void *ptr,
                                        const struct deltaprof_site *site);

/*
 * Between begin and end, of deltaprof_realloc too: leaves out the first n_frames of the stack, since they only pass the
 * allocation on: for a language in which a function cannot find the site of its caller. At most 255.
 */
DELTAPROF_API void deltaprof_sample_leave_out(struct deltaprof_sample *sample, unsigned n_frames);

/* The sampled path of deltaprof_alloc. */
DELTAPROF_API void deltaprof_alloc_sampled(uint32_t heap, const void *ptr, size_t n_bytes);

/* A range of code. */
struct deltaprof_code {
    uintptr_t start, end;
};

/*
 * The same for a hook that an allocator calls from within: the stack begins at site, without the frames at its leaf end
 * whose code lies in the ranges, which are sorted and do not overlap. Returns an address in the code of the frame where
 * the stack then begins; 0: nothing was recorded, or a runtime gave that frame.
 */
DELTAPROF_API uintptr_t deltaprof_alloc_sampled_outside(uint32_t heap, const void *ptr, size_t n_bytes,
                                                        const struct deltaprof_site *site,
                                                        const struct deltaprof_code *ranges, size_t n_ranges);

/* A block of n_bytes was allocated at ptr by the calling function. Call it after the block exists. */
static inline __attribute__((always_inline)) void deltaprof_alloc(uint32_t heap, const void *ptr, size_t n_bytes)
{
    int64_t rest;
    if (deltaprof_countdown_subtract(n_bytes, &rest))
        deltaprof_alloc_sampled(heap, ptr, n_bytes);
    else
        deltaprof_countdown_restore(rest);
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

/*
 * A table of bytes, found by address; 0: certainly no sampled block is there. Each byte stands for 16 bytes of address
 * space. The bytes of 16 MiB follow each other in the table, from a page on that a hash selects. mask is the last index
 * of the table. It is read first, because the mask of the earlier, smaller table is in bounds of the later one.
 */
struct deltaprof_filter {
    uint64_t mask;
    const uint8_t *bytes;
};
extern DELTAPROF_API struct deltaprof_filter deltaprof_filter;

#define DELTAPROF_KEY(heap, ptr) ((uintptr_t)(ptr) ^ ((uintptr_t)(heap) << 56))

static inline __attribute__((always_inline)) uint64_t deltaprof_filter_index(uintptr_t key, uint64_t mask)
{
    uint64_t start = ((uint64_t)(key >> 24) * 0x9E3779B97F4A7C15u >> 32) * 4096;
    return (start + (key >> 4)) & mask;
}

/*
 * Returns false if the block is certainly not sampled; true if it may be: call deltaprof_free_sampled. NULL may give
 * true.
 */
static inline __attribute__((always_inline)) bool deltaprof_may_be_live(uint32_t heap, const void *ptr)
{
    uint64_t mask = __atomic_load_n(&deltaprof_filter.mask, __ATOMIC_ACQUIRE);
    const uint8_t *bytes = __atomic_load_n(&deltaprof_filter.bytes, __ATOMIC_RELAXED);
    uint64_t index = deltaprof_filter_index(DELTAPROF_KEY(heap, ptr), mask);
    return __builtin_expect(__atomic_load_n(&bytes[index], __ATOMIC_RELAXED) != 0, 0);
}

/*
 * Records that the block at ptr is going to be freed. Call it before the memory can be allocated again. NULL and
 * unknown addresses are ignored. A free is counted even under the guard.
 */
DELTAPROF_API void deltaprof_free_sampled(uint32_t heap, const void *ptr);

static inline __attribute__((always_inline)) void deltaprof_free(uint32_t heap, const void *ptr)
{
    if (deltaprof_may_be_live(heap, ptr))
        deltaprof_free_sampled(heap, ptr);
}

/*
 * Every block of a registered heap is about to be freed at once, as by an allocator that drops its arenas. It reads the
 * whole set of live blocks. No other thread may report a free of that heap meanwhile. Heap 0 is left alone. Context:
 * any thread, not a hook.
 */
DELTAPROF_API void deltaprof_heap_forget_all(uint32_t heap);

/*
 * A realloc is a free of the old block and an alloc of the new size by its caller. Use these if
 * deltaprof_may_be_live(old) or deltaprof_countdown_subtract(n) returned true. begin takes the entry of the old block
 * out and keeps its slot reserved. end counts the free if done is set (the real call succeeded, or freed for size 0);
 * if not, it puts the entry back. ptr is as in deltaprof_sample_end.
 */
DELTAPROF_API void deltaprof_realloc_begin(struct deltaprof_sample *sample, uint32_t heap, const void *old,
                                           size_t n_bytes);
DELTAPROF_API void deltaprof_realloc_end(struct deltaprof_sample *sample, bool done, const void *ptr,
                                         const struct deltaprof_site *site);

/* ---- the gate of an interposer ---------------------------------------------------------------------------------- */

/*
 * What the hooks of an interposer of the C heap read, side by side in one cache line: which of their events need no
 * call of the library. All zeros before deltaprof_gate_open; then the library writes it while the program runs.
 *
 *     malloc(n):
 *       if (!deltaprof_gate_heap_on(&gate) || (deltaprof_gate_is_leaf(&gate) && !deltaprof_gate_count(&gate, n)))
 *           return real(n);
 *       if (!deltaprof_gate_is_leaf(&gate) && !deltaprof_gate_subtract(&gate, n, &rest)) {
 *           p = real(n);
 *           deltaprof_gate_restore(&gate, rest);
 *       } else {
 *           deltaprof_sample_begin(&sample, 0, n);
 *           p = deltaprof_gate_wants_page(&gate, &sample) ? real_memalign(4096, n) : real(n);
 *           deltaprof_sample_end(&sample, p, &site);
 *       }
 *     free(p):
 *       if (!deltaprof_gate_passes(&gate, p) && deltaprof_gate_may_be_live(&gate, p))
 *           deltaprof_free_sampled(0, p);
 *       real_free(p);
 */
struct deltaprof_gate {
    uint64_t frees;            /* low half: mask for the address, 0: no address tells; high half: the library's */
    intptr_t countdown_offset; /* of deltaprof_thread.countdown from the thread pointer */
    uint32_t heap_on;          /* 0: no allocation can become a sample; else bits, see DELTAPROF_GATE_EVERY and _LEAF */
    uint32_t locks_on;         /* 0: no wait can be recorded */
};

/* A page boundary is the first address of a page, or 16 bytes behind it, where glibc puts a block that it maps. */
#define DELTAPROF_GATE_EVERY 4u /* each allocation becomes a sample */
#define DELTAPROF_GATE_LEAF  8u /* the allocator enters no hook: nothing need be guarded while it works */
#define DELTAPROF_PAGE_BYTES 4096u
#define DELTAPROF_PAGE_MASK  0xfefu

/*
 * From now on the library keeps this gate, which must live as long as the process. It keeps one: where there is
 * another, or the profiler was started before, the hooks of this gate call the library for every event.
 * DELTAPROF_GIVES_PAGES: all frees of the C heap go through the gate's hooks, and sampled blocks come from where
 * deltaprof_sample_wants_page says. DELTAPROF_IS_LEAF: no function of the allocator behind calls a hook of this gate.
 * Context: init, not while another thread calls deltaprof_start.
 */
enum deltaprof_allocator { DELTAPROF_GIVES_PAGES = 1, DELTAPROF_IS_LEAF = 2 };
DELTAPROF_API void deltaprof_gate_open(struct deltaprof_gate *gate, unsigned allocator);

/*
 * Between begin and end: true if the event is a sample whose block should lie at a page boundary. If it cannot, any
 * address will do, and all frees ask the filter while the block lives.
 */
DELTAPROF_API bool deltaprof_sample_wants_page(const struct deltaprof_sample *sample);

/* The same, without a call where the gate gives no pages. */
static inline __attribute__((always_inline)) bool deltaprof_gate_wants_page(const struct deltaprof_gate *gate,
                                                                            const struct deltaprof_sample *sample)
{
    return __builtin_expect(__atomic_load_n(&gate->frees, __ATOMIC_RELAXED) != 0, 1) &&
           deltaprof_sample_wants_page(sample);
}

/* False: hooks of allocations call the real function at once. */
static inline __attribute__((always_inline)) bool deltaprof_gate_heap_on(const struct deltaprof_gate *gate)
{
    return __builtin_expect(__atomic_load_n(&gate->heap_on, __ATOMIC_RELAXED) != 0, 1);
}

/* True: the call of the allocator needs no guard; deltaprof_gate_count takes the place of deltaprof_gate_subtract. */
static inline __attribute__((always_inline)) bool deltaprof_gate_is_leaf(const struct deltaprof_gate *gate)
{
    return __builtin_expect(__atomic_load_n(&gate->heap_on, __ATOMIC_RELAXED) & DELTAPROF_GATE_LEAF, 1);
}

/* The same of hooks that wait for locks. */
static inline __attribute__((always_inline)) bool deltaprof_gate_locks_on(const struct deltaprof_gate *gate)
{
    return __builtin_expect(__atomic_load_n(&gate->locks_on, __ATOMIC_RELAXED) != 0, 1);
}

/* True: certainly no sample is at ptr. False: perhaps one is; ask deltaprof_gate_may_be_live. */
static inline __attribute__((always_inline)) bool deltaprof_gate_passes(const struct deltaprof_gate *gate,
                                                                        const void *ptr)
{
    uint32_t mask = (uint32_t)__atomic_load_n(&gate->frees, __ATOMIC_RELAXED);
    return __builtin_expect(((uint32_t)(uintptr_t)ptr & mask) != 0, 1);
}

/* After that: false: certainly no sample. True: perhaps; ask deltaprof_free_sampled. The filter is not asked while it
 * would say so of every block. */
static inline __attribute__((always_inline)) bool deltaprof_gate_may_be_live(const struct deltaprof_gate *gate,
                                                                             const void *ptr)
{
    return (__atomic_load_n(&gate->heap_on, __ATOMIC_RELAXED) & DELTAPROF_GATE_EVERY) || deltaprof_may_be_live(0, ptr);
}

/*
 * deltaprof_countdown_subtract and _restore by way of the gate, which is in the cache already: a shared object has to
 * load the offset of a thread's variable from a table of its own. AddressSanitizer takes such an offset for an address
 * of memory, so it gets the plain way.
 */
#if defined(__x86_64__) && defined(__SEG_FS) && !defined(__cplusplus) && !defined(__SANITIZE_ADDRESS__)
#define DELTAPROF_GATE_WORD        int64_t __seg_fs
#define DELTAPROF_GATE_WORDS(gate) ((DELTAPROF_GATE_WORD *)(gate)->countdown_offset)
#elif defined(__aarch64__)
#define DELTAPROF_GATE_WORD        int64_t
#define DELTAPROF_GATE_WORDS(gate) ((int64_t *)(void *)((char *)__builtin_thread_pointer() + (gate)->countdown_offset))
#else
#define DELTAPROF_GATE_WORD        int64_t
#define DELTAPROF_GATE_WORDS(gate) ((void)(gate), (int64_t *)(void *)&deltaprof_thread)
#endif

static inline __attribute__((always_inline)) bool deltaprof_gate_subtract(const struct deltaprof_gate *gate, size_t n,
                                                                          int64_t *rest)
{
    DELTAPROF_GATE_WORD *words = DELTAPROF_GATE_WORDS(gate);
    if (deltaprof_take(words[0], (uint64_t)n + (n == 0), rest))
        return true;
    words[1] = (int64_t)deltaprof_stack_pointer();
    __atomic_signal_fence(__ATOMIC_RELEASE);
    words[0] = 0;
    return false;
}

/*
 * Of an allocator that enters no hook: subtracts n bytes from the countdown, and guards nothing, so there is nothing to
 * restore. False, the usual case: no sample. True: a sample is due and nothing was changed, or the thread is guarded;
 * call deltaprof_sample_begin.
 */
static inline __attribute__((always_inline)) bool deltaprof_gate_count(const struct deltaprof_gate *gate, size_t n)
{
    DELTAPROF_GATE_WORD *words = DELTAPROF_GATE_WORDS(gate);
    int64_t rest;
    if (deltaprof_take(words[0], (uint64_t)n + (n == 0), &rest))
        return true;
    words[0] = rest;
    return false;
}

static inline __attribute__((always_inline)) void deltaprof_gate_restore(const struct deltaprof_gate *gate,
                                                                         int64_t rest)
{
    DELTAPROF_GATE_WORDS(gate)[0] = rest;
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

/* Set while the key `mmap` is on: only then need an interposer report mappings. Written by the library. */
extern DELTAPROF_API uint8_t deltaprof_maps_wanted;

/*
 * The caller whose site this is has mapped a range, after it did. It counts as a block of the heap `mmap`, with whole
 * pages; with DELTAPROF_MAP_FILE, of the heap `mmap-file`; with DELTAPROF_MAP_RESERVED, without access, it counts only
 * once deltaprof_map_accessible reports access to a part of it. Under the guard it does nothing.
 */
#define DELTAPROF_MAP_FILE     1u
#define DELTAPROF_MAP_RESERVED 2u
DELTAPROF_API void deltaprof_mapped(const void *start, size_t n_bytes, unsigned what,
                                    const struct deltaprof_site *site);
DELTAPROF_API void deltaprof_map_accessible(const void *start, size_t n_bytes, const struct deltaprof_site *site);

/* A range is going to be unmapped, or mapped over, in whole or in part. Call it before the range can be mapped again.
 */
DELTAPROF_API void deltaprof_unmapped(const void *start, size_t n_bytes);

/* ---- locks ------------------------------------------------------------------------------------------------------ */

/*
 * Both sides of a wait report it, and each has a profile: the block profile has the waiter's stack; the mutex profile
 * has the stack of the holder that unlocked, with the waiting time that passed while it held the lock. An uncontended
 * lock is no event and costs the holder one load.
 *
 *     lock:
 *       if (try(l))
 *           return;
 *       deltaprof_lock_wait_begin(&wait, l, kind, NULL);
 *       wait_for(l);
 *       deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
 *
 *     unlock:
 *       owes = deltaprof_lock_may_have_waiters(l) && deltaprof_lock_release_begin(&owed, l);
 *       release(l);
 *       if (owes)
 *           deltaprof_lock_release_end(&owed, NULL);
 *
 * Nothing stays locked between the calls. If a thread is cancelled during a wait, or leaves it by longjmp, no call is
 * needed for kinds without a holder (COND and after it); for the other kinds deltaprof_lock_wait_end must be called.
 * Profiles show the kind as the label `lock`: mutex, rwlock-read, rwlock-write, cond, sem, spin, barrier, join or gil;
 * for futexes what their callers' names tell, else futex.
 */
enum deltaprof_lock_kind {
    DELTAPROF_LOCK_MUTEX = 1,
    DELTAPROF_LOCK_READ = 2,
    DELTAPROF_LOCK_WRITE = 3,
    DELTAPROF_LOCK_COND = 4, /* this and the following kinds: in the block profile only */
    DELTAPROF_LOCK_SEM = 5,
    DELTAPROF_LOCK_SPIN = 6,
    DELTAPROF_LOCK_BARRIER = 7,
    DELTAPROF_LOCK_JOIN = 8,
    DELTAPROF_LOCK_FUTEX = 9, /* not for deltaprof_lock_wait_begin: see below */
    DELTAPROF_LOCK_GIL = 13,  /* an interpreter's lock, with a holder as a mutex; 10 to 12 are the library's */
};

enum deltaprof_lock_end {
    DELTAPROF_ACQUIRED,
    DELTAPROF_TIMED_OUT,
    DELTAPROF_NOT_WAITED, /* an error or an interruption: the wait is cancelled */
};

/* The state of one wait, on the waiter's stack. deltaprof_lock_wait_begin fills it; it need not be zeroed. */
struct deltaprof_wait {
    uint64_t opaque[4];
};

/*
 * The calling thread could not lock, and is going to wait. lock: the same address that the holder will pass. NULL: the
 * holder cannot be known (another process); the wait is counted for [unknown holder]. site: where the waiter's
 * stack begins; NULL: at the function that calls this. The stack is captured now, so that a wait that goes on is seen.
 */
DELTAPROF_API void deltaprof_lock_wait_begin(struct deltaprof_wait *wait, const void *lock,
                                             enum deltaprof_lock_kind kind, const struct deltaprof_site *site);

/* Ends that wait. site: as above. */
DELTAPROF_API void deltaprof_lock_wait_end(struct deltaprof_wait *wait, enum deltaprof_lock_end end,
                                           const struct deltaprof_site *site);

/* A counter for each set of locks; 0: no thread waits for any of them. */
#define DELTAPROF_LOCK_SETS      4096
#define DELTAPROF_LOCK_SET(lock) ((unsigned)((uint64_t)(uintptr_t)(lock)*0x9E3779B97F4A7C15u >> 52))
extern DELTAPROF_API uint8_t deltaprof_lock_filter[DELTAPROF_LOCK_SETS];

/* False: no thread waits for lock. True: a thread may wait for it. */
static inline __attribute__((always_inline)) bool deltaprof_lock_may_have_waiters(const void *lock)
{
    return __builtin_expect(__atomic_load_n(&deltaprof_lock_filter[DELTAPROF_LOCK_SET(lock)], __ATOMIC_RELAXED) != 0,
                            0);
}

/* The waiting time that a holder has to account for, and the waits. */
struct deltaprof_owed {
    int64_t ns[5];
    uint64_t waiters[14];
};

/* To be called before the calling thread unlocks: fills owed. True: there is waiting time to account for. */
DELTAPROF_API bool deltaprof_lock_release_begin(struct deltaprof_owed *owed, const void *lock);

/*
 * To be called after it has unlocked, so that no thread waits longer: captures its stack and records the waiting time.
 * site as above.
 */
DELTAPROF_API void deltaprof_lock_release_end(const struct deltaprof_owed *owed, const struct deltaprof_site *site);

/*
 * The lock was destroyed: waiting time that is still owed is counted for [unknown holder], and a later lock at this
 * address starts with none.
 */
DELTAPROF_API void deltaprof_lock_destroyed(const void *lock);

/* ---- futexes ---------------------------------------------------------------------------------------------------- */

/*
 * For an interposer of syscall, and for code with futex calls of its own that does not know what its callers wait for.
 * A report tells locks from other waits by the names of the functions above the site; only waits of locks have a row in
 * the mutex profile, for the thread that woke them. A wait inside a wait that the same thread reports is left out.
 *
 *     deltaprof_futex_wait_begin(&wait, word, &site);
 *     result = futex(word, FUTEX_WAIT, ...);
 *     deltaprof_futex_wait_end(&wait, word, result == 0 ? DELTAPROF_ACQUIRED : ...);
 *
 *     owes = deltaprof_futex_wake_begin(&wake, word);
 *     result = futex(word, FUTEX_WAKE, ...);
 *     if (owes)
 *         deltaprof_futex_wake_end(&wake, &site);
 *
 * end is DELTAPROF_ACQUIRED if the thread was woken, DELTAPROF_TIMED_OUT if its wait ended by a timeout or a signal,
 * DELTAPROF_NOT_WAITED if the word had another value. site as above. A wait that is cancelled or left by longjmp needs
 * no call.
 */
DELTAPROF_API void deltaprof_futex_wait_begin(struct deltaprof_wait *wait, const void *word,
                                              const struct deltaprof_site *site);
DELTAPROF_API void deltaprof_futex_wait_end(struct deltaprof_wait *wait, const void *word, enum deltaprof_lock_end end);

/* What a wake has to account for; need not be zeroed. */
struct deltaprof_futex_wake {
    uint64_t opaque[47];
};

/* To be called before the wake. True: there is waiting time to account for. */
DELTAPROF_API bool deltaprof_futex_wake_begin(struct deltaprof_futex_wake *wake, const void *word);
/* To be called after it, then. */
DELTAPROF_API void deltaprof_futex_wake_end(const struct deltaprof_futex_wake *wake, const struct deltaprof_site *site);

/* ---- frames that a runtime names -------------------------------------------------------------------------------- */

/*
 * A frame provider puts a runtime's own frames (function, file, line) into the stacks of all profiles. For each sample
 * the library walks the native stack and then calls the provider on the sampled thread. The provider pushes its frames,
 * the innermost first, and marks where they belong: an anchor is an address on the C stack inside the frame of the
 * native function that ran them, such as a local variable of the interpreter's loop. All frames pushed since the last
 * anchor take the place of that native frame. Frames whose anchor lies in no native frame are appended at the root end
 * and counted (`frames_apart`).
 *
 *     static void frames(void *ctx, struct deltaprof_frames *out)
 *     {
 *         for (struct call *c = current; c; c = c->caller) {
 *             deltaprof_frames_push(out, function_of(c), c->line);
 *             if (!c->caller || c->caller->loop != c->loop)
 *                 deltaprof_frames_anchor(out, c->loop);
 *         }
 *     }
 *
 * examples/interpreter.c is a whole one. Context of the provider: hook; it may not allocate, lock or call what does.
 */

/* A function as a runtime knows it. The texts are UTF-8, need no NUL, and are copied. */
struct deltaprof_function {
    const char *name, *file;
    uint32_t n_name, n_file; /* bytes; n_file 0: the file is not known */
    uint32_t first_line;     /* 0: not known */
};

/*
 * The id of a function, for the life of the process; the table grows when it is new. 0: no room (`memory`), or the
 * profiler was never started. Context: hook.
 */
DELTAPROF_API uint32_t deltaprof_function_find(const struct deltaprof_function *function);

/* Whether id is that function: cheaper than find, for a runtime that keeps ids and cannot know whether they still hold.
 */
DELTAPROF_API bool deltaprof_function_is(uint32_t id, const struct deltaprof_function *function);

/* What a provider fills; it belongs to the library. */
struct deltaprof_frames;

/* Adds a frame at line (0: not known) of a function; function 0 shows as [overflow]. False: there is no room for more,
 * what follows is not kept. */
DELTAPROF_API bool deltaprof_frames_push(struct deltaprof_frames *frames, uint32_t function, uint32_t line);

/* The frames pushed since the last anchor take the place of the native frame that anchor lies in. */
DELTAPROF_API void deltaprof_frames_anchor(struct deltaprof_frames *frames, const void *anchor);

/*
 * The same where no address inside that native frame is known: they take the place of the next native frame whose code
 * lies in [code, code + n_bytes). anchor is an address on the C stack, NULL if there is none: they are not looked for
 * beyond the native frame that it lies in, and take its place instead.
 */
DELTAPROF_API void deltaprof_frames_anchor_code(struct deltaprof_frames *frames, const void *code, size_t n_bytes,
                                                const void *anchor);

/*
 * The sample carries this label set (deltaprof_labels_swap) instead of the thread's: for a runtime that learns only
 * here which of its tasks runs. 0: the thread's own.
 */
DELTAPROF_API void deltaprof_frames_labels(struct deltaprof_frames *frames, uint32_t set);

/* Whether the n_bytes at address lie on the stack that the thread runs on, and may be read. False too where it is not
 * known. */
DELTAPROF_API bool deltaprof_frames_on_stack(struct deltaprof_frames *frames, const void *address, size_t n_bytes);

typedef void (*deltaprof_frames_fn)(void *ctx, struct deltaprof_frames *frames);

/*
 * Registers a provider for the life of the process, also across fork. 0; -EEXIST: it is registered; -ENOSPC: there are
 * four. Context: any thread, not a hook.
 */
DELTAPROF_API int deltaprof_frames_provide(deltaprof_frames_fn fn, void *ctx);

/* ---- guard ------------------------------------------------------------------------------------------------------ */

/*
 * Between the two calls allocations of this thread are no events; frees still are. Nests: pass the value that enter
 * returned to exit.
 */
static inline int64_t deltaprof_guard_enter(void)
{
    int64_t kept = deltaprof_thread.countdown;
    if (kept == 0)
        kept = (int64_t)~deltaprof_thread.guard; /* a stack pointer, 0 or GUARD_KEPT: not above 0 */
    deltaprof_thread.guard = DELTAPROF_GUARD_KEPT;
    __atomic_signal_fence(__ATOMIC_RELEASE);
    deltaprof_thread.countdown = 0;
    return kept;
}

static inline void deltaprof_guard_exit(int64_t kept)
{
    if (kept > 0)
        deltaprof_thread.countdown = kept;
    else
        deltaprof_thread.guard = ~(uintptr_t)kept;
}

/*
 * To be called if a countdown stayed guarded because the stack was abandoned (longjmp, an exception through an
 * interposer): a new distance is drawn at the next event. The distribution of distances has no memory, so this causes
 * no bias.
 */
DELTAPROF_API void deltaprof_guard_reset(void);

/* ---- creating the library's threads ----------------------------------------------------------------------------- */

/* Not 0 while the library needs a thread that it does not have. */
extern DELTAPROF_API uint8_t deltaprof_poll_wanted;

/*
 * Creates the library's threads if the process has exactly one thread and is older than 100 ms or has allocated 64 MiB.
 * Call it while deltaprof_poll_wanted is set, after a sampled allocation was recorded, at the end of the outermost
 * hook: the calling thread must hold no lock of the allocator or the loader. Never call it after a free or a lock
 * event.
 */
DELTAPROF_API void deltaprof_poll(void);

/*
 * To be called before the calling thread creates a thread by pthread_create or clone: creates the library's threads
 * first, if they are needed. True: it created them. If the program's thread then cannot be created, call
 * deltaprof_stop_agent, which ends them, and try again.
 */
DELTAPROF_API bool deltaprof_thread_begins(void);

/*
 * For an interposer of pthread_create: deltaprof_thread_starts is to be called in a new thread, before the program's
 * function, if deltaprof_thread_starts_wanted returned true when the thread was created. With `signals` the thread then
 * has a signal stack, if the program gave it none, so that an overflow of its stack can be reported. A few system
 * calls. Async-signal-safe.
 */
DELTAPROF_API bool deltaprof_thread_starts_wanted(void);
DELTAPROF_API void deltaprof_thread_starts(void);

/* ---- events of the process's life, reported by interposers ------------------------------------------------------ */

/*
 * Tells the library that an interposer of these events is active in this process. If there is none, and no heap was
 * registered, deltaprof_start logs that.
 */
#define DELTAPROF_HOOKS_MALLOC 1u
#define DELTAPROF_HOOKS_LOCKS  2u
DELTAPROF_API void deltaprof_announce_hooks(unsigned sees);

/* The key `python` of the configuration in force. -ENOTCONN: not started. Context: any thread, not a hook. */
enum deltaprof_python { DELTAPROF_PYTHON_AUTO, DELTAPROF_PYTHON_FRAMES, DELTAPROF_PYTHON_OFF };
DELTAPROF_API int deltaprof_python_wanted(void);

/* Whether the hooks of allocators inside the executable are wanted: by the keys `inside` and `heap_rate`. Context: as
 * above. */
DELTAPROF_API bool deltaprof_inside_wanted(void);

/* Say one line in the log, for the hooks of a runtime; the second one with log=info only. Context: any thread, not a
 * hook. */
DELTAPROF_API void deltaprof_say(const char *line);
DELTAPROF_API void deltaprof_say_info(const char *line);

/*
 * deltaprof_start for a library that came by LD_PRELOAD: configured by DELTAPROF_CONF only; `out` defaults to `.` and
 * `signals` to on.
 */
DELTAPROF_API int deltaprof_start_preloaded(void);

/*
 * To be called before the process ends in a way that runs no destructors (_exit, quick_exit, a fatal signal): delivers
 * the last delta, and waits for that at most exit_timeout. Uses no lock and no malloc in the calling thread.
 * Async-signal-safe. Does nothing in a child of vfork or a raw clone, and in a second call.
 */
DELTAPROF_API void deltaprof_before_exit(void);

/* The calling thread is about to call exit. If another thread is in exit already, the last delta is delivered now, or
 * waited for, at most exit_timeout; otherwise exit delivers it after the program's handlers. */
DELTAPROF_API void deltaprof_exit_begins(void);

/*
 * The process begins to end by exit, and none of its handlers and destructors ran yet: ticks, since what they free
 * would no longer be seen. Once a process; inside an allocation, and where nothing is profiled, it does nothing.
 * Context: where the program may wait.
 */
DELTAPROF_API void deltaprof_before_handlers(void);

/* Whether an interposer of __cxa_atexit should see to it that deltaprof_before_handlers is called before the handler
 * that was just registered. */
DELTAPROF_API bool deltaprof_exit_is_watched(void);

/* Whether an event was recorded: if not, no profile is lost when the process becomes another program. Context: any. */
DELTAPROF_API bool deltaprof_has_samples(void);

/* To be called if the process did not end after deltaprof_before_exit (a failed exec): the next call delivers again. */
DELTAPROF_API void deltaprof_exit_cancelled(void);

/*
 * Call begin before a real dlclose and end after it: facts from the loader are not cached in between, and unloaded
 * files are dropped at the end.
 */
DELTAPROF_API void deltaprof_unload_begin(void);
DELTAPROF_API void deltaprof_unload_end(void);

/*
 * To be called before the calling thread ends by pthread_exit. If it is the main thread, the process then ends together
 * with its last other thread, the library's threads not counted. For any other thread it does nothing.
 */
DELTAPROF_API void deltaprof_before_thread_exit(void);

/* To be called before unshare and setns, which need a single-threaded process: ends the library's threads. */
DELTAPROF_API void deltaprof_stop_agent(void);

/*
 * To be called before the calling thread gives up rights that belong to a single thread (capabilities, Landlock,
 * no_new_privs, chroot, user ids by system call): ends the library's threads if they would keep these rights. It does
 * so only if the calling thread is the main thread or the creator of the library's threads.
 */
DELTAPROF_API void deltaprof_restrict(void);

/*
 * To be called after that system call, in the thread that called deltaprof_stop_agent or deltaprof_restrict: creates
 * the ended threads again; they inherit the present rights of the calling thread.
 */
DELTAPROF_API void deltaprof_resume(void);

/*
 * To be called before a seccomp filter is installed: delivers the pending profiles. From then on the library creates no
 * thread, opens no file, and makes no system call in functions that the host calls or that run at its end. A preloaded
 * library records no events either.
 */
DELTAPROF_API void deltaprof_before_seccomp(void);

/* The same before prctl(PR_SET_TSC, PR_TSC_SIGSEGV): from then on times are as exact as the kernel's tick. */
DELTAPROF_API void deltaprof_before_tsc_trap(void);

/*
 * sigaction, for an interposer of it: with `signals` or `signal` the library stands in for SIG_DFL of some signals. The
 * host sees SIG_DFL there, and gets the stand-in where it asks for SIG_DFL; anything else that it installs wins. On the
 * signal of `signal`, a handler of the host's runs behind the library's, and the host sees its own. Calls real once and
 * returns what it did. Async-signal-safe.
 */
typedef int (*deltaprof_sigaction_fn)(int sig, const struct sigaction *act, struct sigaction *old);
DELTAPROF_API int deltaprof_sigaction(int sig, const struct sigaction *act, struct sigaction *old,
                                      deltaprof_sigaction_fn real);

/*
 * For an interposer of sigaltstack. With `signals` a thread without a signal stack may get one from the library. The
 * host does not see it, and may install its own instead. Calls `real` once and returns its result. Async-signal-safe.
 */
typedef int (*deltaprof_sigaltstack_fn)(const stack_t *stack, stack_t *old);
DELTAPROF_API int deltaprof_sigaltstack(const stack_t *stack, stack_t *old, deltaprof_sigaltstack_fn real);

/*
 * Makes deltaprof_may_be_live(0, p) true for ever, for every address of [start, start + n_bytes). For an interposer's
 * arena, whose blocks must not reach the real free. Works before deltaprof_start, when the table is small: mark single
 * blocks as they are allocated, not the whole arena. Context: init, hook; while the process has one thread.
 */
DELTAPROF_API void deltaprof_filter_mark(const void *start, size_t n_bytes);

#ifdef __cplusplus
}
#endif
