/* SPDX-License-Identifier: MIT */
/*
 * host/locks/task.c - reads /proc/self/task/TID. A thread may read these files of every thread of its process, whatever
 * the process may do to others. A kernel may lack the file `syscall`, and a jail may lack /proc.
 */
#include "host/locks/task.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Descriptors from here on are not those that the program expects next. */
enum { HIGH_FD = 512 };

/* Reads the file's first line. Returns its length; 0: it cannot be read. */
static size_t read_line(int32_t tid, const char *file, char *line, size_t room)
{
    char path[64];
    int saved = errno;
    dp_text_format(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC), high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    ssize_t n = fd < 0 ? -1 : read(fd, line, room - 1);
    if (fd >= 0)
        close(fd);
    errno = saved;
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return strlen(line);
}

void dp_task_name(int32_t tid, char name[DP_TASK_NAME_BYTES])
{
    read_line(tid, "comm", name, DP_TASK_NAME_BYTES);
}

/* Reads digits of the base up to 16, and moves *at behind them. */
static uintptr_t number(const char **at, unsigned base)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t n = 0;
    for (const char *digit; **at && (digit = strchr(digits, **at)) && (size_t)(digit - digits) < base; ++*at)
        n = n * base + (uintptr_t)(digit - digits);
    return n;
}

/* The line is "running"; or "-1 SP PC", blocked outside a call; or "NUMBER 0xARG ...", six arguments. */
long dp_task_call(int32_t tid, uintptr_t *first)
{
    char line[256];
    const char *at = line;
    *first = 0;
    if (!read_line(tid, "syscall", line, sizeof line))
        return DP_TASK_UNKNOWN;
    if (*at < '0' || *at > '9')
        return DP_TASK_RUNS;
    long call = (long)number(&at, 10);
    if (strncmp(at, " 0x", 3) == 0) {
        at += 3;
        *first = number(&at, 16);
    }
    return call;
}

const char *dp_task_call_name(long call)
{
    static const struct {
        long call;
        const char *name;
    } names[] = {
        {SYS_read, "read"},
        {SYS_write, "write"},
        {SYS_pread64, "pread"},
        {SYS_pwrite64, "pwrite"},
        {SYS_recvfrom, "recv"},
        {SYS_recvmsg, "recvmsg"},
        {SYS_sendto, "send"},
        {SYS_sendmsg, "sendmsg"},
        {SYS_connect, "connect"},
        {SYS_accept, "accept"},
        {SYS_accept4, "accept"},
        {SYS_ppoll, "poll"},
        {SYS_pselect6, "select"},
        {SYS_epoll_pwait, "epoll_wait"},
        {SYS_futex, "futex"},
        {SYS_nanosleep, "nanosleep"},
        {SYS_clock_nanosleep, "nanosleep"},
        {SYS_wait4, "wait"},
        {SYS_waitid, "wait"},
        {SYS_fsync, "fsync"},
        {SYS_fdatasync, "fdatasync"},
        {SYS_flock, "flock"},
#if defined(__x86_64__)
        {SYS_poll, "poll"},
        {SYS_select, "select"},
        {SYS_epoll_wait, "epoll_wait"},
        {SYS_pause, "pause"},
#endif
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].call == call)
            return names[i].name;
    return NULL;
}
