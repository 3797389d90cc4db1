/* SPDX-License-Identifier: MIT */
/*
 * host/locks/alarm.c - finds waits that have lasted too long.
 *
 * Only mutexes and rwlocks of the C library have a holder. A wait for one of another library (Rust's) is told by
 * profiles only, after STUCK_NS. A thread that waits for a condition, a semaphore or a barrier may be idle,
 * and gives no alarm; one that waits for the end of another thread does only if that thread waits for it. Neither does
 * a wait whose thread is not blocked in the kernel: it was abandoned, or a signal handler runs on top of it; it is
 * checked again later.
 *
 * The modules are opened at the first check. Later, a thread that is stuck may hold the loader's lock.
 *
 * A wait is identified by its slot and its begin. `told` has the begin of the last wait of each slot that was logged.
 */
#include "host/locks/alarm.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"
#include "host/locks/at_pipe.h"
#include "host/locks/closed.h"
#include "host/locks/last_unlock.h"
#include "host/locks/holders.h"
#include "host/locks/wait_names.h"
#include "base/task.h"

#include <stdarg.h>
#include <string.h>

enum { SHOWN_MAX = 4, RETRY_NS = 1000000000 };
/* A profile tells a circle, or a holder that has ended, after the one time, and another wait for a lock after the
 * other. */
#define NEVER_WAKES_NS INT64_C(1000000000)
#define STUCK_NS       INT64_C(10000000000)
#define AT_PIPE_NS     INT64_C(5000000000)      /* a thread that is joined stays at a pipe for so long */
#define LINE_BYTES     (DP_LOG_LINE_BYTES - 64) /* the log puts the process's id before it */

static DP_LARGE int64_t told[DP_WAITING_SLOTS];

struct line {
    struct dp_waits_names names;
    int64_t now_ns;
    size_t n, end; /* what is written; where the present part must end */
    char text[LINE_BYTES];
};

static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    l->n += dp_text_vformat(l->text + l->n, sizeof l->text - l->n, 0, format, args);
    va_end(args);
}

/* Whether the frame only starts a program or a thread: such frames are in every stack and say nothing. */
static bool is_start(const char *name)
{
    static const char *const starts[] = {"start_thread",
                                         "clone",
                                         "__clone",
                                         "_start",
                                         "__libc_start",
                                         "libstdc++.so.6",
                                         "libc++.so.",
                                         "std::thread::_State_impl<",
                                         "void* std::__1::__thread_proxy",
                                         "std::sys::backtrace::__rust_begin",
                                         "core::ops::function::FnOnce::call_once",
                                         "<std::sys::thread",
                                         "std::rt::lang_start"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(name, starts[i], strlen(starts[i])))
            return true;
    return false;
}

static void add_stack(struct line *l, unsigned kind, dp_record_id id)
{
    static const char more[] = " < ...";
    char name[256];
    unsigned depth = dp_waits_depth(kind, id), n_shown = 0;
    for (unsigned i = 0; i < depth; i++) {
        size_t n = dp_waits_name(&l->names, kind, id, i, name, sizeof name);
        if (!n || (n_shown && is_start(name)))
            continue;
        if (l->n + n + 3 + sizeof more > l->end && n_shown) {
            add(l, "%s", more);
            return;
        }
        add(l, n_shown++ ? " < %s" : " in %s", name);
    }
}

static void add_thread(struct line *l, int32_t tid)
{
    char name[DP_TASK_NAME_BYTES];
    dp_task_name(tid, name);
    add(l, name[0] ? "thread %d (%s)" : "thread %d%s", (int)tid, name);
}

/* A holder that will never unlock. */
static void add_gone(struct line *l, struct dp_holder holder)
{
    add(l,
        holder.in_parent ? "held by thread %d of the parent process when it forked, which never unlocks it here"
                         : "held by thread %d, which has ended",
        (int)holder.tid);
}

static void add_lock(struct line *l, const struct dp_waiting *wait)
{
    char place[80];
    add(l, "%s 0x%llx", dp_waits_kind_name(wait), (unsigned long long)wait->lock);
    if (dp_waits_lock_place(&l->names, wait, place, sizeof place))
        add(l, " (%s)", place);
}

