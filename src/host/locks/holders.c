/* SPDX-License-Identifier: MIT */
/*
 * host/locks/holders.c - finds the holder of a lock, and circles of threads.
 *
 * The lock itself tells the id of the thread that holds it (base/libc.h), or how many threads hold it for reading. A
 * thread that waits tells two of the rwlocks that it holds for reading itself (locks.h). So of the readers of a lock,
 * those that wait are known, and one that waits is enough for a circle: the writer needs all of them. The lock's memory
 * may be unmapped when it is read, so the kernel copies its words (process_vm_readv). If the kernel cannot, the holder
 * is not known. The holder of a shared lock may be a thread of another process. Its id means another thread if that
 * process has another namespace of process ids.
 *
 * A thread that joins another one waits in the kernel for a word of the C library's that has the other thread's id and
 * becomes 0 at its end. So that thread is the holder. The futex call's argument is the address of the word.
 *
 * A circle is a deadlock only if all its waits and holders existed at one moment. So the waits are read first, then the
 * holders, and then each wait must still be the same one. A thread cannot unlock a lock while it waits, so each holder
 * had its lock for all the time in between. A wait that was abandoned stays in the table although its thread does other
 * things; such a thread is not blocked in the kernel, and is recognized by that.
 */
#include "host/locks/holders.h"

#include "base/libc.h"
#include "base/process.h"
#include "host/locks/ended_reader.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "base/task.h"
#include "profile/lock_kinds.h"

#include <deltaprof/locks.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LOOKS_MOST = 256 };

