/* SPDX-License-Identifier: MIT */
/*
 * base/task.c - reads /proc/PID/task/TID. Reading those of its own process needs no right. The kernel may have been
 * built without the file `syscall`, and a sandbox may have no /proc.
 */
#include "base/task.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/text.h"
#include "base/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 96, STATUS_BYTES = 4096 };

uintptr_t dp_task_number(const char **at, unsigned base)
{
    static const char digits[] = "0123456789abcdef";
    uintptr_t n = 0;
    for (const char *digit; **at && (digit = strchr(digits, **at)) && (size_t)(digit - digits) < base; ++*at)
        n = n * base + (uintptr_t)(digit - digits);
    return n;
}

struct listing {
    dp_task_fn fn;
    void *ctx;
};

static int pass_number(const char *name, void *context)
{
    const struct listing *listing = context;
    const char *end = name;
    int32_t n = (int32_t)dp_task_number(&end, 10);
    return end != name && !*end ? listing->fn(n, listing->ctx) : 0;
}

int dp_task_list(const char *directory, dp_task_fn fn, void *ctx)
{
    struct listing listing = {fn, ctx};
    int saved = errno, fd = dp_io_move_high(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int status = fd < 0 ? -errno : dp_io_each_name(fd, pass_number, &listing);
    if (fd >= 0)
        close(fd);
    errno = saved;
    return status;
}

int32_t dp_task_process;

bool dp_task_is_gone(int32_t tid)
{
    int saved = errno;
    bool gone = syscall(SYS_tgkill, dp_task_process ? dp_task_process : getpid(), tid, 0) && errno == ESRCH;
    errno = saved;
    return gone;
}

/* Reads /proc/PID/task/TID/FILE. pid 0: this process; in a reader of tables: the process that they are of. */
static size_t read_file(int32_t pid, int32_t tid, const char *file, char *text, size_t room)
{
    char path[PATH_BYTES];
    pid = pid ? pid : dp_task_process;
    if (pid)
        dp_text_format(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, file);
    else
        dp_text_format(path, sizeof path, "/proc/self/task/%d/%s", (int)tid, file);
    return dp_io_read_text(path, text, room);
}

/* Reads the file's first line. Returns its length; 0: it cannot be read. */
static size_t read_line(int32_t pid, int32_t tid, const char *file, char *line, size_t room)
{
    read_file(pid, tid, file, line, room);
    line[strcspn(line, "\n")] = '\0';
    return strlen(line);
}

void dp_task_name(int32_t tid, char name[DP_TASK_NAME_BYTES])
{
    read_line(0, tid, "comm", name, DP_TASK_NAME_BYTES);
}

/* The line is "running"; or "-1 SP PC", blocked outside a call; or "NUMBER 0xARG ...", six arguments, SP and PC. */
void dp_task_call_read(int32_t pid, int32_t tid, struct dp_task_call *call)
{
    char line[256];
    const char *at = line;
    *call = (struct dp_task_call){.number = DP_TASK_UNKNOWN};
    if (!read_line(pid, tid, "syscall", line, sizeof line))
        return;
    call->number = DP_TASK_RUNS;
    if (*at < '0' || *at > '9')
        return;
    call->number = (long)dp_task_number(&at, 10);
    for (size_t i = 0; i < 7 && strncmp(at, " 0x", 3) == 0; i++) {
        at += 3;
        *(i < 6 ? &call->arguments[i] : &call->stack) = dp_task_number(&at, 16);
    }
}

long dp_task_call(int32_t tid, uintptr_t *first)
{
    struct dp_task_call call;
    dp_task_call_read(0, tid, &call);
    *first = call.arguments[0];
    return call.number;
}

uint64_t dp_task_switches(int32_t pid, int32_t tid)
{
    static const char *const lines[] = {"\nvoluntary_ctxt_switches:\t", "\nnonvoluntary_ctxt_switches:\t"};
    char status[STATUS_BYTES];
    uint64_t sum = 0;
    read_file(pid, tid, "status", status, sizeof status);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *at = strstr(status, lines[i]);
        if (at && (at += strlen(lines[i])))
            sum += dp_task_number(&at, 10);
    }
    return sum;
}

bool dp_task_has_alone(int32_t pid, uintptr_t address)
{
    char path[PATH_BYTES];
    DP_VEC(char) text = {0};
    bool is_alone = false;
    dp_text_format(path, sizeof path, "/proc/%d/maps", (int)pid);
    int saved = errno, fd = dp_io_move_high(open(path, O_RDONLY | O_CLOEXEC));
    int err = fd < 0 ? -errno : dp_io_read_rest(fd, &text.at, &text.n, &text.cap);
    for (size_t at = 0, n; !err && at < text.n; at += n + 1) {
        const char *end = memchr(text.at + at, '\n', text.n - at);
        struct dp_vma vma;
        n = end ? (size_t)(end - text.at) - at : text.n - at;
        if (dp_vma_parse(text.at + at, n, &vma) && address >= vma.start && address < vma.end)
            is_alone = !vma.is_shared;
    }
    if (fd >= 0)
        close(fd);
    dp_vec_fini(&text);
    errno = saved;
    return is_alone;
}

