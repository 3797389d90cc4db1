/* SPDX-License-Identifier: MIT */
/*
 * host/locks/at_pipe.c - reads the thread's system call. A thread that moves data through the pipe is also blocked each
 * time it is looked at. So a row for the thread has how often it had left the processor, at which stack pointer, and
 * when that was first seen: while both stay the same it has not moved.
 */
#include "host/locks/at_pipe.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/task.h"

#include <sys/syscall.h>

enum { ROWS_SEEN = 64 };
#define LOOK_AGAIN_NS INT64_C(100000000) /* one report asks for each thread that waits behind this one */

static struct seen {
    int32_t tid;
    uint64_t switches;
    uintptr_t stack;
    int64_t since_ns, looked_ns; /* looked_ns: when the descriptors of all processes were last read */
    bool is_only_here;
} rows[ROWS_SEEN];

static int is_other(int32_t pid, void *self)
{
    return pid != *(int32_t *)self;
}

bool dp_at_pipe_find(int32_t tid, struct dp_at_pipe *at)
{
    struct dp_task_call call;
    int32_t self = dp_process_pid();
    if (dp_task_process)
        return false;
    dp_task_call_read(0, tid, &call);
    bool reads = call.number == SYS_read || call.number == SYS_readv;
    at->writes = call.number == SYS_write || call.number == SYS_writev;
    if (!reads && !at->writes)
        return false;
    at->pipe = dp_pipe_of(self, tid, (int)call.arguments[0]);
    if (!at->pipe)
        return false;
    struct seen now = {tid, dp_task_switches(0, tid), call.stack, dp_clock_ns(), 0, false},
                *row = &rows[(uint32_t)tid % ROWS_SEEN];
    if (row->tid != now.tid || row->switches != now.switches || row->stack != now.stack)
        *row = now;
    at->ns = now.since_ns - row->since_ns;
    if (!row->looked_ns || now.since_ns - row->looked_ns > LOOK_AGAIN_NS) {
        row->is_only_here = !dp_pipe_each_end(at->pipe, reads, self, self, is_other, &self);
        row->looked_ns = now.since_ns;
    }
    return row->is_only_here;
}
