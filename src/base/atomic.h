/* SPDX-License-Identifier: MIT */
/*
 * base/atomic.h - all atomic operations of the project, with the memory order in the name, so that grep shows the
 * orders in use. Objects are _Atomic. A release and the matching acquire carry the same [TAG] in a comment.
 */
#pragma once

#include <stdatomic.h>

#define dp_load_relaxed(p)     atomic_load_explicit((p), memory_order_relaxed)
#define dp_load_acquire(p)     atomic_load_explicit((p), memory_order_acquire)
#define dp_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define dp_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define dp_add_relaxed(p, v)   atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define dp_add_release(p, v)   atomic_fetch_add_explicit((p), (v), memory_order_release)
#define dp_add_acq_rel(p, v)   atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define dp_sub_relaxed(p, v)   atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define dp_sub_release(p, v)   atomic_fetch_sub_explicit((p), (v), memory_order_release)
#define dp_swap_acq_rel(p, v)  atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define dp_and_release(p, v)   atomic_fetch_and_explicit((p), (v), memory_order_release)
#define dp_or_relaxed(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define dp_or_acq_rel(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define dp_fence_acquire()     atomic_thread_fence(memory_order_acquire)
#define dp_fence_release()     atomic_thread_fence(memory_order_release)
/* orders accesses against this thread's signal handlers */
#define dp_fence_signal() atomic_signal_fence(memory_order_seq_cst)

/* Claims something: publishes nothing, and nothing is read through it. */
#define dp_cas_relaxed(p, expected, v) \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_relaxed, memory_order_relaxed)
/* Publishes all earlier writes; on failure the data that the other thread published can be read. */
#define dp_cas_publish(p, expected, v) \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel, memory_order_acquire)
/* Acquires data that another thread published. */
#define dp_cas_acquire(p, expected, v) \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acquire, memory_order_relaxed)

/*
 * For two threads that each write one word and then read the other's: at least one of them must see the other's write.
 * Only the total order of seq_cst guarantees that; each such pair carries a [TAG] too.
 */
#define dp_load_total(p)    atomic_load_explicit((p), memory_order_seq_cst)
#define dp_swap_total(p, v) atomic_exchange_explicit((p), (v), memory_order_seq_cst)
#define dp_cas_total(p, expected, v) \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_seq_cst, memory_order_seq_cst)

/*
 * Adds to a word that only this thread and its signal handlers write; other threads may read it at any time. One
 * instruction, where the processor has one, so that a handler cannot run between load and store. 1 ns, against 4 for a
 * locked add.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define dp_add_own(p, v) __asm__ volatile("addq %1, %0" : "+m"(*(int64_t *)(p)) : "er"((int64_t)(v)) : "memory")
#else
#define dp_add_own(p, v) ((void)dp_add_release((p), (v)))
#endif

/*
 * For the declaration of a variable that hooks read: it is the library's own, so its address is known when the library
 * is linked. -fvisibility=hidden applies to definitions only; without this attribute other files would load the
 * address from a table first.
 */
#define DP_INTERNAL __attribute__((visibility("hidden")))
