/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/proc.c - reads from /proc: this process's threads, their names and signal masks, and its queued signals.
 */
#include "host/cpu/proc.h"

#include "base/atomic.h"
#include "base/io.h"
#include "base/task.h"
#include "base/text.h"
#include "host/cpu/timers.h"
#include "host/table/labels.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { COMM_BYTES = 16, STATUS_BYTES = 4096 };

/* Reads /proc/self/FILE or, if tid is not 0, /proc/self/task/TID/FILE. Returns the length of the text, 0 if none. */
static size_t read_proc(int32_t tid, const char *file, char *out, size_t room)
{
    char path[64];
    if (tid)
        dp_text_format(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
    else
        dp_text_format(path, sizeof path, "/proc/self/%s", file);
    return dp_io_read_text(path, out, room);
}

uint64_t dp_cpu_proc_limit(void)
{
    struct rlimit limit;
    return syscall(SYS_prlimit64, 0, RLIMIT_SIGPENDING, NULL, &limit) ? UINT64_MAX : limit.rlim_cur;
}

int32_t dp_cpu_proc_timers_max(int32_t n_timers)
{
    char status[STATUS_BYTES];
    const char *line = read_proc(0, "status", status, sizeof status) ? strstr(status, "\nSigQ:\t") : NULL;
    const char *slash = line ? strchr(line, '/') : NULL, *at = line ? line + 7 : "", *after = slash ? slash + 1 : "";
    uint64_t used = dp_task_number(&at, 10), most = dp_task_number(&after, 10);
    if (!slash && dp_cpu_proc_limit() != UINT64_MAX)
        most = dp_cpu_proc_limit();
    used = used > (uint64_t)n_timers ? used - (uint64_t)n_timers : 0;
    uint64_t room = most > used ? (most - used) / 4 : 0;
    return room < DP_CPU_THREADS ? (int32_t)room : DP_CPU_THREADS;
}

/* Whether a set of signals in the status of a thread has this one. name: "\nSigBlk:\t", or another of that length. */
static bool has_signal(const char *status, const char *name, int sig)
{
    const char *line = strstr(status, name), *at = line ? line + 9 : "";
    return (uint64_t)dp_task_number(&at, 16) >> (sig - 1) & 1;
}

bool dp_cpu_proc_is_masked(int32_t tid, int sig)
{
    char status[STATUS_BYTES];
    return read_proc(tid, "status", status, sizeof status) && has_signal(status, "\nSigBlk:\t", sig) &&
           has_signal(status, "\nSigPnd:\t", sig);
}

struct scan {
    int (*fn)(int32_t tid, void *ctx);
    void *ctx;
    int sum;
};

static int add_thread(int32_t tid, void *context)
{
    struct scan *scan = context;
    scan->sum += scan->fn(tid, scan->ctx);
    return 0;
}

int dp_cpu_proc_threads(int (*fn)(int32_t tid, void *ctx), void *ctx)
{
    struct scan scan = {fn, ctx, 0};
    int err = dp_task_list("/proc/self/task", add_thread, &scan);
    return err ? err : scan.sum;
}

uint32_t dp_cpu_proc_labels(int32_t tid)
{
    char name[COMM_BYTES + 2];
    if (!(dp_load_relaxed(&dp_labels_added) & DP_LABELS_THREAD))
        return 0;
    size_t n = read_proc(tid, "comm", name, sizeof name);
    if (n && name[n - 1] == '\n')
        name[n - 1] = '\0';
    return *name ? dp_label_set_find(0, "thread", name) << DP_LABELS_LOCK_BITS : 0;
}