static void add_wait(struct line *l, const struct dp_waiting *wait, struct dp_holder holder)
{
    int64_t ms = (l->now_ns - wait->begin_ns) / 1000000;
    add_thread(l, wait->tid);
    add(l, " waits %lld.%03d s for ", (long long)(ms / 1000), (int)(ms % 1000));
    if (wait->kind == DELTAPROF_LOCK_JOIN)
        add(l, holder.tid ? "the end of thread %d," : "the end of a thread,%.0d", (int)holder.tid);
    else
        add_lock(l, wait);
    if (wait->kind == DELTAPROF_LOCK_JOIN) {
        add_stack(l, DP_KIND_BLOCK, wait->record);
        return;
    }
    if (holder.n_readers) {
        add(l, " held by %u reader%s,", (unsigned)holder.n_readers, holder.n_readers == 1 ? "" : "s");
        if (holder.ended_reader)
            add(l, holder.n_readers == 1 ? " thread %d, which has ended," : " one of them thread %d, which has ended,",
                (int)holder.ended_reader);
        else if (holder.reader)
            add(l, holder.n_readers == 1 ? " thread %d," : " one of them thread %d,", (int)holder.reader);
    } else if (holder.tid == wait->tid)
        add(l, " held by itself,");
    else if (holder.ended) {
        add(l, " ");
        add_gone(l, holder);
        add(l, ",");
    } else if (holder.is_elsewhere)
        add(l, " held by thread %d of another process,", (int)holder.tid);
    else if (holder.tid)
        add(l, " held by thread %d,", (int)holder.tid);
    add_stack(l, DP_KIND_BLOCK, wait->record);
}

/* Adds what a holder does that does not wait itself: its system call, and where it last unlocked the lock. */
static void add_holder(struct line *l, const struct dp_waiting *wait, struct dp_holder holder)
{
    uintptr_t first;
    struct dp_at_pipe at;
    dp_record_id last_unlock = dp_waits_is_for_holder(wait) ? dp_last_unlock_find(wait->lock) : 0;
    if (holder.tid && !holder.ended && !holder.is_elsewhere) {
        long call = dp_task_call(holder.tid, &first);
        add(l, "; ");
        add_thread(l, holder.tid);
        if (dp_task_call_name(call))
            add(l, " is in %s()", dp_task_call_name(call));
        else if (call >= 0)
            add(l, " is in system call %ld", call);
        else
            add(l, call == DP_TASK_RUNS ? " runs" : " does not wait for a lock");
        if (dp_at_pipe_find(holder.tid, &at) && at.ns >= NEVER_WAKES_NS)
            add(l, " of pipe:[%llu] for %lld s or more: a deadlock if thread %d is to %s", (unsigned long long)at.pipe,
                (long long)(at.ns / NEVER_WAKES_NS), (int)wait->tid, at.writes ? "read from it" : "write to it");
    }
    if (last_unlock) {
        add(l, "; last released, while a thread waited,");
        add_stack(l, DP_KIND_MUTEX, last_unlock);
    }
}

static bool is_among(const struct dp_waiting *const *shown, int n, const struct dp_waiting *wait)
{
    for (int i = 0; i < n; i++)
        if (shown[i] == wait)
            return true;
    return false;
}

/* Adds which threads would make it a deadlock. Some may stand in the line already; their stacks are not repeated. */
static void add_suspects(struct line *l, const struct dp_waits *w, const struct dp_waiting *wait,
                         const struct dp_waiting *const *shown, int n_shown)
{
    const struct dp_waiting *suspects[2];
    size_t n = dp_waits_suspects(w, wait, suspects, 2);
    for (size_t i = 0; i < n && i < 2; i++) {
        add(l, i ? " or thread %d" : "; a deadlock if one of the readers is thread %d", (int)suspects[i]->tid);
        if (!is_among(shown, n_shown, suspects[i])) {
            add(l, ", which waits");
            add_stack(l, DP_KIND_BLOCK, suspects[i]->record);
        }
    }
    if (n > 2)
        add(l, " or %zu more", n - 2);
}

/* Adds a circle of threads as one deadlock. */
static void add_deadlock(struct line *l, const struct dp_waiting *const *members, size_t n)
{
    size_t n_shown = n < SHOWN_MAX ? n : SHOWN_MAX, part = (sizeof l->text - 100) / n_shown;
    if (n == 1)
        add(l, "deadlock of a thread with itself");
    else
        add(l, "deadlock of %zu threads", n);
    for (size_t i = 0; i < n_shown; i++) {
        l->end = part * (i + 1);
        add(l, i ? "; " : ": ");
        struct dp_holder holder = dp_waits_holder(members[i]);
        holder.reader = holder.n_readers ? members[(i + 1) % n]->tid : 0;
        add_wait(l, members[i], holder);
    }
    if (n > n_shown)
        add(l, "; and %zu more", n - n_shown);
}

