/* SPDX-License-Identifier: MIT */
/*
 * interpose.h - for an interposer of the C library: which events need no call of the library (the gate), and the events
 * of a process's life: threads, exits, unloads, signals, rights.
 *
 * Context: as of hooks.h, unless a comment says otherwise.
 */
#pragma once

#include <deltaprof/heap.h>
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gate -------------------------------------------------------------------------------------------------------- */

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
 *           p = deltaprof_gate_wants_page(&gate, &sample) ? real_memalign(DELTAPROF_PAGE_BYTES, n) : real(n);
 *           deltaprof_sample_end(&sample, p, &site);
 *       }
 *     free(p):
 *       if (!deltaprof_gate_passes(&gate, p) && !deltaprof_gate_page_passes(&gate, p) &&
 *           deltaprof_gate_may_be_live(&gate, p))
 *           deltaprof_free_sampled(0, p);
 *       real_free(p);
 */
struct deltaprof_gate {
    uint64_t frees;            /* low half: mask for the address, 0: no address tells; high half: the library's */
    intptr_t countdown_offset; /* of deltaprof_thread.countdown from the thread pointer */
    uint32_t heap_on;          /* 0: no allocation can become a sample; else bits, see DELTAPROF_GATE_EVERY and _LEAF */
    uint32_t locks_on;         /* 0: no wait can be recorded */
    const uint8_t *pages;      /* a byte for each page of 256 MiB, cyclically; 0: no sample is there. NULL: unknown */
};

/*
 * A page boundary is the first address of a page, or 16 bytes behind it, where glibc puts a block that it maps. Pages
 * are 4 KiB here on every kernel, because only the address of a block tells.
 */
#define DELTAPROF_GATE_EVERY 4u /* each allocation becomes a sample */
#define DELTAPROF_GATE_LEAF  8u /* the allocator enters no hook: nothing need be guarded while it works */
#define DELTAPROF_PAGE_BYTES 4096u
#define DELTAPROF_PAGE_MASK  0xfefu
#define DELTAPROF_GATE_PAGES 65536u /* bytes of `pages` */

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
 * The allocator behind a registered heap may pass frees by on their address as well. It gets the blocks of its samples
 * from the C heap, where deltaprof_sample_ask_page says; for other blocks all frees ask the filter, of both heaps.
 * Returns the gate that its hooks ask: the one that the library keeps. Where there is none, another heap shares it, or
 * heap is 0, it is a gate that lets nothing pass. To be called before the first event of that heap. Context: init.
 */
DELTAPROF_API const struct deltaprof_gate *deltaprof_gate_share(uint32_t heap);

/*
 * For such an allocator, between begin and end. True: the event is a sample that should lie at a page boundary. Then
 * the next block that this thread gets from the C heap, before end, lies at one, if its interposer can do that. If the
 * sample's block is that block, the hooks of the C heap see its free.
 */
DELTAPROF_API bool deltaprof_sample_ask_page(const struct deltaprof_sample *sample);

/*
 * For such an allocator, after the real call and before end: whether it must report the free of this block itself. It
 * need not if the block is no sample, or if the C heap gave it.
 */
DELTAPROF_API bool deltaprof_sample_needs_free(const struct deltaprof_sample *sample, const void *ptr);

/*
 * Between begin and end: true if the event is a sample whose block should lie at a page boundary. If it cannot, any
 * address will do, and all frees ask the filter while the block lives.
 */
DELTAPROF_API bool deltaprof_sample_wants_page(const struct deltaprof_sample *sample);

/* The same, but without a call of the library if the gate was opened without DELTAPROF_GIVES_PAGES. */
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

/* False: hooks of locks call the real function at once. */
static inline __attribute__((always_inline)) bool deltaprof_gate_locks_on(const struct deltaprof_gate *gate)
{
    return __builtin_expect(__atomic_load_n(&gate->locks_on, __ATOMIC_RELAXED) != 0, 1);
}

