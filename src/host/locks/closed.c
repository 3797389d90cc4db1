/* SPDX-License-Identifier: MIT */
/*
 * host/locks/closed.c - looks for a closed group of waits in the system calls of all threads.
 *
 * A condition, a semaphore or a pipe has no holder: any thread that runs may signal, post or write. So such a wait is
 * known to be for ever only if no thread is left to do it. The first thread that could, ends the search; in most
 * programs that is the first one that is looked at.
 *
 * A thread is in the group if it is blocked
 *   - in a futex call without a time limit, for memory that only this process has, in a wait that the hooks have seen
 *     for a second. Of a process with one thread the hooks see no mutex: there, a word that looks like one that is held
 *     by a thread that does not exist is enough;
 *   - in read or write of a pipe, if all processes that have the other end are in the group too.
 * A shared mutex whose holder has ended counts as well: no process will unlock it.
 *
 * A signal handler of the program may post a semaphore or write to a pipe, so with one such waits are not known to be
 * for ever. It may neither signal a condition nor unlock a mutex.
 *
 * A process that shares the memory, made by clone with CLONE_VM and not as a thread, could wake any of them: with one,
 * nothing is known.
 *
 * All must be blocked at one moment. So each thread is read twice: its call and how often it has left the processor
 * must be the same in both rounds, between which all of them were then blocked. One that was just woken is running.
 */
#include "host/locks/closed.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/libc.h"
#include "base/process.h"
#include "base/text.h"
#include "base/task.h"
#include "host/thread/thread.h"

#include <deltaprof/locks.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PROCESSES_MOST = 8 };
#define LONG_NS INT64_C(1000000000)

struct look {
    const struct dp_waits *waits;
    struct dp_closed *closed;
    int32_t self, processes[PROCESSES_MOST];
    size_t n_processes;
    int32_t reading; /* pid of the process that is being looked at */
    bool handlers;   /* the program has handlers of signals */
    int64_t now_ns;
    uint64_t print; /* of all that was read */
};

