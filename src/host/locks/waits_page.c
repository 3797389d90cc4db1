/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waits_page.c - writes the waits under way: deadlocks first, each as one line; then a paragraph for each
 * wait, with its stack, and below it the stack of the last unlock of its lock, if its holder does not wait itself.
 */
#include "host/locks/waits_page.h"

#include "base/clock.h"
#include "base/text.h"
#include "host/locks/last_unlock.h"
#include "host/locks/holders.h"
#include "host/locks/wait_names.h"
#include "base/task.h"

#include <stdarg.h>

#define LINE_BYTES 512

struct page {
    struct dp_waits waits;
    struct dp_waits_names names;
    int64_t now_ns;
    dp_pprof_write_fn fn;
    void *ctx;
};

static int print(struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int print(struct page *p, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t n = dp_text_vformat(line, sizeof line, 0, format, args);
    va_end(args);
    return p->fn(p->ctx, line, n);
}

static int write_stack(struct page *p, unsigned kind, dp_record_id id)
{
    char name[LINE_BYTES - 32];
    int err = 0;
    for (unsigned i = 0; !err && i < dp_waits_depth(kind, id); i++)
        if (dp_waits_name(&p->names, kind, id, i, name, sizeof name))
            err = print(p, "    %s\n", name);
    return err;
}

/* Each circle is found from each of its threads; the one with the lowest id names it. */
static int write_circle(struct page *p, const struct dp_waiting *first)
{
    const struct dp_waiting *members[DP_WAITS_CIRCLE_MAX];
    size_t n = dp_waits_circle(&p->waits, first, members, DP_WAITS_CIRCLE_MAX);
    for (size_t i = 1; i < n; i++)
        if (members[i]->tid < first->tid)
            return 0;
    int err = n ? print(p, "deadlock: thread %d", (int)first->tid) : 0;
    for (size_t i = 1; !err && i < n; i++)
        err = print(p, " waits for thread %d, which", (int)members[i]->tid);
    return err || !n ? err : print(p, " waits for %s\n", n == 1 ? "itself" : "the first one");
}

/* The readers of a lock are not known; but which threads would make it a deadlock if they were among them. */
static int write_readers(struct page *p, const struct dp_waiting *wait, uint32_t n_readers, int32_t ended)
{
    const struct dp_waiting *suspects[4];
    size_t n = dp_waits_suspects(&p->waits, wait, suspects, 4);
    int err = print(p, ", held by %u reader%s", (unsigned)n_readers, n_readers == 1 ? "" : "s");
    if (!err && ended)
        err = print(p, ", one of them thread %d, which has ended", (int)ended);
    for (size_t i = 0; !err && i < n && i < 4; i++)
        err = print(p, i ? " or %d" : ", a deadlock if one of them is thread %d", (int)suspects[i]->tid);
    return err || n <= 4 ? err : print(p, " or %zu more", n - 4);
}

static int write_holder(struct page *p, const struct dp_waiting *wait, struct dp_holder holder)
{
    const struct dp_waiting *members[1];
    if (holder.n_readers)
        return write_readers(p, wait, holder.n_readers, holder.ended_reader);
    if (!holder.tid)
        return 0;
    bool is_circle = dp_waits_circle(&p->waits, wait, members, 1);
    if (wait->kind == DELTAPROF_LOCK_JOIN)
        return print(p, ", thread %d%s", (int)holder.tid, is_circle ? ": a deadlock" : "");
    if (holder.tid == wait->tid && !is_circle)
        return print(p, ", which it has got");
    int err = print(p, ", held by %s %d", holder.tid == wait->tid ? "itself, thread" : "thread", (int)holder.tid);
    if (err || holder.ended)
        return err                ? err
               : holder.in_parent ? print(p, " of the parent process when it forked, which never unlocks it here")
                                  : print(p, ", which has ended");
    if (holder.is_elsewhere)
        return print(p, " of another process");
    if (is_circle)
        return print(p, ": a deadlock");
    return holder.tid != wait->tid && dp_waits_of(&p->waits, holder.tid) ? print(p, ", which waits, too") : 0;
}

/* What is known of a lock without an address: only mutexes and rwlocks are held. */
static const char *lock_words(const struct dp_waiting *wait)
{
    bool is_held =
        wait->kind == DELTAPROF_LOCK_MUTEX || wait->kind == DELTAPROF_LOCK_READ || wait->kind == DELTAPROF_LOCK_WRITE;
    return is_held                             ? "that another process may hold"
           : wait->kind == DELTAPROF_LOCK_JOIN ? "with a thread that has not ended"
                                               : "of an address that is not known";
}

static int write_wait(struct page *p, const struct dp_waiting *wait)
{
    char name[DP_TASK_NAME_BYTES], place[128];
    int64_t ms = (p->now_ns - wait->begin_ns) / 1000000;
    struct dp_holder holder = dp_waits_holder(wait);
    bool may_be_elsewhere = dp_waits_is_for_holder(wait) && wait->is_shared && !holder.tid && !holder.n_readers;
    const char *shared = may_be_elsewhere ? " that another process may hold" : "";
    dp_record_id last_unlock = dp_waits_is_for_holder(wait) ? dp_last_unlock_find(wait->lock) : 0;
    dp_task_name(wait->tid, name);
    int err = print(p, "\nthread %d waits %lld.%03d s for %s ", (int)wait->tid, (long long)(ms / 1000),
                    (int)(ms % 1000), dp_waits_kind_name(wait));
    if (!err && wait->lock && dp_waits_lock_place(&p->names, wait, place, sizeof place))
        err = print(p, "0x%llx (%s)%s", (unsigned long long)wait->lock, place, shared);
    else if (!err && wait->lock)
        err = print(p, "0x%llx%s", (unsigned long long)wait->lock, shared);
    else if (!err)
        err = print(p, "%s", lock_words(wait));
    if (!err)
        err = write_holder(p, wait, holder);
    if (!err)
        err = print(p, name[0] ? " (%s)\n" : "%s\n", name);
    if (!err)
        err = write_stack(p, DP_KIND_BLOCK, wait->record);
    if (err || !last_unlock || dp_waits_of(&p->waits, holder.tid))
        return err;
    err = print(p, "  last released, while a thread waited, in\n");
    return err ? err : write_stack(p, DP_KIND_MUTEX, last_unlock);
}

static int write_count(struct page *p)
{
    size_t n_unlisted = dp_waiting_unlisted(), n = p->waits.all.n + n_unlisted;
    int err = print(p, "%zu thread%s wait%s", n, n == 1 ? "" : "s", n == 1 ? "s" : "");
    if (!err && n_unlisted)
        err = print(p, ", %zu of them not listed here: too many at once (raise memory=)", n_unlisted);
    return err ? err : print(p, "\n");
}

int dp_waits_write(dp_pprof_write_fn fn, void *ctx)
{
    struct page p = {.fn = fn, .ctx = ctx};
    int err = dp_waits_names_begin(&p.names);
    dp_waits_read(&p.waits);
    p.now_ns = dp_clock_ns();
    size_t n = p.waits.all.n;
    if (!err)
        err = write_count(&p);
    for (size_t i = 0; !err && i < n; i++)
        err = write_circle(&p, &p.waits.all.at[i]);
    for (size_t i = 0; !err && i < n; i++)
        err = write_wait(&p, &p.waits.all.at[i]);
    dp_waits_names_end(&p.names);
    dp_waits_free(&p.waits);
    return err;
}