/* True: certainly no sample is at ptr. False: perhaps one is; ask deltaprof_gate_page_passes next. */
static inline __attribute__((always_inline)) bool deltaprof_gate_passes(const struct deltaprof_gate *gate,
                                                                        const void *ptr)
{
    uint32_t mask = (uint32_t)__atomic_load_n(&gate->frees, __ATOMIC_RELAXED);
    return __builtin_expect(((uint32_t)(uintptr_t)ptr & mask) != 0, 1);
}

/*
 * To be asked if deltaprof_gate_passes returned false. True: certainly no sample of any heap begins in the page of ptr.
 * The bytes of a heap's pages are few, so they stay in the processor's caches.
 */
static inline __attribute__((always_inline)) bool deltaprof_gate_page_passes(const struct deltaprof_gate *gate,
                                                                             const void *ptr)
{
    const uint8_t *pages = __atomic_load_n(&gate->pages, __ATOMIC_RELAXED);
    size_t page = (uintptr_t)ptr / DELTAPROF_PAGE_BYTES % DELTAPROF_GATE_PAGES;
    return pages && __builtin_expect(__atomic_load_n(&pages[page], __ATOMIC_RELAXED) == 0, 1);
}

/*
 * To be asked if deltaprof_gate_page_passes returned false. False: certainly no sample is at ptr. True: perhaps one is;
 * call deltaprof_free_sampled. While every block is a sample, the filter is not read.
 */
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
    if (deltaprof_countdown_ends(words[0], (uint64_t)n + (n == 0), rest))
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
    if (deltaprof_countdown_ends(words[0], (uint64_t)n + (n == 0), &rest))
        return true;
    words[0] = rest;
    return false;
}

static inline __attribute__((always_inline)) void deltaprof_gate_restore(const struct deltaprof_gate *gate,
                                                                         int64_t rest)
{
    DELTAPROF_GATE_WORDS(gate)[0] = rest;
}

/*
 * Makes deltaprof_may_be_live(0, p) true for ever, for every address of [start, start + n_bytes). An interposer uses it
 * for its own arena, because blocks of the arena must not reach the real free. It may be called before deltaprof_start.
 * The filter is small then, so mark each block when it is allocated, not the whole arena. Context: init, hook; while
 * the process has one thread.
 */
DELTAPROF_API void deltaprof_filter_mark(const void *start, size_t n_bytes);

/* ---- start ------------------------------------------------------------------------------------------------------- */

/*
 * Tells the library that an interposer of these events is active in this process. If there is none, and no heap was
 * registered, deltaprof_start logs that.
 */
#define DELTAPROF_HOOKS_MALLOC 1u
#define DELTAPROF_HOOKS_LOCKS  2u
DELTAPROF_API void deltaprof_announce_hooks(unsigned sees);

/* The key `python` of the configuration in force. -ENOTCONN: not started, and cannot be turned on from outside.
 * Context: any thread, not a hook. */
enum deltaprof_python { DELTAPROF_PYTHON_AUTO, DELTAPROF_PYTHON_FRAMES, DELTAPROF_PYTHON_OFF };
DELTAPROF_API int deltaprof_python_wanted(void);

/*
 * Asks the allocator of the C heap, at once and here only, which sizes its blocks have: size_of(n, 0), such as
 * jemalloc's nallocx. Then heap profiles say how much rounding adds to what the program asked for. Context: init.
 */
DELTAPROF_API void deltaprof_size_classes(size_t (*size_of)(size_t n, int flags));

/*
 * The C heap's allocator is jemalloc, with this mallctl, which stays loaded. Heap profiles with types=waste ask it what
 * it holds, in a thread that holds no lock of the library, and never in a crash handler. Context: init.
 */
typedef int (*deltaprof_mallctl_fn)(const char *name, void *old, size_t *n_old, void *value, size_t n_value);
DELTAPROF_API void deltaprof_jemalloc(deltaprof_mallctl_fn mallctl);

