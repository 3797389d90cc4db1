/* SPDX-License-Identifier: MIT */
/*
 * host/thread/thread.h - the state of the calling thread: all fields of struct deltaprof_thread, and the thread's block
 * of scratch memory.
 */
#pragma once

#include "base/atomic.h"
#include "base/stats.h"
#include "profile/kinds.h"
#include "host/thread/sample.h"

#include <deltaprof/thread.h>

/* Whether the next block of the C heap should lie at a page boundary, for a runtime's sample (host/heap/sample_page.h).
 */
enum dp_thread_sample_page { DP_SAMPLE_PAGE_NONE, DP_SAMPLE_PAGE_ASKED, DP_SAMPLE_PAGE_TAKEN, DP_SAMPLE_PAGE_GIVEN };

enum { DP_THREAD_NEW, DP_THREAD_SETTING_UP, DP_THREAD_READY, DP_THREAD_ENDING, DP_THREAD_ENDED };

/* Has the memory of deltaprof_thread. may_alias: the inline functions of the public thread.h access it by that type. */
struct __attribute__((may_alias)) dp_thread {
    int64_t countdown;                    /* deltaprof_thread.countdown */
    uintptr_t guard;                      /* deltaprof_thread.guard; with DP_GUARD_BUSY, of the library itself */
    int64_t rate;                         /* the rate when the countdown was drawn; 0: the profiler was off */
    int64_t drawn;                        /* the countdown as it was drawn */
    struct dp_thread_random_state random; /* state 0: not seeded */
    void *scratch;                        /* this thread's block, or one borrowed for this event, or NULL */
    uint8_t armed;                        /* a distance was drawn */
    uint8_t state;
    uint8_t own;          /* 1 + number of the shard that only this thread writes; 0: none */
    uint8_t ours : 1;     /* a thread of the profiler: always guarded */
    uint8_t reports : 1;  /* it writes profiles: see dp_thread_report_begin */
    uint32_t number;      /* spreads threads over the shared shards */
    uint32_t spare[3];    /* records that lost their race (table.c) */
    uint32_t labels;      /* the label set that was pushed last (label_sets.h) */
    uint32_t labels_lost; /* pushes since then for which there was no room */
    uint32_t waiting;     /* this thread's slot in the table of waits under way; 0: none yet */
    int32_t tid;          /* the kernel's, for events; 0: not asked yet */
    uint32_t doubts;      /* events left out because of a busy guard whose frame seemed to be gone */
    uint32_t woken_on[2]; /* the last futex words that it was woken on: futex.c */
    uint8_t traced;       /* whether trace is set */
    uint8_t page;         /* enum dp_thread_sample_page */
    uint16_t spacing;     /* 16 times the number of allocations between two samples; 0: not known (sample_page.c) */
    uint32_t page_given;  /* the low half of the address of the block that was given */
    uint64_t trace[3];    /* the bytes of a trace id and of a span id, for events */
    uintptr_t reads[2];   /* rwlocks that it holds for reading; 0: none */
};
_Static_assert(sizeof(struct dp_thread) <= 144, "static TLS is scarce: dlopen fails when it runs out");
_Static_assert(sizeof(struct dp_thread) <= sizeof(struct deltaprof_thread), "one lies over the other");
_Static_assert(offsetof(struct dp_thread, reads) == offsetof(struct deltaprof_thread, reads), "both have the locks");

/* A request of this size or more cannot succeed, and operator new throws: its hook does not guard the countdown. */
#define DP_BYTES_MAX ((size_t)1 << 48)

/*
 * A guard: the stack pointer of the hook, which is even and below DP_GUARD_PLACE; and the number of events that it
 * muted, in the bits above that. BUSY is set while the library works on the thread's own structures. Bit 63 is 0.
 */
#define DP_GUARD_BUSY   ((uintptr_t)1)
#define DP_GUARD_NESTED ((uintptr_t)1 << 57)
#define DP_GUARD_PLACE  (DP_GUARD_NESTED - 1)

static inline struct dp_thread *dp_thread_self(void)
{
    return (struct dp_thread *)&deltaprof_thread;
}

/*
 * Around the work of a report in a thread of the program: a sample of CPU time that comes there has no stack, which
 * would show the library's functions. begin returns what end needs.
 */
static inline bool dp_thread_report_begin(void)
{
    bool before = dp_thread_self()->reports;
    dp_thread_self()->reports = 1;
    dp_fence_signal();
    return before;
}

static inline void dp_thread_report_end(bool before)
{
    dp_fence_signal();
    dp_thread_self()->reports = before;
}

static inline bool dp_thread_guarded(const struct dp_thread *thread)
{
    return thread->countdown == 0 && thread->guard != 0;
}

/* Guards the thread for a frame at sp; a signal handler that finds the countdown 0 finds the guard. */
static inline void dp_thread_guard(struct dp_thread *thread, uintptr_t sp)
{
    thread->guard = sp;
    dp_fence_signal();
    thread->countdown = 0;
}

/* The next event draws a distance. */
static inline void dp_thread_undraw(struct dp_thread *thread)
{
    thread->armed = 0;
    thread->guard = 0;
    dp_fence_signal();
    thread->countdown = 0;
}

/*
 * Whether an event came from inside a hook of this thread, so that it must not count. sp: the stack pointer of the
 * event's caller. If that hook has ended without a reset, the guard ends here (thread.c). Context: hook.
 */
