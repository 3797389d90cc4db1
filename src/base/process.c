/* SPDX-License-Identifier: MIT */
/*
 * base/process.c - finds the program's name in the auxiliary vector, without a system call. AT_EXECFN is the path given
 * to execve: so redis-server is called redis-server, although /proc/self/exe names redis-check-rdb, the target of its
 * link.
 */
#include "base/process.h"

#include "base/atomic.h"
#include "base/glob.h"
#include "base/io.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLOSE_RANGE = 436 }; /* a system call that older headers do not name */
enum { UNSHARE_FILES = 0x400, FDS_MAX = 1 << 20 };
enum { FDS_COPIED = 64 }; /* close_range copies a table in pieces of so many */
/* relaxed: written before other threads start, or in a forked child, which has one thread */
static _Atomic pid_t noted;

DP_IN_CHILD void dp_process_note(void)
{
    dp_store_relaxed(&noted, getpid());
}

DP_IN_CHILD pid_t dp_process_pid(void)
{
    return dp_load_relaxed(&noted);
}

static _Atomic bool seccomp; /* relaxed: the thread that sets it then ends the threads of the profiler */

bool dp_process_note_seccomp(void)
{
    return !dp_swap_acq_rel(&seccomp, true);
}

bool dp_process_has_seccomp(void)
{
    return dp_load_relaxed(&seccomp);
}

/* Strict mode has no answer: the question ends the thread, as any other call would. */
static bool has_filter(void)
{
    int saved = errno;
    bool has = syscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
    errno = saved;
    return has;
}

static _Atomic bool unfiltered; /* relaxed: written at start */

void dp_process_note_unfiltered(void)
{
    dp_store_relaxed(&unfiltered, !has_filter());
}

bool dp_process_began_filtered(void)
{
    return !dp_load_relaxed(&unfiltered);
}

bool dp_process_is_filtered(void)
{
    return dp_load_relaxed(&unfiltered) && has_filter();
}

