/* SPDX-License-Identifier: MIT */
/*
 * host/agent/alone.c - asks /proc for the number of threads, and whether the main thread has left.
 *
 * No file is opened while threads of the program live: the host's next descriptor would have another number meanwhile.
 * The link count of /proc/self/task tells the number of threads; a main thread that has left counts. Without its memory
 * it has no program any more, so /proc/self/exe leads nowhere. A thread of the profiler that just begins, or ends, is
 * counted by the kernel but not here; then there seems to be one thread more, and the next look decides. So a thread of
 * the program is never overlooked. Without /proc (in a chroot) that is not known, so the profiler's threads end as soon
 * as main has left: the process must end. All accesses are relaxed: they are numbers, and publish nothing.
 */
#include "host/agent/alone.h"

#include "base/atomic.h"
#include "base/io.h"
#include "base/process.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic uint32_t n_ours;
static _Atomic bool main_left;
static _Atomic bool others_stay; /* main was not the last thread of the program */

void dp_agent_alone_thread_begins(void)
{
    dp_add_relaxed(&n_ours, 1);
}

void dp_agent_alone_thread_ends(void)
{
    dp_sub_relaxed(&n_ours, 1);
}

/* As waitpid would have it, from the last field of main's line in /proc; 0 if main lives or left by pthread_exit. */
static int status_of_main(void)
{
    char path[64], line[1024];
    dp_text_format(path, sizeof path, "/proc/self/task/%d/stat", (int)dp_process_pid());
    dp_io_read_text(path, line, sizeof line);
    const char *last = strrchr(line, ' ');
    return last ? atoi(last + 1) : 0;
}

void dp_agent_alone_keep_status(void)
{
    bool was_last = dp_load_relaxed(&main_left) && !dp_load_relaxed(&others_stay);
    int status = was_last ? status_of_main() : 0;
    if (WIFEXITED(status) && WEXITSTATUS(status))
        syscall(SYS_exit, WEXITSTATUS(status));
}

void dp_agent_alone_main_exits(void)
{
    if (dp_load_relaxed(&main_left))
        return;
    dp_store_relaxed(&others_stay, (uint32_t)dp_process_threads() > dp_load_relaxed(&n_ours) + 1);
    dp_store_relaxed(&main_left, true);
}

bool dp_agent_alone_has_main_exited(void)
{
    return dp_load_relaxed(&main_left);
}

bool dp_agent_alone_is(void)
{
    char byte;
    int n_threads = dp_process_threads();
    if (access("/proc/self/task", F_OK))
        return dp_agent_alone_has_main_exited();
    if (readlink("/proc/self/exe", &byte, 1) >= 0 || errno != ENOENT)
        return false;
    dp_agent_alone_main_exits();
    return (uint32_t)n_threads == dp_load_relaxed(&n_ours) + 1;
}

DP_IN_CHILD void dp_agent_alone_fork_child(void)
{
    dp_store_relaxed(&n_ours, 0);
    dp_store_relaxed(&main_left, false);
    dp_store_relaxed(&others_stay, false);
}
