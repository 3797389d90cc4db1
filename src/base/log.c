/* SPDX-License-Identifier: MIT */
/*
 * base/log.c - writes each log line by one write(2).
 *
 * No descriptor is kept open: if the host closed it and opened a file under the same number, the next line would be
 * written into that file. A log file is opened for each line, without waiting for a FIFO's reader. fd 2 is written only
 * while fstat says that it is the file that it was at init, and not while its reader is stuck. A thread with its own
 * descriptor table (the agent) borrows the host's fd 2 for the line through a pidfd. Where that is refused, as in
 * containers, it opens the pipe or terminal by its name in /proc, or passes the line on (relay.h). A file on disk is
 * not opened by name: that descriptor would have a separate offset, and the host would overwrite the line.
 *
 * Many programs close stderr just before they end (gnulib's close_stdout): if it was a terminal, the terminal is opened
 * by name for the last lines.
 */
#include "base/log.h"
#include "base/mem.h"

#include "base/hash.h"
#include "base/lock.h"
#include "base/process.h"
#include "base/quiet.h"
#include "base/relay.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PIDFD_OPEN = 434, PIDFD_GETFD = 438 }; /* system calls that older headers do not name */
enum where { TO_STDERR, TO_NONE, TO_FILE };

/* A thread may log while another one starts the profiler again. Mixed fields cost a line at most. */
static struct {
    _Atomic enum where where;
    _Atomic bool info, has_stderr;
    _Atomic dev_t dev, rdev;
    _Atomic ino_t ino;
    bool seccomp, at_end;
    char terminal[64];
    void (*fn)(void *ctx, const char *line);
    void *ctx;
} the_log;
static DP_LARGE char log_path[1024];
static struct dp_lock fn_lock; /* protects the pair fn and ctx */
static _Atomic int n_bypass;   /* relaxed: number of handlers that have bypass on */
static __thread bool own_table;

static bool same_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_dev == dp_load_relaxed(&the_log.dev) &&
           st.st_ino == dp_load_relaxed(&the_log.ino) && st.st_rdev == dp_load_relaxed(&the_log.rdev);
}

/* open_terminal compares the file that has this name. So a name may be made from the numbers of the device, where the
 * kernel has given those a meaning (admin-guide/devices.txt): the first look of a process into /proc is dear. */
static void name_terminal(dev_t device)
{
    enum { MEMORY = 1, PTY_FIRST = 136, PTY_LAST = 143 };
    ssize_t n = 0;
    if (major(device) >= PTY_FIRST && major(device) <= PTY_LAST)
        n = (ssize_t)dp_text_format(the_log.terminal, sizeof the_log.terminal, "/dev/pts/%u",
                                    (major(device) - PTY_FIRST) * 256 + minor(device));
    else if (major(device) != MEMORY) /* /dev/null is no terminal */
        n = readlink("/proc/self/fd/2", the_log.terminal, sizeof the_log.terminal);
    the_log.terminal[n < 0 || n == sizeof the_log.terminal ? 0 : n] = 0;
}

void dp_log_init(const char *where)
{
    int saved = errno;
    struct stat st = {0};
    bool is_path = strchr(where, '/');
    if (is_path && strncmp(log_path, where, sizeof log_path - 1))
        dp_text_format(log_path, sizeof log_path, "%s", where);
    dp_store_relaxed(&the_log.info, strcmp(where, "info") == 0);
    dp_store_relaxed(&the_log.where, strcmp(where, "none") == 0 ? TO_NONE : is_path ? TO_FILE : TO_STDERR);
    if (own_table) { /* this thread does not see the host's fd 2, which was looked at before */
        errno = saved;
        return;
    }
    bool has_stderr = fstat(STDERR_FILENO, &st) == 0, is_other = !same_file(STDERR_FILENO);
    dp_store_relaxed(&the_log.has_stderr, has_stderr);
    dp_store_relaxed(&the_log.dev, st.st_dev);
    dp_store_relaxed(&the_log.ino, st.st_ino);
    dp_store_relaxed(&the_log.rdev, st.st_rdev);
    if (has_stderr && is_other && S_ISCHR(st.st_mode))
        name_terminal(st.st_rdev);
    errno = saved;
}