bool dp_process_is_noted(void)
{
    return getpid() == dp_load_relaxed(&noted);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The file that was really executed (a link's target, a script's interpreter); "" if it cannot be read. */
static const char *behind(char *path, size_t room)
{
    int saved = errno;
    ssize_t n = readlink("/proc/self/exe", path, room - 1);
    errno = saved;
    path[n > 0 ? n : 0] = '\0';
    return base_name(path);
}

/* The path given to execve. NULL: executed by descriptor, without a name. */
static const char *executed_path(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    if (!path || strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0 || !*base_name(path))
        return NULL;
    return path;
}

static const char *executed(void)
{
    const char *path = executed_path();
    return path ? base_name(path) : NULL;
}

/*
 * Whether the file that was really executed is known to have that name too: the path is no link, and it is no script,
 * for which the kernel makes the interpreter's path argument 0. The first look of a process into /proc is dear.
 */
static bool is_executed_itself(void)
{
    char unused;
    int saved = errno;
    const char *path = executed_path(), *argument = program_invocation_name;
    bool is = path && argument && strcmp(base_name(argument), base_name(path)) == 0 &&
              readlink(path, &unused, sizeof unused) < 0 && errno == EINVAL;
    errno = saved;
    return is;
}

void dp_process_fit_name(char *out, size_t room, const char *name)
{
    size_t n = 0;
    for (; name[n] && n + 1 < room; n++) {
        char c = name[n];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("+-._@", c);
        out[n] = fits && (n || c != '.') ? c : '_';
    }
    out[n] = '\0';
}

void dp_process_program(char program[DP_PROGRAM_TEXT])
{
    char path[1024];
    const char *name = executed();
    if (!name)
        name = behind(path, sizeof path);
    dp_process_fit_name(program, DP_PROGRAM_TEXT, *name ? name : "unknown");
}

bool dp_process_matches(const char *globs)
{
    char path[1024];
    const char *name = executed();
    if (strcmp(globs, "*") == 0 || (name && dp_glob_matches(globs, name)))
        return true;
    return !is_executed_itself() && dp_glob_matches(globs, behind(path, sizeof path));
}

/*
 * The link count of /proc/self/task is 2 plus the number of threads. Without /proc, unshare tells whether there is one
 * thread: only then it accepts CLONE_THREAD, where the flag changes nothing (unshare(2)).
 */
int dp_process_threads(void)
{
    struct stat task;
    int saved = errno, n = 0;
    if (stat("/proc/self/task", &task) == 0 && task.st_nlink > 2)
        n = (int)task.st_nlink - 2;
    else if (syscall(SYS_unshare, 0x10000 /* CLONE_THREAD */) == 0)
        n = 1;
    else if (errno == EINVAL)
        n = 2;
    errno = saved;
    return n;
}

int dp_process_open(const char *file)
{
    static const char *const dirs[] = {"thread-self", "self"}; /* the first from Linux 3.17 on */
    int fd = -1;
    for (int i = 0; i < 2 && fd < 0; i++) {
        char path[64];
        dp_text_format(path, sizeof path, "/proc/%s/%s", dirs[i], file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

uint64_t dp_process_pid_namespace(void)
{
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) ? 0 : st.st_ino;
}

pid_t dp_process_inner_pid(pid_t pid)
{
    char path[64];
    char text[4096];
    dp_text_format(path, sizeof path, "/proc/%d/status", (int)pid);
    dp_io_read_text(path, text, sizeof text);
    const char *at = strstr(text, "\nNSpid:"), *end = at ? strchr(at + 1, '\n') : NULL;
    pid_t inner = 0; /* the last one of the line */
    for (at = end ? at : ""; at < end; at++)
        inner = *at == '\t' ? 0 : *at >= '0' && *at <= '9' ? inner * 10 + (*at - '0') : inner;
    return inner ? inner : pid;
}

uint64_t dp_process_stat(pid_t pid, pid_t thread, int field, char *state)
{
    char path[64], text[1024];
    dp_text_format(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    dp_io_read_text(path, text, sizeof text);
    const char *at = strrchr(text, ')'); /* field 2 is the name, which may have any bytes */
    if (at && at[1] && state)
        *state = at[2];
    for (int i = 2; at && i < field; i++)
        at = strchr(at + 1, ' ');
    uint64_t n = 0;
    for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

uint64_t dp_process_began(pid_t pid, pid_t thread, char *state)
{
    return dp_process_stat(pid, thread, 22, state);
}

/* By a call that changes nothing and asks no file system. */
static bool is_queue(int fd)
{
    return syscall(SYS_mq_getsetattr, fd, NULL, NULL) == 0;
}

bool dp_process_has_queue(void)
{
    int saved = errno;
    bool has = false;
    for (int fd = 0; !has && fd < FDS_COPIED; fd++)
        has = is_queue(fd);
    errno = saved;
    return has;
}

/* Before Linux 5.9, and where a filter refuses close_range. Returns the number of descriptors; or -errno. */
static int unshare_all(void)
{
    struct rlimit limit;
    if (syscall(SYS_unshare, UNSHARE_FILES) || getrlimit(RLIMIT_NOFILE, &limit))
        return -errno;
    return limit.rlim_cur < FDS_MAX ? (int)limit.rlim_cur : FDS_MAX;
}

int dp_process_own_descriptors(void)
{
    int n = syscall(CLOSE_RANGE, FDS_COPIED, ~0u, 2u /* CLOSE_RANGE_UNSHARE */) ? unshare_all() : FDS_COPIED;
    if (n < 0)
        return n;
    for (int fd = 0; fd < n; fd++)
        if (!is_queue(fd))
            syscall(SYS_close, fd);
    for (long fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR); fd >= 0 && fd < STDERR_FILENO;)
        fd = syscall(SYS_dup, fd);
    return 0;
}
