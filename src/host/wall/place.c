/* SPDX-License-Identifier: MIT */
/*
 * host/wall/place.c - finds the place of a thread through /proc/self/task/TID/syscall. If the thread is off the
 * processor, this file has the number and the arguments of its system call, its stack pointer and its pc; else the word
 * "running".
 *
 * The background thread keeps the files open if it has a descriptor table of its own; in the program's table they would
 * be in the program's way. Reading an open file costs a third of opening it. It also works longer: after a process has
 * changed its user, it may not open the files any more.
 *
 * If the file cannot be read, the place is [state unknown], which is counted, and logged once with the reason.
 */
#include "host/wall/place.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "base/task.h"
#include "base/text.h"
#include "host/cpu/timers.h"
#include "host/unwind/unwind.h"
#include "host/wall/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TEXT_BYTES = 256, SPARE = 64 /* descriptors left for the thread's other work */ };

enum file { CALL, QUEUE, FILES };

static const char *const names[FILES] = {"syscall", "schedstat"};

static struct {
    uint32_t serial; /* number of the thread that the open files describe; 0: no file is open */
    int fds[FILES];  /* -1: not open */
} kept[DP_WALL_THREADS] DP_LARGE;
static uint32_t n_kept;
static struct dp_log_cause cause;

static void close_kept(dp_wall_slot slot)
{
    for (unsigned file = 0; file < FILES && kept[slot - 1].serial; file++)
        if (kept[slot - 1].fds[file] >= 0) {
            close(kept[slot - 1].fds[file]);
            n_kept--;
        }
    kept[slot - 1].serial = 0;
}

void dp_wall_place_close(bool all)
{
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS && n_kept; slot++) {
        bool is_there =
            dp_wall_thread_tid(slot) > 0 && dp_load_relaxed(&dp_wall_thread_at(slot)->serial) == kept[slot - 1].serial;
        if (kept[slot - 1].serial && (all || !is_there))
            close_kept(slot);
    }
}

void dp_wall_place_reset(void)
{
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS && n_kept; slot++)
        kept[slot - 1].serial = 0;
    n_kept = 0;
}

static bool may_keep(void)
{
    struct rlimit limit;
    uint64_t most = syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) ? 0 : limit.rlim_cur;
    return n_kept + SPARE < most;
}

/* The descriptor of a thread's file; -1 with errno. *close_it: it is not kept, the caller closes it. */
static int open_file(dp_wall_slot slot, int32_t tid, enum file file, bool keeps, bool *close_it)
{
    uint32_t serial = dp_load_relaxed(&dp_wall_thread_at(slot)->serial);
    char path[64];
    *close_it = false;
    if (keeps && kept[slot - 1].serial != serial) {
        close_kept(slot);
        kept[slot - 1].serial = serial;
        for (unsigned i = 0; i < FILES; i++)
            kept[slot - 1].fds[i] = -1;
    }
    if (keeps && kept[slot - 1].fds[file] >= 0)
        return kept[slot - 1].fds[file];
    dp_text_format(path, sizeof path, "/proc/self/task/%d/%s", tid, names[file]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *close_it = fd >= 0 && (!keeps || !may_keep());
    if (fd >= 0 && !*close_it) {
        kept[slot - 1].fds[file] = fd;
        n_kept++;
    }
    return fd;
}

int64_t dp_wall_place_queue_ns(dp_wall_slot slot, int32_t tid, bool keeps)
{
    bool close_it;
    int fd = open_file(slot, tid, QUEUE, keeps, &close_it);
    int64_t ns = fd < 0 ? -1 : dp_wall_queue_ns(fd);
    if (close_it)
        close(fd);
    return ns;
}

/* Reads the file: 1, with the system call; 0: the thread runs; or a negative errno. */
static int read_call(dp_wall_slot slot, int32_t tid, bool keeps, long *number, uint64_t fields[8])
{
    char text[TEXT_BYTES];
    bool close_it;
    int fd = open_file(slot, tid, CALL, keeps, &close_it);
    if (fd < 0)
        return -errno;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    int err = n < 0 ? -errno : 0;
    if (close_it)
        close(fd);
    if (err)
        return err;
    text[n] = '\0';
    if (!strncmp(text, "running", 7))
        return 0;
    const char *at = text;
    *number = *at == '-' ? -1 : (long)dp_task_number(&at, 10);
    /* The text is "-1", stack pointer, pc; or number, six arguments, stack pointer, pc. fields ends with the pc. */
    unsigned n_fields = *number < 0 ? 2 : 8;
    for (unsigned i = 0; i < n_fields; i++) {
        at = strchr(at, ' ');
        if (!at)
            return -EINVAL;
        at += strncmp(at + 1, "0x", 2) ? 1 : 3;
        fields[8 - n_fields + i] = dp_task_number(&at, 16);
    }
    return 1;
}

/* A thread, and its CPU clock when its place was asked for. */
struct clock {
    int32_t tid;
    int64_t clock_ns;
};

static bool has_not_run(void *ctx)
{
    const struct clock *before = ctx;
    return dp_cpu_clock_ns(before->tid) == before->clock_ns;
}

/* Memory in which frames of runtimes are put into a stack; NULL: there are none, or there is no memory. */
static void *scratch_of_walk(void)
{
    static void *scratch; /* under the lock of the looks */
    if (!scratch && dp_unwind_sibling_wants_scratch())
        scratch = dp_mem_map(dp_page_ceil(dp_unwind_scratch_bytes()));
    return scratch;
}

uint32_t dp_wall_place_of(dp_wall_slot slot, int32_t tid, int64_t clock_ns, bool keeps)
{
    static dp_frame_id frames[DP_STACK_MAX];
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    struct clock before = {tid, clock_ns};
    uint64_t fields[8];
    struct dp_stack stack;
    long number = 0;
    int err = read_call(slot, tid, keeps, &number, fields);
    if (err < 0 && has_not_run(&before)) {
        dp_stats_add(DP_STAT_WALL_UNSEEN, 1);
        dp_log_once(&cause, -err,
                    "wall_rate: where threads wait cannot be read (/proc/self/task/*/syscall: %m); that time is "
                    "[state unknown]");
        return dp_wall_record_synthetic(t->labels, DP_WALL_UNKNOWN, DP_FRAME_STATE_UNKNOWN);
    }
    if (err <= 0)
        return 0;
    enum dp_wall_state state = dp_wall_state_of_call(number, fields);
    struct dp_sibling at = {tid, fields[7], fields[6], has_not_run, &before};
    if (dp_unwind_walk_sibling(DP_KIND_WALL, &at, scratch_of_walk(), frames, &stack))
        return dp_wall_record(t->labels, state, &stack);
    return has_not_run(&before) ? dp_wall_record_synthetic(t->labels, state, DP_FRAME_NO_STACK) : 0;
}