void dp_log_to(void (*fn)(void *ctx, const char *line), void *ctx)
{
    bool held = dp_lock_lock_until(&fn_lock, INT64_MAX);
    the_log.fn = fn;
    the_log.ctx = ctx;
    if (held)
        dp_lock_unlock(&fn_lock);
}

void dp_log_bypass(bool on)
{
    dp_add_relaxed(&n_bypass, on ? 1 : -1);
}

bool dp_log_wants_info(void)
{
    return dp_load_relaxed(&the_log.info);
}

/* Opens the terminal that fd 2 was, if the process is ending and fd 2 is closed; else -1. */
static int open_terminal(void)
{
    if (!the_log.at_end || the_log.seccomp || !the_log.terminal[0] || fcntl(STDERR_FILENO, F_GETFD) >= 0)
        return -1;
    int fd = open(the_log.terminal, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || same_file(fd))
        return fd;
    close(fd);
    return -1;
}

bool dp_log_end(void)
{
    int saved = errno;
    the_log.at_end = true;
    int opened = open_terminal(), fd = opened >= 0 ? opened : STDERR_FILENO;
    bool yes = dp_load_relaxed(&the_log.where) == TO_STDERR && dp_load_relaxed(&the_log.has_stderr) && same_file(fd) &&
               isatty(fd);
    if (opened >= 0)
        close(opened);
    errno = saved;
    return yes;
}

void dp_log_before_seccomp(void)
{
    the_log.seccomp = true;
}

DP_IN_CHILD void dp_log_fork_child(void)
{
    dp_lock_reset(&fn_lock);
    dp_store_relaxed(&n_bypass, 0);
    dp_relay_fork_child();
}

/* /proc/self is the main thread, which uses the host's descriptor table. */
static const char stderr_name[] = "/proc/self/fd/2";

