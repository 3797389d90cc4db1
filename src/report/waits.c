/* SPDX-License-Identifier: MIT */
/*
 * report/waits.c - reads the table of waits under way (record/waiting.h) and writes it for people.
 *
 * glibc keeps the id of the thread that holds a mutex, or a rwlock for writing, in the lock. The lock may be gone by
 * the time it is read, so the kernel copies that word (process_vm_readv): where it cannot, the holder is not known. A
 * number that is no thread of this process is no holder: a lock may be of another make than glibc's.
 *
 * A holder that waits itself leads to the next one. If the way comes back to where it began, none of these threads will
 * ever go on: a deadlock.
 */
#include "report/waits.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "record/table.h"
#include "record/waiting.h"
#include "report/text.h"
#include "symbols/lock.h"
#include "symbols/maps.h"
#include "symbols/symbol.h"

#include <deltaprof/hooks.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINE_BYTES 512
#define CHAIN_MAX  64

static const char *const kind_names[] = {"nothing", "mutex", "rwlock-read", "rwlock-write", "cond",
                                         "sem",     "spin",  "barrier",     "join"};

struct waits {
    DP_VEC(struct dp_waiting) all;
    struct dp_symbol_files files;
    int64_t now_ns;
    dp_write_fn fn;
    void *ctx;
};

static int say(struct waits *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int say(struct waits *w, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t n = dp_text_vformat(line, sizeof line, 0, format, args);
    va_end(args);
    return w->fn(w->ctx, line, n);
}

/* The thread that holds the lock of a wait; 0: not known. */
static int32_t holder_of(const struct dp_waiting *wait)
{
    static const pthread_mutex_t mutex;
    static const pthread_rwlock_t rwlock;
    size_t offset;
    if (wait->kind == DELTAPROF_LOCK_MUTEX)
        offset = (size_t)((const char *)&mutex.__data.__owner - (const char *)&mutex);
    else if (wait->kind == DELTAPROF_LOCK_READ || wait->kind == DELTAPROF_LOCK_WRITE)
        offset = (size_t)((const char *)&rwlock.__data.__cur_writer - (const char *)&rwlock);
    else
        return 0;
    int32_t tid = 0;
    struct iovec to = {&tid, sizeof tid}, from = {(void *)(wait->lock + offset), sizeof tid};
    if (!wait->lock || syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) != (long)sizeof tid || tid <= 0 ||
        syscall(SYS_tgkill, getpid(), tid, 0))
        return 0;
    return tid;
}

static const struct dp_waiting *wait_of(const struct waits *w, int32_t tid)
{
    for (size_t i = 0; i < w->all.n; i++)
        if (w->all.at[i].tid == tid)
            return &w->all.at[i];
    return NULL;
}

/* Whether the holders of what first waits for, each waiting for the next one's, lead back to first. */
static bool is_deadlocked(const struct waits *w, const struct dp_waiting *first)
{
    const struct dp_waiting *wait = first;
    for (int i = 0; wait && i < CHAIN_MAX; i++) {
        int32_t holder = holder_of(wait);
        if (holder && holder == first->tid)
            return true;
        wait = holder ? wait_of(w, holder) : NULL;
    }
    return false;
}

static int write_stack(struct waits *w, dp_record_id id)
{
    const struct dp_record *record = dp_table_record(DP_KIND_BLOCK, id);
    const dp_frame_id *frames = dp_table_frames(record);
    int err = 0;
    for (unsigned i = 0; !err && i < record->depth; i++) {
        char name[LINE_BYTES - 32];
        const struct dp_frame *frame = dp_frame_get(frames[i]);
        if (frame->type == DP_FRAME_CODE && dp_text_name_of(&w->files, frames[i], frame->pc, name, sizeof name))
            err = say(w, "    %s\n", name);
        else if (frame->type == DP_FRAME_CODE)
            err = say(w, "    0x%llx\n", (unsigned long long)frame->pc);
        else if (dp_frame_synthetic_name(frames[i]))
            err = say(w, "    %s\n", dp_frame_synthetic_name(frames[i]));
    }
    return err;
}

static int write_wait(struct waits *w, const struct dp_waiting *wait)
{
    int64_t ms = (w->now_ns - wait->begin_ns) / 1000000;
    int32_t holder = holder_of(wait);
    int err =
        say(w, "\nthread %d waits %lld.%03d s for %s 0x%llx", (int)wait->tid, (long long)(ms / 1000), (int)(ms % 1000),
            kind_names[wait->kind % (sizeof kind_names / sizeof *kind_names)], (unsigned long long)wait->lock);
    if (!err && holder)
        err = say(w, ", held by %s %d%s", holder == wait->tid ? "itself, thread" : "thread", (int)holder,
                  is_deadlocked(w, wait)                      ? ": a deadlock"
                  : holder != wait->tid && wait_of(w, holder) ? ", which waits, too"
                                                              : "");
    return err || (err = say(w, "\n")) ? err : write_stack(w, wait->record);
}

static int by_begin(const void *a, const void *b)
{
    const struct dp_waiting *x = a, *y = b;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

int dp_waits_write(dp_write_fn fn, void *ctx)
{
    struct waits w = {.fn = fn, .ctx = ctx};
    struct dp_waiting wait;
    int err = 0;
    for (unsigned i = 0; !err && i < dp_waiting_slots(); i++) {
        struct dp_waiting *kept = dp_waiting_read(i, &wait) ? dp_vec_push(&w.all) : NULL;
        if (kept)
            *kept = wait;
    }
    w.now_ns = dp_clock_ns();
    if (w.all.n)
        qsort(w.all.at, w.all.n, sizeof *w.all.at, by_begin);
    dp_symbol_load(DP_SYMBOLIZE_FUNCTIONS);
    dp_symbols_lock(true);
    err = dp_maps_begin();
    dp_symbols_unlock();
    if (!err)
        err = say(&w, "%zu thread%s wait%s\n", w.all.n, w.all.n == 1 ? "" : "s", w.all.n == 1 ? "s" : "");
    for (size_t i = 0; !err && i < w.all.n; i++)
        err = write_wait(&w, &w.all.at[i]);
    dp_symbol_close(&w.files);
    dp_vec_fini(&w.all);
    return err;
}