/* Adds a wait, and the waits of the holders behind it; these may be a circle, and each is named once. */
static void add_stuck(struct line *l, const struct dp_waits *w, const struct dp_waiting *wait)
{
    enum { PARTS = SHOWN_MAX + 1 };
    const struct dp_waiting *shown[SHOWN_MAX];
    for (int i = 0; i < SHOWN_MAX; i++) {
        struct dp_holder holder = dp_waits_holder(wait);
        const struct dp_waiting *next = holder.tid && !holder.ended ? dp_waits_of(w, holder.tid) : NULL;
        shown[i] = wait;
        l->end = (sizeof l->text - 100) / PARTS * (size_t)(i + 1 + !next);
        add(l, i ? "; " : "");
        add_wait(l, wait, holder);
        l->end = sizeof l->text - 100;
        if (!next) {
            add_holder(l, wait, holder);
            if (holder.n_readers)
                add_suspects(l, w, wait, shown, i + 1);
            break;
        }
        if (is_among(shown, i + 1, next))
            break;
        wait = next;
    }
    unsigned n_unlisted = dp_waiting_unlisted();
    if (n_unlisted)
        add(l, "; %u more threads wait, but the table of waits is full (raise memory=)", n_unlisted);
}

static void log_wait(const struct dp_waits *w, const struct dp_waiting *wait)
{
    const struct dp_waiting *members[DP_WAITS_CIRCLE_MAX];
    struct line l = {.now_ns = dp_clock_ns()};
    if (dp_waits_names_begin(&l.names))
        return;
    size_t n = dp_waits_circle(w, wait, members, DP_WAITS_CIRCLE_MAX);
    if (n)
        add_deadlock(&l, members, n);
    else
        add_stuck(&l, w, wait);
    dp_log(DP_LOG_ERROR, n ? "%s" : "stuck: %s", l.text);
    told[wait->slot] = wait->begin_ns;
    for (size_t i = 0; i < n; i++)
        told[members[i]->slot] = members[i]->begin_ns;
    dp_waits_names_end(&l.names);
}

/* BEHIND_PIPE: of a thread that does not move at a pipe, which is worse than any wait that is only long. */
enum badness { HARMLESS, LONG, BEHIND_PIPE, HOLDER_ENDED, CIRCLE };

/* How bad a wait is that has lasted so long; HARMLESS is not reported. *members: the circle of *n waits it is in. */
static enum badness badness(const struct dp_waits *w, const struct dp_waiting *wait, int64_t waited_ns,
                            const struct dp_waiting **members, size_t *n)
{
    bool is_join = wait->kind == DELTAPROF_LOCK_JOIN;
    *n = 0;
    if ((!is_join && !dp_waits_is_for_lock(wait)) || waited_ns < NEVER_WAKES_NS)
        return HARMLESS;
    if ((*n = dp_waits_circle(w, wait, members, DP_WAITS_CIRCLE_MAX)))
        return CIRCLE;
    if (!dp_waits_goes_on(wait) || !dp_waits_is_blocked(wait))
        return HARMLESS;
    struct dp_holder holder = dp_waits_holder(wait);
    struct dp_at_pipe at;
    bool is_at_pipe = holder.tid && !holder.ended && !holder.is_elsewhere && dp_at_pipe_find(holder.tid, &at);
    if (is_join) /* one that reads may be idle */
        return is_at_pipe && at.writes && at.ns >= AT_PIPE_NS && waited_ns >= STUCK_NS ? BEHIND_PIPE : HARMLESS;
    if ((holder.ended || holder.ended_reader) && !dp_waits_may_time_out(wait))
        return HOLDER_ENDED;
    return waited_ns < STUCK_NS ? HARMLESS : is_at_pipe && at.ns >= NEVER_WAKES_NS ? BEHIND_PIPE : LONG;
}

/* The next longest wait for a lock whose holder is not known: of two that wait for each other, both are to be seen. */
static void add_other(struct line *l, const struct dp_waits *w, const struct dp_waiting *worst)
{
    const struct dp_waiting *members[DP_WAITS_CIRCLE_MAX];
    size_t n;
    for (size_t i = 0; i < w->all.n && worst->kind == DELTAPROF_LOCK_FUTEX; i++) {
        const struct dp_waiting *other = &w->all.at[i];
        if (other == worst || other->kind != DELTAPROF_LOCK_FUTEX ||
            !badness(w, other, l->now_ns - other->begin_ns, members, &n))
            continue;
        add(l, "; ");
        l->end = sizeof l->text - 100;
        add_wait(l, other, dp_waits_holder(other));
        return;
    }
}

