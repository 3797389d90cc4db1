/* SPDX-License-Identifier: MIT */
/*
 * host/agent/sweep.c - deletes old profiles of ended processes. It reads the names in the directory, and the stamps of
 * files only if there are too many.
 *
 * Two processes may sweep at the same time: each deletes the oldest, and it is no error if a file is already deleted.
 */
#include "host/agent/sweep.h"

#include "base/hash.h"
#include "base/io.h"
#include "base/mem.h"
#include "profile/file_name.h"
#include "profile/kinds.h"

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

/* As a pid; 0: it is none. */
static pid_t pid_of(uint64_t number)
{
    return number <= INT32_MAX ? (pid_t)number : 0;
}

/* The PID in the name of a profile; 0: another name. *kind: where KIND begins. */
static pid_t pid_of_profile(const char *name, const char **kind)
{
    struct dp_profile_name parts;
    *kind = NULL;
    if (*name == '.' || !dp_profile_name_parse(name, &parts) || !parts.seq || parts.kind_id == DP_KINDS)
        return 0;
    *kind = parts.kind;
    return pid_of(parts.pid);
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

static int look_at_name(const char *name, void *context)
{
    struct sweep *s = context;
    const char *kind;
    pid_t pid = pid_of(dp_profile_name_temporary_pid(name));
    if (pid)
        look_at_temporary(s, name, pid);
    size_t n = strlen(name) + 1;
    char *to = pid_of_profile(name, &kind) ? dp_vec_room(&s->names, n) : NULL;
    if (to) {
        memcpy(to, name, n);
        s->names.n += n;
        s->n_names++;
    }
    return 0;
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

/* Times of files are as coarse as the kernel's clock ticks. Names of one process are in the order of their ticks. */
static bool is_older(const struct sweep *s, const struct file *a, const struct file *b)
{
    if (a->mtime_ns != b->mtime_ns)
        return a->mtime_ns < b->mtime_ns;
    return strcmp(s->names.at + a->name, s->names.at + b->name) < 0;
}

/* False: no ended process has a file left. */
static bool delete_oldest(struct sweep *s)
{
    const struct file *oldest = NULL;
    for (size_t i = 0; i < s->files.n; i++)
        if (s->files.at[i].ended && (!oldest || is_older(s, &s->files.at[i], oldest)))
            oldest = &s->files.at[i];
    uint64_t tick = oldest ? oldest->tick : 0;
    for (size_t i = 0; oldest && i < s->files.n; i++)
        if (s->files.at[i].ended && s->files.at[i].tick == tick) {
            unlinkat(s->dir_fd, s->names.at + s->files.at[i].name, 0);
            s->files.at[i].ended = false;
        }
    return oldest != NULL;
}

void dp_agent_sweep(int dir_fd, const struct dp_stamp *self, pid_t pid, int64_t keep)
{
    int saved = errno;
    struct sweep s = {.dir_fd = dir_fd, .self = self, .pid = pid};
    dp_io_each_name(s.dir_fd, look_at_name, &s);
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