static int by_begin(const void *a, const void *b)
{
    const struct dp_waiting *x = a, *y = b;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

void dp_waits_read(struct dp_waits *w)
{
    struct dp_waiting wait;
    dp_vec_clear(&w->all);
    for (unsigned i = 0; i < dp_waiting_slots(); i++) {
        bool waits = dp_waiting_peek(i, &wait) && !dp_task_is_gone(wait.tid);
        struct dp_waiting *kept = waits ? dp_vec_push(&w->all) : NULL;
        if (kept)
            *kept = wait;
    }
    if (w->all.n)
        qsort(w->all.at, w->all.n, sizeof *w->all.at, by_begin);
}

void dp_waits_free(struct dp_waits *w)
{
    dp_vec_fini(&w->all);
}

const struct dp_waiting *dp_waits_of(const struct dp_waits *w, int32_t tid)
{
    for (size_t i = 0; i < w->all.n; i++)
        if (w->all.at[i].tid == tid)
            return &w->all.at[i];
    return NULL;
}

bool dp_waits_is_for_holder(const struct dp_waiting *wait)
{
    return wait->lock && (wait->kind == DELTAPROF_LOCK_MUTEX || wait->kind == DELTAPROF_LOCK_READ ||
                          wait->kind == DELTAPROF_LOCK_WRITE);
}

bool dp_waits_is_for_lock(const struct dp_waiting *wait)
{
    bool shown;
    if (wait->kind != DELTAPROF_LOCK_FUTEX || !wait->lock)
        return dp_waits_is_for_holder(wait);
    unsigned lock = dp_futex_lock_of(DP_KIND_BLOCK, dp_table_record(DP_KIND_BLOCK, wait->record), &shown);
    return lock == DP_LOCK_MUTEX || lock == DP_LOCK_RWLOCK;
}

/* Copies a lock. False: there is no such memory, or it cannot be seen. */
static bool copy(void *lock, size_t n_bytes, const struct dp_waiting *wait)
{
    if (dp_task_process < 0)
        return false;
    int saved = errno;
    struct iovec to = {lock, n_bytes}, from = {(void *)wait->lock, n_bytes};
    /* Not this process's id: a main thread that has ended has no memory. */
    pid_t owner = dp_task_process ? wait->tid : (pid_t)syscall(SYS_gettid);
    bool copied = syscall(SYS_process_vm_readv, owner, &to, 1UL, &from, 1UL, 0UL) == (long)n_bytes;
    errno = saved;
    return copied;
}

/* The thread whose end the waiter waits for; 0: not known. */
static int32_t joined_by(const struct dp_waiting *wait)
{
    struct dp_waiting at = {.lock = 0, .tid = wait->tid};
    int32_t tid;
    return dp_task_call(wait->tid, &at.lock) == SYS_futex && copy(&tid, sizeof tid, &at) ? tid : 0;
}

/* Whether no thread has this id, or none of this process. */
static bool is_nowhere(int32_t tid, bool in_this_process)
{
    int saved = errno;
    bool nowhere = in_this_process ? dp_task_is_gone(tid) : syscall(SYS_tkill, tid, 0) && errno == ESRCH;
    errno = saved;
    return nowhere;
}

/*
 * Whether the thread is one of a process that forked this one, directly or not, and is older than this one: then a lock
 * of this process that it holds was copied while locked.
 */
static bool is_in_parent(int32_t tid)
{
    enum { FIELD_PARENT = 4, FIELD_START = 22, GENERATIONS_MOST = 8 };
    pid_t pid = dp_task_process ? dp_task_process : dp_process_pid();
    uint64_t begin = dp_process_stat(pid, pid, FIELD_START, NULL);
    for (int i = 0; i < GENERATIONS_MOST && pid > 0; i++) {
        pid = (pid_t)dp_process_stat(pid, pid, FIELD_PARENT, NULL);
        uint64_t start = pid > 0 ? dp_process_stat(pid, tid, FIELD_START, NULL) : 0;
        if (start)
            return start <= begin;
    }
    return false;
}

struct dp_holder dp_waits_holder(const struct dp_waiting *wait)
{
    union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
    } lock;
    struct dp_holder holder = {0};
    if (wait->kind == DELTAPROF_LOCK_JOIN) {
        holder.tid = joined_by(wait);
        if (holder.tid < 0 || (holder.tid && is_nowhere(holder.tid, true)))
            holder.tid = 0; /* it has ended, and the waiter will wake */
        return holder;
    }
    if (!dp_waits_is_for_holder(wait))
        return holder;
    if (wait->kind == DELTAPROF_LOCK_MUTEX) {
        if (copy(&lock, sizeof lock.mutex, wait))
            holder.tid = dp_libc_mutex_owner(&lock.mutex);
    } else if (copy(&lock, sizeof lock.rwlock, wait)) {
        holder.tid = dp_libc_rwlock_owner(&lock.rwlock, &holder.n_readers);
    }
    if (holder.tid < 0)
        holder.tid = 0;
    bool is_foreign = holder.tid && is_nowhere(holder.tid, true);
    holder.ended = is_foreign && (!wait->is_shared || is_nowhere(holder.tid, false));
    holder.is_elsewhere = is_foreign && !holder.ended;
    holder.in_parent = holder.ended && !is_nowhere(holder.tid, false) && is_in_parent(holder.tid);
    if (holder.n_readers && wait->kind == DELTAPROF_LOCK_WRITE && !dp_task_process)
        holder.ended_reader = dp_ended_reader_find(wait->lock);
    if (holder.ended_reader && !is_nowhere(holder.ended_reader, true))
        holder.ended_reader = 0;
    return holder;
}

/* The kernel refuses to wait for such a mutex if that is a deadlock. glibc then waits for ever, elsewhere. */
static bool inherits_priority(const struct dp_waiting *wait)
{
    pthread_mutex_t mutex;
    return wait->kind == DELTAPROF_LOCK_MUTEX && copy(&mutex, sizeof mutex, wait) &&
           dp_libc_mutex_inherits_priority(&mutex);
}

bool dp_waits_is_blocked(const struct dp_waiting *wait)
{
    uintptr_t word;
    long call = dp_task_call(wait->tid, &word);
    if (wait->kind == DELTAPROF_LOCK_JOIN)
        return call == SYS_futex;
    size_t n_bytes = wait->kind == DELTAPROF_LOCK_MUTEX ? sizeof(pthread_mutex_t) : sizeof(pthread_rwlock_t);
    return call == DP_TASK_UNKNOWN || (call == SYS_futex && (word - wait->lock < n_bytes || inherits_priority(wait)));
}

bool dp_waits_goes_on(const struct dp_waiting *wait)
{
    struct dp_waiting now;
    return dp_waiting_peek_again(wait->slot, &now) && now.begin_ns == wait->begin_ns && now.tid == wait->tid &&
           !dp_task_is_gone(now.tid);
}