/* Adds a thread of a closed group. */
static void add_closed_thread(struct line *l, const struct dp_closed_thread *thread)
{
    if (thread->wait) {
        add_wait(l, thread->wait, dp_waits_holder(thread->wait));
        return;
    }
    if (thread->pid == dp_process_pid())
        add_thread(l, thread->tid);
    else
        add(l, "thread %d of process %d", (int)thread->tid, (int)thread->pid);
    if (thread->unseen.lock) {
        add(l, " waits for mutex 0x%llx ", (unsigned long long)thread->unseen.lock);
        add_gone(l, dp_waits_holder(&thread->unseen));
    } else if (thread->pipe)
        add(l, " is in %s() of pipe:[%llu]", dp_task_call_name(thread->call), (unsigned long long)thread->pipe);
    else
        add(l, " waits for its own process");
}

/* Describes a process in which no thread can wake. False: it is none. */
static bool describe_closed(const struct dp_waits *w, struct line *l, int64_t *waited_ns)
{
    struct dp_closed closed = {.since_ns = 0};
    bool found = dp_closed_find(w, &closed) && !dp_waits_names_begin(&l->names);
    if (found) {
        size_t n = closed.threads.n, n_shown = n < SHOWN_MAX ? n : SHOWN_MAX, part = (sizeof l->text - 100) / n_shown;
        *waited_ns = closed.since_ns ? l->now_ns - closed.since_ns : 1000000;
        add(l,
            n == 1 ? "deadlock of the only thread: " : "deadlock of all %zu threads, which nothing else can wake: ", n);
        for (size_t i = 0; i < n_shown; i++) {
            l->end = part * (i + 1);
            add(l, i ? "; " : "");
            add_closed_thread(l, &closed.threads.at[i]);
        }
        if (n > n_shown)
            add(l, "; and %zu more", n - n_shown);
        dp_waits_names_end(&l->names);
    }
    dp_closed_fini(&closed);
    return found;
}

bool dp_waits_worst(char *text, size_t n_bytes, int64_t *waited_ns)
{
    const struct dp_waiting *members[DP_WAITS_CIRCLE_MAX], *worst = NULL;
    struct line l = {.now_ns = dp_clock_ns()};
    struct dp_waits w = {0};
    size_t n;
    enum badness most = HARMLESS;
    dp_waits_read(&w);
    for (size_t i = 0; i < w.all.n; i++) {
        const struct dp_waiting *wait = &w.all.at[i];
        enum badness bad = badness(&w, wait, l.now_ns - wait->begin_ns, members, &n);
        if (bad > most || (bad && bad == most && wait->begin_ns < worst->begin_ns)) {
            most = bad;
            worst = wait;
        }
    }
    bool found = most < HOLDER_ENDED && describe_closed(&w, &l, waited_ns), is_closed = found;
    if (!found)
        found = worst && !dp_waits_names_begin(&l.names);
    if (is_closed) {
        dp_text_format(text, n_bytes, "%s", l.text);
    } else if (found) {
        *waited_ns = l.now_ns - worst->begin_ns;
        if (badness(&w, worst, *waited_ns, members, &n) == CIRCLE)
            add_deadlock(&l, members, n);
        else {
            add_stuck(&l, &w, worst);
            add_other(&l, &w, worst);
        }
        dp_text_format(text, n_bytes, "%s", l.text);
        dp_waits_names_end(&l.names);
    }
    dp_waits_free(&w);
    return found;
}

int64_t dp_waits_alarm(int64_t stuck_ns)
{
    struct dp_waits w = {0};
    dp_symbols_load(DP_SYMBOLIZE_FUNCTIONS);
    dp_waits_read(&w);
    int64_t now = dp_clock_ns(), next = now + stuck_ns;
    for (size_t i = 0; i < w.all.n; i++) {
        const struct dp_waiting *wait = &w.all.at[i];
        int64_t due = wait->begin_ns + stuck_ns;
        if (!dp_waits_is_for_holder(wait) || told[wait->slot] == wait->begin_ns)
            continue;
        if (due > now)
            next = due < next ? due : next;
        else if (dp_waits_goes_on(wait) && dp_waits_is_blocked(wait))
            log_wait(&w, wait);
        else
            next = now + RETRY_NS < next ? now + RETRY_NS : next;
    }
    dp_waits_free(&w);
    return next;
}
