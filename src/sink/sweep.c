/* SPDX-License-Identifier: MIT */
/*
 * sink/sweep.c - deletes old profiles of ended processes. It reads the names in the directory, and the stamps of files
 * only if there are too many.
 *
 * Two processes may sweep at the same time: each deletes the oldest, and it is no error if a file is already deleted.
 */
#include "sink/sweep.h"

#include "base/hash.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_TICKS = 512 };

struct file {
    uint64_t tick; /* hash of process, SEQ and program */
    int64_t mtime_ns;
    uint32_t name; /* offset in names */
    bool ended;
};

struct sweep {
    int dir_fd;
    const struct dp_stamp *self;
    pid_t pid;
    DP_VEC(char) names; /* each with its NUL */
    DP_VEC(struct file) files;
    size_t n_names;
};

/* The part of the name that begins `n_dots` dots from the right; NULL: there are fewer. */
static const char *part(const char *name, const char *end, int n_dots)
{
    while (end > name)
        if (*--end == '.' && --n_dots == 0)
            return end + 1;
    return NULL;
}

static pid_t number(const char *p, char after)
{
    int64_t n = 0;
    const char *digits = p;
    for (; *p >= '0' && *p <= '9' && n < INT32_MAX; p++)
        n = n * 10 + (*p - '0');
    return p > digits && *p == after && n <= INT32_MAX ? (pid_t)n : 0;
}

static bool is_kind(const char *p, char after)
{
    static const char *const kinds[] = {"heap", "mutex", "block", "events"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i]);
        if (!strncmp(p, kinds[i], n) && p[n] == after)
            return true;
    }
    return false;
}

/* The PID in PROGRAM.PID.SEQ.KIND.pb.gz; 0: another name. *kind: where KIND begins. */
static pid_t pid_of_profile(const char *name, const char **kind)
{
    const char *end = name + strlen(name), *seq = part(name, end, 4), *pid = part(name, end, 5);
    *kind = part(name, end, 3);
    if (*name == '.' || !pid || pid == name + 1 || !number(seq, '.') || !is_kind(*kind, '.') ||
        strcmp(strchr(*kind, '.'), ".pb.gz") != 0)
        return 0;
    return number(pid, '.');
}

/* The PID in .PROGRAM.PID.KIND.HEX.tmp; 0: another name. */
static pid_t pid_of_temporary(const char *name)
{
    const char *end = name + strlen(name), *kind = part(name, end, 3), *pid = part(name, end, 4);
    if (*name != '.' || !pid || !is_kind(kind, '.') || strcmp(end - 4, ".tmp") != 0)
        return 0;
    return number(pid, '.');
}

/* By system call: the libc function may be interposed. */
static bool has_ended(const struct sweep *s, pid_t pid, const struct dp_stamp *stamp)
{
    if (!s->self->pid_scope || stamp->pid_scope != s->self->pid_scope || stamp->process == s->self->process)
        return false;
    return pid == s->pid || (syscall(SYS_kill, pid, 0) && errno == ESRCH);
}

/* Whether this is a regular file of this user. */
static bool is_own(const struct sweep *s, const char *name, struct stat *st)
{
    return !fstatat(s->dir_fd, name, st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st->st_mode) && st->st_uid == geteuid();
}

static void look_at_temporary(const struct sweep *s, const char *name, pid_t pid)
{
    struct stat st;
    struct dp_stamp stamp;
    if (is_own(s, name, &st) && !dp_stamp_read(s->dir_fd, name, &stamp) && has_ended(s, pid, &stamp))
        unlinkat(s->dir_fd, name, 0);
}

static void look_at_name(struct sweep *s, const char *name)
{
    const char *kind;
    pid_t pid = pid_of_temporary(name);
    if (pid)
        look_at_temporary(s, name, pid);
    if (!pid_of_profile(name, &kind))
        return;
    size_t n = strlen(name) + 1;
    char *to = dp_vec_room(&s->names, n);
    if (!to)
        return;
    memcpy(to, name, n);
    s->names.n += n;
    s->n_names++;
}

static void read_names(struct sweep *s)
{
    union {
        struct dirent64 align;
        char bytes[4096];
    } buffer;
    ssize_t n_bytes;
    lseek(s->dir_fd, 0, SEEK_SET);
    while ((n_bytes = syscall(SYS_getdents64, s->dir_fd, &buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < n_bytes;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer.bytes + at);
            look_at_name(s, entry->d_name);
            at += entry->d_reclen;
        }
}

/* Inserts tick, which is not 0, into an open-addressed set of n_slots, a power of two; false: it was there. */
static bool insert(uint64_t *set, size_t n_slots, uint64_t tick)
{
    size_t at = tick & (n_slots - 1);
    while (set[at] && set[at] != tick)
        at = (at + 1) & (n_slots - 1);
    bool is_new = !set[at];
    set[at] = tick;
    return is_new;
}

/* Reads the stamps; keeps files of this place and returns the number of their ticks. */
static size_t read_files(struct sweep *s)
{
    size_t n_ticks = 0, n_slots = 64;
    while (n_slots < 2 * s->n_names)
        n_slots *= 2;
    uint64_t *seen = dp_mem_map(n_slots * sizeof *seen);
    for (size_t at = 0; seen && at < s->names.n; at += strlen(s->names.at + at) + 1) {
        const char *name = s->names.at + at, *kind;
        struct stat st;
        struct dp_stamp stamp;
        pid_t pid = pid_of_profile(name, &kind);
        struct file *file = is_own(s, name, &st) && !dp_stamp_read(s->dir_fd, name, &stamp) && stamp.process &&
                                    stamp.pid_scope == s->self->pid_scope
                                ? dp_vec_push(&s->files)
                                : NULL;
        if (!file)
            continue;
        *file = (struct file){.tick = dp_hash_bytes(name, (size_t)(kind - name), stamp.process),
                              .mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
                              .name = (uint32_t)at,
                              .ended = has_ended(s, pid, &stamp)};
        file->tick += !file->tick;
        n_ticks += insert(seen, n_slots, file->tick);
    }
    dp_mem_unmap(seen, n_slots * sizeof *seen);
    return n_ticks;
}

/* False: no ended process has a file left. */
static bool delete_oldest(struct sweep *s)
{
    const struct file *oldest = NULL;
    for (size_t i = 0; i < s->files.n; i++)
        if (s->files.at[i].ended && (!oldest || s->files.at[i].mtime_ns < oldest->mtime_ns))
            oldest = &s->files.at[i];
    uint64_t tick = oldest ? oldest->tick : 0;
    for (size_t i = 0; oldest && i < s->files.n; i++)
        if (s->files.at[i].ended && s->files.at[i].tick == tick) {
            unlinkat(s->dir_fd, s->names.at + s->files.at[i].name, 0);
            s->files.at[i].ended = false;
        }
    return oldest != NULL;
}

void dp_sweep(int dir_fd, const struct dp_stamp *self, pid_t pid, int64_t keep)
{
    int saved = errno;
    struct sweep s = {.dir_fd = dir_fd, .self = self, .pid = pid};
    read_names(&s);
    /* A little beyond `keep`, so that of many short workers only few read all stamps. */
    if (keep && s.n_names > (size_t)keep + (size_t)keep / 16) {
        size_t n_ticks = read_files(&s);
        for (size_t n = 0; n < MOST_TICKS && n_ticks > (size_t)keep && delete_oldest(&s); n++)
            n_ticks--;
    }
    dp_vec_fini(&s.names);
    dp_vec_fini(&s.files);
    errno = saved;
}