bool dp_waits_may_time_out(const struct dp_waiting *wait)
{
    struct dp_task_call call;
    dp_task_call_read(0, wait->tid, &call);
    return call.number == SYS_futex && call.arguments[3] != 0;
}

/* Whether the thread of another wait holds what this one waits for. */
static bool is_held_by(const struct dp_waiting *wait, struct dp_holder holder, const struct dp_waiting *other)
{
    bool reads = false;
    for (unsigned i = 0; i < DP_WAITING_READS; i++)
        reads |= other->reads[i] == wait->lock;
    return holder.tid ? holder.tid == other->tid : reads && holder.n_readers && wait->kind == DELTAPROF_LOCK_WRITE;
}

/* The way from one wait to another, each for what the next one holds. */
struct way {
    const struct dp_waits *waits;
    const struct dp_waiting *to, *at[DP_WAITS_CIRCLE_MAX];
    size_t n, n_left; /* waits that may still be looked at */
};

static bool is_on_way(const struct way *way, const struct dp_waiting *wait)
{
    for (size_t i = 0; i < way->n; i++)
        if (way->at[i] == wait)
            return true;
    return false;
}

static bool find_way(struct way *way, const struct dp_waiting *wait)
{
    struct dp_holder holder = dp_waits_holder(wait);
    if (!way->n_left || way->n == DP_WAITS_CIRCLE_MAX || (!holder.tid && !holder.n_readers) ||
        !dp_waits_is_blocked(wait) || dp_waits_may_time_out(wait))
        return false;
    way->n_left--;
    way->at[way->n++] = wait;
    if (is_held_by(wait, holder, way->to))
        return true;
    for (size_t i = 0; i < way->waits->all.n; i++) {
        const struct dp_waiting *next = &way->waits->all.at[i];
        if (is_held_by(wait, holder, next) && !is_on_way(way, next) && find_way(way, next))
            return true;
    }
    way->n--;
    return false;
}

size_t dp_waits_circle(const struct dp_waits *w, const struct dp_waiting *first, const struct dp_waiting **members,
                       size_t n)
{
    struct way way = {.waits = w, .to = first, .n_left = LOOKS_MOST};
    if (!find_way(&way, first) || !is_held_by(way.at[way.n - 1], dp_waits_holder(way.at[way.n - 1]), first))
        return 0;
    for (size_t i = 0; i < way.n; i++)
        if (!dp_waits_goes_on(way.at[i]))
            return 0;
    memcpy(members, way.at, (n < way.n ? n : way.n) * sizeof(const struct dp_waiting *));
    return way.n;
}

/* Whether the wait ends only after the thread's lock is free, or after unknown readers unlock another lock. */
static bool hangs_on(const struct dp_waits *w, const struct dp_waiting *wait, const struct dp_waiting *for_readers)
{
    for (size_t i = 0; wait && i < DP_WAITS_CIRCLE_MAX; i++) {
        struct dp_holder holder = dp_waits_holder(wait);
        if (!dp_waits_is_blocked(wait))
            return false;
        if (holder.n_readers)
            return wait->lock != for_readers->lock;
        if (holder.tid == for_readers->tid)
            return true;
        wait = holder.tid ? dp_waits_of(w, holder.tid) : NULL;
    }
    return false;
}

size_t dp_waits_suspects(const struct dp_waits *w, const struct dp_waiting *for_readers,
                         const struct dp_waiting **suspects, size_t n)
{
    size_t n_found = 0;
    for (size_t i = 0; i < w->all.n; i++) {
        const struct dp_waiting *wait = &w->all.at[i];
        if (wait->tid == for_readers->tid || !hangs_on(w, wait, for_readers) || !dp_waits_goes_on(wait))
            continue;
        if (n_found < n)
            suspects[n_found] = wait;
        n_found++;
    }
    return n_found;
}

const char *dp_waits_kind_name(const struct dp_waiting *wait)
{
    bool shown;
    const struct dp_record *record = dp_table_record(DP_KIND_BLOCK, wait->record);
    bool futex = wait->kind == DELTAPROF_LOCK_FUTEX;
    const char *name = dp_lock_kind_name(futex ? dp_futex_lock_of(DP_KIND_BLOCK, record, &shown) : wait->kind);
    return name ? name : "nothing";
}