bool dp_task_has_ended(int32_t pid, int32_t tid)
{
    char stat[256];
    read_file(pid, tid, "stat", stat, sizeof stat);
    const char *at = strrchr(stat, ')');
    return !at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X';
}

bool dp_task_has_handlers(int32_t pid)
{
    enum { FIRST_OF_LIBC = 32, N_OF_LIBC = 3 };
    static const char line[] = "\nSigCgt:\t";
    char path[64], status[STATUS_BYTES];
    dp_text_format(path, sizeof path, "/proc/%d/status", (int)pid);
    const char *at = dp_io_read_text(path, status, sizeof status) ? strstr(status, line) : NULL;
    if (!at)
        return true;
    at += strlen(line);
    return dp_task_number(&at, 16) & ~((((uintptr_t)1 << N_OF_LIBC) - 1) << (FIRST_OF_LIBC - 1));
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

/* ---- pipes ------------------------------------------------------------------------------------------------------ */

enum { LINK_BYTES = 64, IS_OF_KERNEL = 0x200000 /* PF_KTHREAD, of field 9 of /proc/PID/stat */ };

struct search {
    uint64_t pipe;
    bool for_writing, found, any, is_in_session;
    int32_t pid;
    uint64_t session;
    dp_task_fn fn;
    void *ctx;
};

static void read_link(const char *path, char link[LINK_BYTES])
{
    int saved = errno;
    ssize_t n = readlink(path, link, LINK_BYTES - 1);
    errno = saved;
    link[n > 0 ? n : 0] = '\0';
}

static uint64_t pipe_in(const char *link)
{
    static const char prefix[] = "pipe:[";
    const char *at = link + strlen(prefix);
    return strncmp(link, prefix, strlen(prefix)) == 0 ? dp_task_number(&at, 10) : 0;
}

uint64_t dp_pipe_of(int32_t pid, int32_t tid, int descriptor)
{
    char path[PATH_BYTES], link[LINK_BYTES];
    dp_text_format(path, sizeof path, "/proc/%d/task/%d/fd/%d", (int)pid, (int)tid, descriptor);
    read_link(path, link);
    return pipe_in(link);
}

/* The number in the line of fdinfo that begins with `name`; none: if there is no such line. */
static uintptr_t info_of(const struct search *s, int32_t descriptor, const char *name, unsigned base, uintptr_t none)
{
    char path[PATH_BYTES], info[256];
    dp_text_format(path, sizeof path, "/proc/%d/fdinfo/%d", (int)s->pid, (int)descriptor);
    dp_io_read_text(path, info, sizeof info);
    const char *at = strstr(info, name);
    return at && (at += strlen(name)) ? dp_task_number(&at, base) : none;
}

/* Whether a descriptor is the end that is searched for. Returns 1 for a socket with descriptors on their way;
 * sockets of other sessions, which have nothing to do with the pipe, often have some. */
static int look_at_descriptor(int32_t descriptor, void *context)
{
    struct search *s = context;
    char path[PATH_BYTES], link[LINK_BYTES];
    dp_text_format(path, sizeof path, "/proc/%d/fd/%d", (int)s->pid, (int)descriptor);
    read_link(path, link);
    if (s->is_in_session && !strncmp(link, "socket:", strlen("socket:")))
        return info_of(s, descriptor, "scm_fds: ", 10, 0) != 0;
    if (pipe_in(link) == s->pipe) {
        int access = (int)info_of(s, descriptor, "flags:\t", 8, O_RDWR) & O_ACCMODE;
        s->found = s->found || access == O_RDWR || (access == O_WRONLY) == s->for_writing;
    }
    return 0;
}

static uint64_t session_of(int32_t pid)
{
    return dp_process_stat(pid, pid, 6, NULL);
}

static int look_at_process(int32_t pid, void *context)
{
    struct search *s = context;
    char path[PATH_BYTES];
    s->pid = pid;
    s->found = false;
    s->is_in_session = session_of(pid) == s->session;
    dp_text_format(path, sizeof path, "/proc/%d/fd", (int)pid);
    int err = dp_task_list(path, look_at_descriptor, s);
    if (err > 0 || (err < 0 && err != -ENOENT && err != -ESRCH && !(dp_process_stat(pid, pid, 9, NULL) & IS_OF_KERNEL)))
        return 1;
    s->any = s->any || s->found;
    return s->found ? s->fn(pid, s->ctx) : 0;
}

int dp_pipe_each_end(uint64_t pipe, bool for_writing, int32_t of, int32_t first, dp_task_fn fn, void *ctx)
{
    struct search s = {.pipe = pipe, .for_writing = for_writing, .session = session_of(of), .fn = fn, .ctx = ctx};
    int status = first > 0 ? look_at_process(first, &s) : 0;
    status = status ? status : dp_task_list("/proc", look_at_process, &s);
    return status ? status : !s.any;
}
