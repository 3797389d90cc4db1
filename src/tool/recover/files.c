/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/files.c - writes the files of a process from its tables: while it lives, for `deltaprof serve -o`, and
 * after its end.
 *
 * All kinds are complete under temporary names before the first file gets its name. Just before that, the tables are
 * told how far the file goes, and that they are valid if a file of that number exists (keep); just after it, that they
 * are (kept). So a process that is killed at any moment while it does this, and then does it again, neither writes an
 * event twice nor loses one.
 *
 * A temporary name has the pid of its writer, as those of the processes themselves have: what a writer that was killed
 * has left is told by that.
 */
#include "base/hash.h"
#include "base/io.h"
#include "profile/file_name.h"
#include "tool/recover/file.h"
#include "tool/recover/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SEQ_TRIES = 64, LEFT_S = 60 };

/* A directory of profiles, and the next number in it for a process. */
struct place {
    int dir;
    uint32_t seq;
    struct dp_stamp stamp;
    bool is_noted; /* how far the file goes, in the tables; else the tmpfs is full, or cannot be written */
};

/* The highest number in the directory. */
static uint32_t find_highest(const struct place *p, const struct dp_recover_table *t)
{
    uint32_t highest = 0;
    int fd = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct dp_profile_name name;
        if (dp_profile_name_parse(entry->d_name, &name) && name.pid == (uint64_t)t->pid &&
            name.n_program == strlen(t->program) && !memcmp(entry->d_name, t->program, name.n_program) &&
            name.seq > highest && name.seq < UINT32_MAX)
            highest = (uint32_t)name.seq;
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return highest;
}

/* Of a process that writes none: the same for all files. */
static struct dp_stamp make_stamp(const struct dp_recover_table *t)
{
    struct dp_stamp stamp = dp_stamp_make(t->pid);
    const char *slash = strrchr(t->name, '/'), *name = slash ? slash + 1 : t->name;
    stamp.process = dp_hash_bytes(name, strlen(name), 1) | 1;
    return stamp;
}

/* seq: a number below the next one; 0: not known. */
static int open_place(struct place *p, const struct dp_recover_table *t, uint32_t seq)
{
    mkdir(t->out, 0700); /* as the process would have done at its first file */
    p->dir = open(t->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0)
        return -errno;
    p->stamp = t->stamp.process ? t->stamp : make_stamp(t);
    p->seq = 1 + (seq ? seq : find_highest(p, t));
    return 0;
}

/* Writes a profile under a temporary name. */
static int write_temporary(const struct place *p, const struct dp_recover_table *t, unsigned kind,
                           const struct dp_recover_bytes *profile, char name[DP_PROFILE_NAME_MAX])
{
    dp_profile_name_format_temporary(name, t->program, getpid(), kind, (uint64_t)time(NULL) << 22 | (uint64_t)t->pid);
    return dp_recover_write_file(p->dir, name, &p->stamp, profile);
}

/* A kind that has something new. */
struct news {
    struct dp_recover_bytes profile;
    char temporary[DP_PROFILE_NAME_MAX]; /* "": it has no file */
};

static int make_temporary(struct dp_recover *r, const struct place *p, const struct dp_recover_table *t, unsigned kind,
                          unsigned flags, struct news *news)
{
    int err = dp_recover_write(r, kind, flags | DELTAPROF_OUTSIDE_SKIP_EMPTY, dp_recover_append, &news->profile, NULL);
    if (err)
        return err == 1 ? 0 : err;
    err = write_temporary(p, t, kind, &news->profile, news->temporary);
    if (err)
        news->temporary[0] = '\0';
    return err;
}

/* The file gets its name, unless that is in use: then the tables are told nothing. */
static int publish(struct dp_recover *r, struct place *p, const struct dp_recover_table *t, unsigned kind,
                   const struct news *news)
{
    char name[DP_PROFILE_NAME_MAX];
    dp_profile_name_format(name, t->program, t->pid, p->seq, kind);
    struct stat st;
    if (!fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return -EEXIST;
    int err = dp_recover_keep(r, kind, p->seq);
    p->is_noted = !err;
    if (!err && !(err = dp_io_rename_new(p->dir, news->temporary, name))) {
        err = dp_recover_kept(r, kind);
        p->is_noted = !err;
    }
    return err;
}

/* A process of another pid namespace may take a temporary file for one that its writer has left, and delete it. */
static int name_file(struct dp_recover *r, struct place *p, const struct dp_recover_table *t, unsigned kind,
                     struct news *news)
{
    int err = 0;
    for (int i = 0; i < SEQ_TRIES; i++) {
        err = publish(r, p, t, kind, news);
        if (err == -EEXIST) {
            uint32_t highest = find_highest(p, t);
            p->seq = (highest > p->seq ? highest : p->seq) + 1;
        } else if (err != -ENOENT || (err = write_temporary(p, t, kind, &news->profile, news->temporary)))
            break;
    }
    if (err)
        unlinkat(p->dir, news->temporary, 0);
    return err;
}

int dp_recover_files_write(struct dp_recover *r, const struct dp_recover_table *t, unsigned flags, const char **what)
{
    struct news all[DP_KIND_TABLES] = {0};
    struct place place = {.dir = -1, .is_noted = true}, *p = &place;
    bool lives = t->state == DP_RECOVER_LIVES;
    int n_files = 0, err = *t->out ? open_place(p, t, dp_recover_highest(r)) : -ENOENT;
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++)
        if (!lives || !dp_kind_table[kind].is_settled_late)
            err = make_temporary(r, p, t, kind, flags, &all[kind]);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        struct news *news = &all[kind];
        if (news->temporary[0] && err)
            unlinkat(p->dir, news->temporary, 0);
        else if (news->temporary[0] && !(err = name_file(r, p, t, kind, news)))
            n_files++;
        dp_vec_fini(&news->profile.at);
    }
    if (p->dir >= 0)
        close(p->dir);
    *what = p->is_noted ? "write" : "note in the tables that it wrote";
    return err ? err : n_files;
}

/*
 * Whether a temporary file's writer, whose pid its name has, has ended. An empty file has no stamp yet; its pid counts
 * as one of this pid namespace. Where the pid may mean another process, the file is left after LEFT_S.
 */
static bool is_left(int dir, const char *name, uint64_t pid)
{
    struct stat st;
    struct dp_stamp stamp;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return false;
    if (time(NULL) - st.st_mtim.tv_sec > LEFT_S)
        return true;
    bool is_known = !st.st_size || (!dp_stamp_read(dir, name, &stamp) && stamp.pid_scope &&
                                    stamp.pid_scope == dp_stamp_make(getpid()).pid_scope);
    return is_known && pid <= INT32_MAX && kill((pid_t)pid, 0) && errno == ESRCH;
}

void dp_recover_files_clean(const char *out)
{
    DIR *dir = opendir(out);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        uint64_t pid = dp_profile_name_temporary_pid(entry->d_name);
        if (pid && is_left(dirfd(dir), entry->d_name, pid))
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}
