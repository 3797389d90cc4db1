/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/lone_thread.c - looks at the system call of a process with one thread, from outside.
 *
 * Two waits are known to be for ever: for a mutex whose holder has ended, and for a pipe whose other end only processes
 * have that wait for a pipe themselves, in a group that no other process writes to or reads from. A handler of a signal
 * may write to a pipe, and from outside the handlers of the profiler look like others. So a wait for a full pipe
 * counts, and one for an empty pipe only if the process handles no signal.
 *
 * All must be blocked at one moment: what was read must be the same in a second round.
 */
#include "tool/summary/lone_thread.h"

#include "base/hash.h"
#include "base/io.h"
#include "base/libc.h"
#include "base/task.h"
#include "tool/summary/sentence_parts.h"

#include <linux/futex.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PROCESSES_MOST = 8 };

struct lone {
    int32_t tid;
    unsigned n_threads;
};

struct group {
    int32_t pids[PROCESSES_MOST];
    size_t n;
    uint64_t print; /* of the system calls */
};

static int count_thread(int32_t tid, void *context)
{
    struct lone *lone = context;
    lone->tid = tid;
    return ++lone->n_threads > 1;
}

/* The id of the process's only thread, and its call; 0: it has several, or cannot be read. */
static int32_t read_lone(int32_t pid, struct dp_task_call *call)
{
    char path[64];
    struct lone lone = {.n_threads = 0};
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    if (dp_task_list(path, count_thread, &lone) || !lone.n_threads || dp_task_has_ended(pid, lone.tid))
        return 0;
    dp_task_call_read(pid, lone.tid, call);
    return lone.tid;
}

/* Ids of threads mean the same there as here. */
static bool has_same_ids(int32_t pid)
{
    char path[64];
    struct stat here, there;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
    return !stat(path, &there) && !stat("/proc/self/ns/pid", &here) && here.st_ino == there.st_ino;
}

/* Of a mutex that the thread waits for and whose holder has ended: the holder's id; else 0. */
static int32_t find_ended_holder(int32_t pid, const struct dp_task_call *call)
{
    pthread_mutex_t mutex;
    char path[96];
    struct iovec to = {&mutex, sizeof mutex}, from = {(void *)call->arguments[0], sizeof mutex};
    bool waits = call->number == SYS_futex && ((int)call->arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
    if (!waits || call->arguments[3] || process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof mutex ||
        !dp_libc_mutex_has_waiters(&mutex) || !has_same_ids(pid))
        return 0;
    int32_t holder = dp_libc_mutex_owner(&mutex);
    if (call->arguments[1] & FUTEX_PRIVATE_FLAG)
        snprintf(path, sizeof path, "/proc/%d/task/%d", (int)pid, (int)holder);
    else
        snprintf(path, sizeof path, "/proc/%d", (int)holder); /* of threads, too */
    return access(path, F_OK) ? holder : 0;
}

/* 0: the process waits for a pipe as the others of the group do, or is in it already. */
static int take_process(int32_t pid, void *context)
{
    struct group *group = context;
    struct dp_task_call call;
    for (size_t i = 0; i < group->n; i++)
        if (group->pids[i] == pid)
            return 0;
    int32_t tid = group->n < PROCESSES_MOST ? read_lone(pid, &call) : 0;
    bool reads = tid && (call.number == SYS_read || call.number == SYS_readv);
    bool writes = tid && (call.number == SYS_write || call.number == SYS_writev);
    uint64_t pipe = reads || writes ? dp_pipe_of(pid, tid, (int)call.arguments[0]) : 0;
    if (!pipe || (reads && dp_task_has_handlers(pid)))
        return 1;
    group->pids[group->n++] = pid;
    uint64_t words[] = {group->print, (uint64_t)tid, (uint64_t)call.number,
                        call.stack,   pipe,          dp_task_switches(pid, tid)};
    group->print = dp_hash_bytes(words, sizeof words, 0);
    return dp_pipe_each_end(pipe, reads, pid, pid, take_process, group);
}

static bool is_closed(int32_t pid, struct group *group)
{
    struct group again = {.n = 0};
    return !take_process(pid, group) && !take_process(pid, &again) && again.print == group->print;
}

void dp_summary_lone_thread(struct dp_summary_sentences *s, pid_t pid)
{
    struct dp_task_call call;
    struct group group = {.n = 0};
    char name[DP_TASK_NAME_BYTES] = "";
    int32_t tid = read_lone(pid, &call), holder = tid ? find_ended_holder(pid, &call) : 0;
    bool is_at_pipe = tid && !holder && is_closed(pid, &group);
    struct dp_summary_sentence *to = holder || is_at_pipe ? dp_summary_sentences_add(s, "stuck", 10) : NULL;
    if (!to)
        return;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    size_t n_name = dp_io_read_text(path, name, sizeof name);
    if (n_name && name[n_name - 1] == '\n')
        name[n_name - 1] = '\0';
    int n = snprintf(to->text, sizeof to->text, "Deadlock of the only thread of process %d (%s): it ", (int)pid, name);
    if (holder)
        snprintf(to->text + n, sizeof to->text - (size_t)n,
                 "waits for mutex 0x%llx, which is held by thread %d, which does not exist here any more.",
                 (unsigned long long)call.arguments[0], (int)holder);
    else if (group.n == 1)
        snprintf(to->text + n, sizeof to->text - (size_t)n,
                 "is in %s() of a pipe of which no other process has an end.", dp_task_call_name(call.number));
    else
        snprintf(to->text + n, sizeof to->text - (size_t)n,
                 "is in %s() of a pipe, and at the other end process %d waits for a pipe of this one.",
                 dp_task_call_name(call.number), (int)group.pids[1]);
}
