/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/live.c - puts the profiles of a living process into a directory, where verbs read them as they read any:
 * copies of the files that it has written, and as the next ones what is in its tables now.
 */
#include "tool/recover/live.h"

#include "base/text.h"
#include "profile/file_name.h"
#include "tool/recover/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies a file from one directory to another. */
static int copy_file(int from_dir, int to_dir, const char *name)
{
    struct stat st;
    int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int to = from < 0 ? -1 : openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int err = to < 0 || fstat(from, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    for (off_t left = err ? 0 : st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);
        if (n <= 0) {
            err = n ? -errno : 0;
            break;
        }
        left -= n;
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return err;
}

/* Copies the files of the process since it began. Returns the highest number, 0: there is none. */
static uint32_t copy_files(const struct dp_recover_table *t, int to_dir)
{
    uint32_t highest = 0;
    int from_dir = *t->out ? open(t->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = from_dir < 0 ? NULL : fdopendir(from_dir);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct dp_profile_name name;
        struct stat st;
        if (!dp_profile_name_parse(entry->d_name, &name) || name.pid != (uint64_t)t->pid ||
            name.n_program != strlen(t->program) || memcmp(entry->d_name, t->program, name.n_program) ||
            fstatat(from_dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            (int64_t)st.st_mtim.tv_sec < t->begin_wall_ns / 1000000000) /* an earlier process had the number */
            continue;
        if (!copy_file(from_dir, to_dir, entry->d_name) && name.seq > highest && name.seq < UINT32_MAX)
            highest = (uint32_t)name.seq;
    }
    if (dir)
        closedir(dir);
    else if (from_dir >= 0)
        close(from_dir);
    return highest;
}

static int write_kind(struct dp_recover *r, const struct dp_recover_table *t, int to_dir, unsigned kind, uint32_t seq)
{
    char name[DP_PROFILE_NAME_MAX];
    struct dp_recover_bytes profile = {0};
    unsigned since = seq > 1 ? 0 : DELTAPROF_OUTSIDE_SINCE_START;
    int err = dp_recover_write(r, kind, since | DELTAPROF_OUTSIDE_SKIP_EMPTY, dp_recover_append, &profile, NULL);
    dp_profile_name_format(name, t->program, t->pid, seq, kind);
    if (!err)
        err = dp_recover_write_file(to_dir, name, &t->stamp, &profile);
    dp_vec_fini(&profile.at);
    return err == 1 ? 0 : err;
}

int dp_recover_live(const char *directory, const struct dp_recover_table *t, const char *to, char *why)
{
    struct dp_recover *r = dp_recover_open(directory, t, why);
    int to_dir = r ? open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, err = r && to_dir < 0 ? -errno : 0;
    if (!r)
        return -EBADMSG;
    uint32_t seq = to_dir < 0 ? 0 : copy_files(t, to_dir);
    if (!err)
        err = dp_recover_refresh(r, why); /* a file may have been written meanwhile */
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++)
        err = dp_kind_table[kind].is_settled_late ? 0 : write_kind(r, t, to_dir, kind, seq + 1);
    if (err < 0)
        dp_text_format(why, DP_RECOVER_WHY, "%s %d: its tables cannot be read: %s", t->program, (int)t->pid,
                       strerror(-err));
    if (to_dir >= 0)
        close(to_dir);
    dp_recover_close(r);
    return err;
}