/* Whether fd 2 may be opened by its name: a file on disk may not. */
static bool is_stderr_named(void)
{
    struct stat st;
    return stat(stderr_name, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

/*
 * Opens the host's fd 2, for a thread with its own table; -1: not permitted. Two descriptors are needed meanwhile. So
 * that they are there however low RLIMIT_NOFILE is, those of /dev/null are closed, which stand first in such a table
 * (dp_process_own_descriptors); fill_first opens them again.
 */
static int borrow_stderr(void)
{
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    int process = dp_process_began_filtered() ? -1 : (int)syscall(PIDFD_OPEN, getpid(), 0), fd = -1;
    if (process >= 0) {
        fd = (int)syscall(PIDFD_GETFD, process, STDERR_FILENO, 0);
        close(process);
    }
    if (fd < 0 && is_stderr_named())
        fd = open(stderr_name, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd;
}

/*
 * Whether borrow_stderr will succeed. Nothing is opened: the host's next descriptor would have another number
 * meanwhile. So both system calls get arguments that they refuse; a filter refuses them with another errno.
 */
static bool can_borrow(void)
{
    bool can = !dp_process_began_filtered() && syscall(PIDFD_OPEN, -1, 0) < 0 && errno == EINVAL;
    can = can && syscall(PIDFD_GETFD, -1, STDERR_FILENO, 0) < 0 && errno == EBADF;
    return can || (is_stderr_named() && !faccessat(AT_FDCWD, stderr_name, W_OK, AT_EACCESS));
}

static bool has_callback(void)
{
    dp_lock_lock(&fn_lock);
    bool has = the_log.fn;
    dp_lock_unlock(&fn_lock);
    return has;
}

int dp_log_own_table(void)
{
    if (has_callback() ||
        (dp_load_relaxed(&the_log.where) == TO_STDERR && dp_load_relaxed(&the_log.has_stderr) && !can_borrow()))
        return -EPERM;
    int err = dp_process_has_queue() ? -EBUSY : dp_process_own_descriptors();
    own_table = !err;
    return err;
}

static void fill_first(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDOUT_FILENO);
    if (fd >= 0)
        close(fd);
}

static void write_stderr(const char *line, size_t n_bytes)
{
    if (!dp_load_relaxed(&the_log.has_stderr))
        return;
    int opened = own_table ? borrow_stderr() : open_terminal(), fd = opened < 0 && !own_table ? STDERR_FILENO : opened;
    struct pollfd ready = {fd, POLLOUT, 0};
    if (fd >= 0 && same_file(fd) && poll(&ready, 1, 100) == 1 && (ready.revents & POLLOUT))
        (void)!write(fd, line, n_bytes);
    if (opened >= 0)
        close(opened);
    if (own_table)
        fill_first();
}

static void write_file(const char *line, size_t n_bytes)
{
    int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, line, n_bytes);
    close(fd);
}

void dp_log_line(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = '?'; /* a file name with a newline is still one line */
    bool held = dp_load_relaxed(&n_bypass) <= 0 && dp_lock_lock_until(&fn_lock, INT64_MAX);
    void (*fn)(void *, const char *) = held ? the_log.fn : NULL;
    void *ctx = the_log.ctx;
    if (held)
        dp_lock_unlock(&fn_lock);
    if (fn) {
        fn(ctx, text);
        return;
    }
    text[n++] = '\n';
    if (the_log.seccomp) {
        (void)!(dp_load_relaxed(&the_log.where) == TO_STDERR && write(STDERR_FILENO, text, n));
        return;
    }
    sigset_t before;
    dp_quiet_begin(&before);
    if (dp_load_relaxed(&the_log.where) == TO_FILE)
        write_file(text, n);
    else if (dp_load_relaxed(&the_log.where) == TO_STDERR)
        write_stderr(text, n);
    dp_quiet_end(&before);
}

/* A thread that uses the relay has its own table, where a log file may be opened. */
static void write_line(char *text, size_t n)
{
    if (dp_relay_is_used() && (dp_load_relaxed(&the_log.where) != TO_FILE || has_callback()))
        dp_relay_line(text, n);
    else
        dp_log_line(text, n);
}

static size_t format_line(char line[DP_LOG_LINE_BYTES], int error_m, const char *format, va_list args)
{
    size_t n = dp_text_format(line, DP_LOG_LINE_BYTES, "deltaprof[%d]: ", (int)getpid());
    return n + dp_text_vformat(line + n, DP_LOG_LINE_BYTES - 1 - n, error_m, format, args);
}

static void vsay(int error_m, const char *format, va_list args)
{
    int saved = errno;
    char line[DP_LOG_LINE_BYTES];
    write_line(line, format_line(line, error_m, format, args));
    errno = saved;
}

void dp_log(enum dp_log_level level, const char *format, ...)
{
    if (level == DP_LOG_INFO && !dp_load_relaxed(&the_log.info))
        return;
    va_list args;
    va_start(args, format);
    vsay(errno, format, args);
    va_end(args);
}

bool dp_log_once(struct dp_log_cause *cause, int state, const char *format, ...)
{
    if (dp_swap_acq_rel(&cause->last, state) == state)
        return false;
    va_list args;
    va_start(args, format);
    vsay(state, format, args);
    va_end(args);
    return true;
}

void dp_log_bounded(struct dp_log_bound *bound, const char *format, ...)
{
    int saved = errno;
    char line[DP_LOG_LINE_BYTES];
    va_list args;
    va_start(args, format);
    size_t n = format_line(line, saved, format, args);
    va_end(args);
    uint64_t hash = dp_hash_bytes(line, n, 1);
    if (dp_load_relaxed(&bound->n) < DP_LOG_BOUND && dp_load_relaxed(&bound->last) != hash) {
        dp_store_relaxed(&bound->last, hash);
        if (dp_add_relaxed(&bound->n, 1) + 1 == DP_LOG_BOUND)
            n += dp_text_format(line + n, sizeof line - 1 - n, "; more lines of this kind are not logged");
        write_line(line, n);
    }
    errno = saved;
}
