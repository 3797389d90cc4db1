/* SPDX-License-Identifier: MIT */
/*
 * libc.h - what the hooks have to know about the C library that they are built for: glibc or musl.
 *
 * In musl the loader is a part of libc, symbols have no versions, and nothing in libc calls a hook before the
 * constructors run.
 *
 * A normal mutex of musl does not tell which thread holds it, nor does a rwlock. So the hooks write the thread's id
 * into a word that musl does not use, after they locked and before they unlock. The library reads it only while the
 * lock is held. A holder that locked without a hook (pthread_mutex_trylock) is not known: the word is 0 then.
 */
#pragma once

#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden"))); /* of this object */

enum dp_libc_mutex { DP_LIBC_MUTEX_PLAIN, DP_LIBC_MUTEX_SHARED = 1, DP_LIBC_MUTEX_ROBUST = 2 };

#ifdef __GLIBC__

static inline const struct r_debug *dp_libc_loader(void)
{
    return &_r_debug;
}

static inline unsigned dp_libc_mutex(const pthread_mutex_t *m)
{
    enum { ROBUST = 0x10, SHARED = 0x80 }; /* glibc marks robust ones as shared */
    return (m->__data.__kind & SHARED ? DP_LIBC_MUTEX_SHARED : 0) |
           (m->__data.__kind & ROBUST ? DP_LIBC_MUTEX_ROBUST : 0);
}

static inline bool dp_libc_mutex_is_locked(const pthread_mutex_t *m)
{
    enum { OWNER = 0x3fffffff };
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) & OWNER;
}

static inline bool dp_libc_rwlock_is_shared(const pthread_rwlock_t *l)
{
    return l->__data.__shared;
}

/* Return their argument. */
static inline int dp_libc_locked(void *lock, int result)
{
    (void)lock;
    return result;
}
#define dp_libc_unlocks(lock) (lock)
static inline void dp_libc_forget_tid(void) {}

#else

extern struct r_debug *_dl_debug_addr;

static inline const struct r_debug *dp_libc_loader(void)
{
    return _dl_debug_addr;
}

static inline unsigned dp_libc_mutex(const pthread_mutex_t *m)
{
    enum { ROBUST = 4, SHARED = 0x80 };
    return (m->__u.__i[0] & SHARED ? DP_LIBC_MUTEX_SHARED : 0) | (m->__u.__i[0] & ROBUST ? DP_LIBC_MUTEX_ROBUST : 0);
}

static inline bool dp_libc_mutex_is_locked(const pthread_mutex_t *m)
{
    enum { OWNER = 0x3fffffff };
    return __atomic_load_n(&m->__u.__i[1], __ATOMIC_RELAXED) & OWNER;
}

static inline bool dp_libc_rwlock_is_shared(const pthread_rwlock_t *l)
{
    return l->__u.__i[2];
}

enum { DP_LIBC_OWNER_WORD = 4 }; /* of mutexes and rwlocks; in a recursive mutex it is unused, too */

/* The calling thread's id; 0: not known yet. */
extern __thread int dp_libc_own_tid __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Notes the calling thread as the holder if `result` says that it has locked. Returns the result. */
static inline int dp_libc_locked(void *lock, int result)
{
    if (!dp_libc_own_tid)
        dp_libc_own_tid = gettid();
    if (result == 0)
        __atomic_store_n((int *)lock + DP_LIBC_OWNER_WORD, dp_libc_own_tid, __ATOMIC_RELAXED);
    return result;
}

/* In a forked child the thread has another id. */
static inline void dp_libc_forget_tid(void)
{
    dp_libc_own_tid = 0;
}

/* Takes the note back. Returns the lock. */
#define dp_libc_unlocks(lock)                                                                 \
    (__atomic_load_n((int *)(lock) + DP_LIBC_OWNER_WORD, __ATOMIC_RELAXED) == dp_libc_own_tid \
         ? (void)__atomic_store_n((int *)(lock) + DP_LIBC_OWNER_WORD, 0, __ATOMIC_RELAXED)    \
         : (void)0,                                                                           \
     (lock))

#endif