/* Whether the program handles a signal. Handlers of the profiler are not shown (hooks of sigaction). */
static bool has_handlers(void)
{
    struct sigaction action;
    for (int sig = 1; sig < NSIG; sig++)
        if (sigaction(sig, NULL, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
            return true;
    return false;
}

static bool is_timed(const struct dp_task_call *call)
{
    return call->arguments[3] != 0;
}

/* A futex call that waits for ever, unless woken. *only_here: for memory that no other process has; libstdc++ waits for
 * such memory without the flag. */
static bool is_futex_wait(const struct look *l, const struct dp_task_call *call, bool *only_here)
{
    enum { LOCK_PI2 = 13 };
    int operation = (int)call->arguments[1] & FUTEX_CMD_MASK;
    if (call->number != SYS_futex || is_timed(call) ||
        (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET && operation != FUTEX_LOCK_PI &&
         operation != LOCK_PI2))
        return false;
    *only_here = (call->arguments[1] & FUTEX_PRIVATE_FLAG) || dp_task_has_alone(l->reading, call->arguments[0]);
    return true;
}

/* A mutex that no hook saw, whose holder has ended. */
static bool is_lost_mutex(const struct dp_task_call *call, struct dp_closed_thread *thread)
{
    pthread_mutex_t mutex;
    struct iovec to = {&mutex, sizeof mutex}, from = {(void *)call->arguments[0], sizeof mutex};
    if (syscall(SYS_process_vm_readv, (pid_t)syscall(SYS_gettid), &to, 1UL, &from, 1UL, 0UL) != (long)sizeof mutex ||
        !dp_libc_mutex_has_waiters(&mutex))
        return false;
    thread->unseen = (struct dp_waiting){.lock = call->arguments[0],
                                         .tid = thread->tid,
                                         .kind = DELTAPROF_LOCK_MUTEX,
                                         .is_shared = !(call->arguments[1] & FUTEX_PRIVATE_FLAG)};
    return dp_waits_holder(&thread->unseen).ended;
}

/* A wait for memory, which only a thread of the group could end. */
static bool is_closed_futex(struct look *l, const struct dp_task_call *call, struct dp_closed_thread *thread)
{
    const struct dp_waiting *wait = thread->wait;
    bool only_here;
    if (!is_futex_wait(l, call, &only_here))
        return false;
    if (!wait)
        return is_lost_mutex(call, thread);
    if (l->now_ns - wait->begin_ns < LONG_NS)
        return false;
    if (wait->begin_ns > l->closed->since_ns)
        l->closed->since_ns = wait->begin_ns;
    struct dp_holder holder = dp_waits_holder(wait);
    if (wait->kind == DELTAPROF_LOCK_JOIN)
        return holder.tid && !dp_thread_is_own_id(holder.tid);
    if (dp_waits_is_for_holder(wait))
        return holder.ended || (only_here && !wait->is_shared && (holder.tid || holder.n_readers));
    return only_here && !wait->is_shared && wait->kind != DELTAPROF_LOCK_GIL &&
           (wait->kind == DELTAPROF_LOCK_COND || wait->kind == DELTAPROF_LOCK_BARRIER || !l->handlers);
}

static bool is_closed_pipe(struct look *l, const struct dp_task_call *call, struct dp_closed_thread *thread)
{
    bool reads = call->number == SYS_read || call->number == SYS_readv;
    if ((!reads && call->number != SYS_write && call->number != SYS_writev) || l->handlers)
        return false;
    thread->pipe = dp_pipe_of(thread->pid, thread->tid, (int)call->arguments[0]);
    return thread->pipe != 0;
}

/* A thread of another process: what it waits for in memory is not known, but only that process has it. */
static bool is_closed_elsewhere(struct look *l, const struct dp_task_call *call, struct dp_closed_thread *thread)
{
    bool only_here;
    return (is_futex_wait(l, call, &only_here) && only_here) || is_closed_pipe(l, call, thread);
}

static int take_thread(int32_t tid, void *context)
{
    struct look *l = context;
    int32_t pid = l->reading;
    struct dp_task_call call;
    bool is_here = pid == l->self;
    if ((is_here && dp_thread_is_own_id(tid)) || dp_task_has_ended(pid, tid))
        return 0;
    struct dp_closed_thread *thread = dp_vec_push(&l->closed->threads);
    if (!thread)
        return -ENOMEM;
    *thread = (struct dp_closed_thread){.pid = pid, .tid = tid, .wait = is_here ? dp_waits_of(l->waits, tid) : NULL};
    dp_task_call_read(pid, tid, &call);
    thread->call = call.number;
    bool is_closed =
        call.number >= 0 && (is_here ? is_closed_futex(l, &call, thread) || is_closed_pipe(l, &call, thread)
                                     : is_closed_elsewhere(l, &call, thread));
    if (!is_closed)
        return 1;
    uint64_t words[] = {l->print,          (uint64_t)tid, (uint64_t)call.number,
                        call.arguments[0], call.stack,    dp_task_switches(pid, tid)};
    l->print = dp_hash_bytes(words, sizeof words, 0);
    return 0;
}

static int take_threads(struct look *l, int32_t pid)
{
    char path[64];
    dp_text_format(path, sizeof path, "/proc/%d/task", (int)pid);
    l->reading = pid;
    return dp_task_list(path, take_thread, l);
}

static bool has_process(const struct look *l, int32_t pid)
{
    for (size_t i = 0; i < l->n_processes; i++)
        if (l->processes[i] == pid)
            return true;
    return false;
}

/* The process has the other end of a pipe: its threads must be blocked as well. */
static int take_process(int32_t pid, void *context)
{
    struct look *l = context;
    if (has_process(l, pid))
        return 0;
    if (l->n_processes == PROCESSES_MOST || dp_task_has_handlers(pid))
        return 1;
    l->processes[l->n_processes++] = pid;
    return take_threads(l, pid);
}

/* One round. 0: all are blocked; else some thread may wake another one. */
static int look_once(struct look *l)
{
    dp_vec_clear(&l->closed->threads);
    l->n_processes = 1;
    l->processes[0] = l->self;
    l->print = 0;
    l->closed->since_ns = 0;
    int err = take_threads(l, l->self);
    for (size_t i = 0; !err && i < l->closed->threads.n; i++) { /* grows while processes are added */
        struct dp_closed_thread thread = l->closed->threads.at[i];
        bool reads = thread.call == SYS_read || thread.call == SYS_readv;
        if (thread.pipe)
            err = dp_pipe_each_end(thread.pipe, reads, thread.pid, (int32_t)getppid(), take_process, l);
    }
    return err;
}

/* Whether another process has the memory of this one: it sees a value that was stored after any fork. */
static int has_our_memory(int32_t pid, void *value)
{
    char path[64];
    int64_t seen = 0;
    if (pid == dp_process_pid())
        return 0;
    dp_text_format(path, sizeof path, "/proc/%d/mem", (int)pid);
    int fd = dp_io_move_high(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t n = fd < 0 ? 0 : pread(fd, &seen, sizeof seen, (off_t)(uintptr_t)value);
    if (fd >= 0)
        close(fd);
    return n == sizeof seen && seen == *(int64_t *)value;
}

static bool shares_memory(void)
{
    static int64_t value;
    value = dp_clock_ns();
    return dp_task_list("/proc", has_our_memory, &value) != 0;
}

static bool is_join(const struct dp_closed_thread *thread)
{
    return thread->wait && thread->wait->kind == DELTAPROF_LOCK_JOIN;
}

/* Joins say least. */
static void put_joins_last(struct dp_closed *closed)
{
    for (size_t i = 0, to = 0; i < closed->threads.n; i++) {
        struct dp_closed_thread thread = closed->threads.at[i];
        if (is_join(&thread))
            continue;
        memmove(closed->threads.at + to + 1, closed->threads.at + to, (i - to) * sizeof thread);
        closed->threads.at[to++] = thread;
    }
}

bool dp_closed_find(const struct dp_waits *waits, struct dp_closed *closed)
{
    struct look l = {.waits = waits, .closed = closed, .self = dp_process_pid(), .now_ns = dp_clock_ns()};
    int saved = errno;
    l.handlers = has_handlers();
    bool found = !look_once(&l) && closed->threads.n > 0;
    uint64_t print = l.print;
    found = found && !look_once(&l) && l.print == print;
    for (size_t i = 0; found && i < closed->threads.n; i++)
        found = !closed->threads.at[i].wait || dp_waits_goes_on(closed->threads.at[i].wait);
    found = found && !shares_memory();
    if (found)
        put_joins_last(closed);
    errno = saved;
    return found;
}

void dp_closed_fini(struct dp_closed *closed)
{
    dp_vec_fini(&closed->threads);
}
