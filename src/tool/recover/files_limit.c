/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/files_limit.c - deletes the oldest files of a directory, so that a server that writes there for months
 * does not fill the disk. As with the key `keep`, what counts is ticks: the files of one process and number.
 *
 * Only files with a stamp of this boot and pid namespace are looked at, since only there a pid tells whether its
 * process runs. Each running process is a group of files; all that have ended are one more.
 */
#include "base/hash.h"
#include "profile/file_name.h"
#include "tool/recover/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    uint64_t group; /* 0: of those that have ended */
    uint64_t tick;
    int64_t time_ns; /* of the tick: its newest file */
    char name[DP_PROFILE_NAME_MAX];
};

struct files {
    int dir;
    uint64_t pid_scope;
    DP_VEC(struct file) at;
};

static bool runs(uint64_t pid)
{
    return pid <= INT32_MAX && (!kill((pid_t)pid, 0) || errno != ESRCH);
}

/* False: no memory. */
static bool add_file(struct files *f, const char *text)
{
    struct dp_profile_name name;
    struct dp_stamp stamp;
    struct stat st;
    if (*text == '.' || !dp_profile_name_parse(text, &name) || name.kind_id == DP_KINDS ||
        strlen(text) >= DP_PROFILE_NAME_MAX || fstatat(f->dir, text, &st, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(st.st_mode) || st.st_uid != geteuid() || dp_stamp_read(f->dir, text, &stamp) || !stamp.process ||
        stamp.pid_scope != f->pid_scope)
        return true;
    struct file *to = dp_vec_push(&f->at);
    if (!to)
        return false;
    *to = (struct file){.group = runs(name.pid) ? stamp.process : 0,
                        .tick = dp_hash_bytes(text, (size_t)(name.kind - text), stamp.process),
                        .time_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec};
    strcpy(to->name, text);
    return true;
}

static int by_tick(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return x->tick < y->tick ? -1 : x->tick > y->tick;
}

/* The newest ticks of each group first. */
static int by_age(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns > y->time_ns ? -1 : 1;
    return by_tick(a, b);
}

/* All files of a tick get the time of its newest one. */
static void set_times(struct files *f)
{
    for (size_t i = 0, next; i < f->at.n; i = next) {
        int64_t time_ns = 0;
        for (next = i; next < f->at.n && f->at.at[next].tick == f->at.at[i].tick; next++)
            time_ns = f->at.at[next].time_ns > time_ns ? f->at.at[next].time_ns : time_ns;
        for (size_t k = i; k < next; k++)
            f->at.at[k].time_ns = time_ns;
    }
}

static void delete_beyond(const struct files *f, uint64_t keep)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->at.n; i++) {
        const struct file *file = &f->at.at[i], *before = i ? file - 1 : NULL;
        if (!before || before->group != file->group)
            n = 1;
        else
            n += before->tick != file->tick;
        if (n > keep)
            unlinkat(f->dir, file->name, 0);
    }
}

void dp_recover_files_limit(const char *out, uint64_t keep)
{
    struct files f = {.pid_scope = dp_stamp_make(getpid()).pid_scope};
    DIR *dir = keep && f.pid_scope ? opendir(out) : NULL;
    if (!dir)
        return;
    f.dir = dirfd(dir);
    bool is_whole = true;
    for (struct dirent *entry; is_whole && (entry = readdir(dir));)
        is_whole = add_file(&f, entry->d_name);
    if (is_whole && f.at.n > keep) {
        qsort(f.at.at, f.at.n, sizeof *f.at.at, by_tick);
        set_times(&f);
        qsort(f.at.at, f.at.n, sizeof *f.at.at, by_age);
        delete_beyond(&f, keep);
    }
    dp_vec_fini(&f.at);
    closedir(dir);
}