/* Whether the hooks of allocators inside the executable are wanted: by the keys `inside` and `heap_rate`. Context: as
 * above. */
DELTAPROF_API bool deltaprof_inside_wanted(void);

/* Say one line in the log, for the hooks of a runtime; the second one with log=info only. Context: any thread, not a
 * hook. */
DELTAPROF_API void deltaprof_say(const char *line);
DELTAPROF_API void deltaprof_say_info(const char *line);

/*
 * deltaprof_start for a library that came by LD_PRELOAD: configured by conf (NULL: nothing) and, before it, by
 * DELTAPROF_CONF; `out` defaults to `.` and `signals` to on.
 */
DELTAPROF_API int deltaprof_start_preloaded(const char *conf);

/* ---- the library's threads --------------------------------------------------------------------------------------- */

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
DELTAPROF_API bool deltaprof_before_thread_create(void);

/* Whether the library has threads now. No system call. Context: any thread. */
DELTAPROF_API bool deltaprof_has_threads(void);

/*
 * For an interposer of pthread_create: deltaprof_thread_start is to be called in a new thread, before the program's
 * function, if deltaprof_thread_start_wanted returned true when the thread was created. With `signals` the thread then
 * has a signal stack, if the program gave it none, so that an overflow of its stack can be reported; while CPU time is
 * profiled it has a timer. A few system calls. Async-signal-safe.
 */
DELTAPROF_API bool deltaprof_thread_start_wanted(void);
DELTAPROF_API void deltaprof_thread_start(void);

/*
 * For an interposer of pthread_cancel, after the real one: libc has installed its handler for the signal that cancels
 * threads, which CPU timers use too. Async-signal-safe.
 */
DELTAPROF_API void deltaprof_thread_cancelled(void);

/* ---- rights and unloads ------------------------------------------------------------------------------------------ */

/*
 * Call begin before a real dlclose and end after it: facts from the loader are not cached in between, and unloaded
 * files are dropped at the end.
 */
DELTAPROF_API void deltaprof_unload_begin(void);
DELTAPROF_API void deltaprof_unload_end(void);

/*
 * Ends the library's threads, whichever thread calls. They are created again by deltaprof_resume, or when the library
 * is next asked whether it needs them (deltaprof_poll, deltaprof_before_thread_create).
 */
DELTAPROF_API void deltaprof_stop_agent(void);
DELTAPROF_API void deltaprof_resume(void);

/*
 * To be called before and after a call that takes rights from a single thread (capabilities, Landlock, no_new_privs,
 * chroot, namespaces, ids by system call), and before and after libc's functions that change the ids of all threads,
 * because libc's signal may not reach one. begin ends the library's threads, and none is created before the last end;
 * they inherit the rights of the thread that creates them. Nests, also in several threads. by_any: true if the call is
 * for all threads, or needs a process with a single one; false: the library's threads end only if the calling thread is
 * the main thread or their creator.
 */
DELTAPROF_API void deltaprof_restrict_begin(bool by_any);
DELTAPROF_API void deltaprof_restrict_end(void);

/*
 * To be called before a seccomp filter is installed: delivers the pending profiles. From then on the library creates no
 * thread, opens no file, and makes no system call in functions that the host calls or that run at its end. A preloaded
 * library records no events either.
 */
DELTAPROF_API void deltaprof_before_seccomp(void);

/* The same before prctl(PR_SET_TSC, PR_TSC_SIGSEGV): from then on times are as exact as the kernel's tick. */
DELTAPROF_API void deltaprof_before_tsc_trap(void);

/* ---- signals ----------------------------------------------------------------------------------------------------- */

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

/* ---- end --------------------------------------------------------------------------------------------------------- */

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
 * To be called before the calling thread ends by pthread_exit. If it is the main thread, the process then ends together
 * with its last other thread, the library's threads not counted. For any other thread it does nothing.
 */
DELTAPROF_API void deltaprof_before_thread_exit(void);

#ifdef __cplusplus
}
#endif
