/* SPDX-License-Identifier: MIT */
/*
 * base/libc.h - what glibc and musl do differently: the signal that cancels threads, a rename, and the words of a
 * lock.
 *
 * glibc keeps the id of the thread that holds a mutex, or a rwlock for writing, in the lock. Of a rwlock's readers both
 * keep only the number. musl keeps the holder's id in the lock word of a mutex, unless it is a normal one. The preload
 * object writes it into an unused word of those, and of a rwlock (runtime_hooks/preload/libc.h).
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* musl */
#define MADV_POPULATE_WRITE 23
#endif

#ifndef sigev_notify_thread_id /* glibc before 2.41 has no name for it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

#ifdef __GLIBC__

#define DP_LIBC_CANCEL_SIGNAL 32

/* Renames a file in a directory, unless there is one of the new name: then -1, errno EEXIST. */
static inline int dp_libc_rename(int dir, const char *from, const char *to)
{
    return renameat2(dir, from, dir, to, RENAME_NOREPLACE);
}

/* The id in the lock; 0: it is free. glibc writes the owner of a robust mutex into the lock word; the other field has
 * marks of a dead owner as well. */
static inline int32_t dp_libc_mutex_owner(const pthread_mutex_t *m)
{
    enum { ROBUST = 0x10, OWNER = 0x3fffffff };
    return m->__data.__kind & ROBUST ? m->__data.__lock & OWNER : m->__data.__owner;
}

/* Whether the memory looks like a mutex that is held and for which a thread waits. */
static inline bool dp_libc_mutex_has_waiters(const pthread_mutex_t *m)
{
    enum { WAITED_FOR = 2, KINDS = 0x3ff };
    return m->__data.__lock == WAITED_FOR && m->__data.__owner > 0 && !(m->__data.__kind & ~KINDS);
}

static inline bool dp_libc_mutex_inherits_priority(const pthread_mutex_t *m)
{
    enum { INHERITS = 0x20 };
    return m->__data.__kind & INHERITS;
}

/* Returns the writer's id, or 0 and the number of readers. */
static inline int32_t dp_libc_rwlock_owner(const pthread_rwlock_t *l, uint32_t *n_readers)
{
    enum { WRITERS_PHASE = 1, READER_SHIFT = 3 }; /* of __readers, in glibc's pthread_rwlock_common.c */
    *n_readers =
        !l->__data.__cur_writer && !(l->__data.__readers & WRITERS_PHASE) ? l->__data.__readers >> READER_SHIFT : 0;
    return l->__data.__cur_writer;
}

#else

#define DP_LIBC_CANCEL_SIGNAL 33

static inline int dp_libc_rename(int dir, const char *from, const char *to)
{
    enum { NO_REPLACE = 1 };
    return (int)syscall(SYS_renameat2, dir, from, dir, to, NO_REPLACE);
}

enum { DP_LIBC_LOCK_TYPE, DP_LIBC_LOCK_WORD, DP_LIBC_LOCK_OWNER = 4 }; /* words of a mutex */

static inline int32_t dp_libc_mutex_owner(const pthread_mutex_t *m)
{
    enum { NORMAL = 0, KIND = 15, OWNER = 0x3fffffff };
    const int *words = m->__u.__i;
    if ((words[DP_LIBC_LOCK_TYPE] & KIND) != NORMAL)
        return words[DP_LIBC_LOCK_WORD] & OWNER;
    return words[DP_LIBC_LOCK_WORD] ? words[DP_LIBC_LOCK_OWNER] : 0;
}

/* A normal mutex has no mark of its own: any memory might be one. */
static inline bool dp_libc_mutex_has_waiters(const pthread_mutex_t *m)
{
    (void)m;
    return false;
}

static inline bool dp_libc_mutex_inherits_priority(const pthread_mutex_t *m)
{
    enum { INHERITS = 8 };
    return m->__u.__i[DP_LIBC_LOCK_TYPE] & INHERITS;
}

static inline int32_t dp_libc_rwlock_owner(const pthread_rwlock_t *l, uint32_t *n_readers)
{
    enum { WRITTEN = 0x7fffffff };
    uint32_t n = (uint32_t)l->__u.__i[0] & WRITTEN;
    *n_readers = n == WRITTEN ? 0 : n;
    return n == WRITTEN ? l->__u.__i[DP_LIBC_LOCK_OWNER] : 0;
}

#endif