bool dp_thread_is_nested_slow(struct dp_thread *thread, uintptr_t sp);
static inline bool dp_thread_is_nested(struct dp_thread *thread, uintptr_t sp)
{
    return __builtin_expect(dp_thread_guarded(thread), 0) && dp_thread_is_nested_slow(thread, sp);
}

/* The shard that this thread adds to. If it is below DP_SHARDS_OWN, no other thread adds to it. */
static inline unsigned dp_thread_shard(const struct dp_thread *thread)
{
    return thread->own ? thread->own - 1u : DP_SHARDS_OWN + thread->number % (DP_SHARDS - DP_SHARDS_OWN);
}

/* Maps the pool: blocks of block_bytes within budget_bytes, at least two. -ENOMEM: none. Context: init, once. */
int dp_thread_init(size_t block_bytes, size_t budget_bytes);

/* fn is called when a thread that has a block ends, in that thread. Context: init. */
void dp_thread_at_end(void (*fn)(void));

/*
 * Seeds the thread's generator and gets it a block and a shard, if any are left. Works once per thread; cheap later.
 * Context: hook.
 */
void dp_thread_set_up_slow(struct dp_thread *thread);
static inline void dp_thread_set_up(struct dp_thread *thread)
{
    if (__builtin_expect(thread->state == DP_THREAD_NEW, 0))
        dp_thread_set_up_slow(thread);
}

/*
 * To be called when a thread starts: sets it up, with its signal stack, while there are signal stacks. Threads that
 * come later get their blocks at their first event.
 */
void dp_thread_start(void);

/*
 * The block for a capture: at least block_bytes, the same for each capture of this thread; the first 64 bytes of a new
 * block are zero. NULL: none is left, only the leaf can be kept. Context: hook, with the countdown guarded, between
 * borrow and return.
 */
static inline void *dp_thread_scratch(void)
{
    return dp_thread_self()->scratch;
}

/* Gets a block for one event: the thread's own, else a borrowed one. Pass the result to return after the event. */
bool dp_thread_borrow_slow(void);
static inline bool dp_thread_borrow(void)
{
    return __builtin_expect(!dp_thread_self()->scratch, 0) && dp_thread_borrow_slow();
}
void dp_thread_return_slow(void);
static inline void dp_thread_return(bool borrowed)
{
    if (__builtin_expect(borrowed, 0))
        dp_thread_return_slow();
}

/* An event of this thread from begin to end: the countdown is guarded, and a block for the capture is held. */
struct dp_thread_event {
    int64_t kept;
    bool borrowed;
};

static inline struct dp_thread_event dp_thread_event_begin(void)
{
    struct dp_thread_event event = {.kept = deltaprof_guard_enter()};
    dp_thread_self()->guard = deltaprof_stack_pointer() | DP_GUARD_BUSY;
    dp_fence_signal();
    dp_thread_set_up(dp_thread_self());
    event.borrowed = dp_thread_borrow();
    return event;
}

static inline void dp_thread_event_end(struct dp_thread_event event)
{
    dp_thread_return(event.borrowed);
    dp_fence_signal();
    deltaprof_guard_exit(event.kept);
}

/* From now on no thread waits for a borrowed block: a seccomp filter may forbid the system calls. */
void dp_thread_never_wait(void);

/* 64 random bits, for decisions of this thread. Context: hook. */
uint64_t dp_thread_random(void);

/* Marks the calling thread as the profiler's own: its countdown stays guarded, even after guard_reset. */
void dp_thread_mark_own(void);

/* Whether the thread of this id was marked so. unmark: it is a later thread, of the program. */
bool dp_thread_is_own_id(int32_t tid);
void dp_thread_unmark_own_id(int32_t tid);

/*
 * In a forked child: frees the blocks of other threads, and makes this thread's random numbers differ from its
 * parent's. The thread draws a distance at its next event: with the parent's countdown, all children of one parent
 * would sample at the same place. The distribution has no memory, so this causes no bias. Only stores.
 */
void dp_thread_fork_child(uint64_t salt);

/*
 * A record that lost its race is spare: its thread fills it next. A thread has few slots for them, with the kind above
 * the record's id, so two kinds may share one. If one displaces the other, a record of that one stays empty for ever.
 */
enum { DP_THREAD_SPARE_BITS = 28, DP_THREAD_SPARE_MAX = (1 << DP_THREAD_SPARE_BITS) - 1 /* largest id */ };
_Static_assert(DP_KIND_TABLES <= 1 << (32 - DP_THREAD_SPARE_BITS), "a kind fits above an id");

static inline uint32_t *dp_thread_spare_slot(unsigned kind)
{
    struct dp_thread *thread = dp_thread_self();
    return &thread->spare[kind % (sizeof thread->spare / sizeof *thread->spare)];
}

/* The spare record of the kind, which the calling thread has no more; 0: none. */
static inline uint32_t dp_thread_take_spare(unsigned kind)
{
    uint32_t *slot = dp_thread_spare_slot(kind), word = *slot;
    if (word >> DP_THREAD_SPARE_BITS != kind)
        return 0;
    *slot = 0;
    return word & DP_THREAD_SPARE_MAX;
}

static inline void dp_thread_keep_spare(unsigned kind, uint32_t id)
{
    *dp_thread_spare_slot(kind) = (uint32_t)kind << DP_THREAD_SPARE_BITS | id;
}
