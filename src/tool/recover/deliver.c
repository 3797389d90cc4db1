/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/deliver.c - turns the tables of ended processes into their last files.
 *
 * The files are complete under temporary names before the first one gets its name, and the table is deleted last. Of
 * several processes that do this at once the one with the lock (F_OFD_SETLK) of the file goes on. A table that cannot
 * be delivered stays; of those, the oldest are deleted where there are more than TABLES_MOST, or BYTES_MOST of them.
 */
#include "base/libc.h"
#include "base/text.h"
#include "pprof/stamp.h"
#include "profile/file_name.h"
#include "tool/recover/recover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TABLES_MOST = 512, SEQ_TRIES = 64 };
#define BYTES_MOST ((int64_t)256 << 20)

int dp_recover_append(void *bytes, const void *from, size_t n_bytes)
{
    struct dp_recover_bytes *b = bytes;
    if (!dp_vec_room(&b->at, n_bytes))
        return -ENOMEM;
    memcpy(b->at.at + b->at.n, from, n_bytes);
    b->at.n += n_bytes;
    return 0;
}

/* A directory of profiles, and the next number in it for a process. */
struct place {
    int dir;
    uint32_t seq;
    struct dp_stamp stamp;
};

static int open_place(struct place *p, const struct dp_recover_table *t)
{
    mkdir(t->out, 0700); /* as the process would have done at its first file */
    p->dir = open(t->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->dir < 0)
        return -errno;
    DIR *dir = fdopendir(dup(p->dir));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct dp_profile_name name;
        if (dp_profile_name_parse(entry->d_name, &name) && name.pid == (uint64_t)t->pid &&
            name.n_program == strlen(t->program) && !memcmp(entry->d_name, t->program, name.n_program) &&
            name.seq > p->seq && name.seq < UINT32_MAX)
            p->seq = (uint32_t)name.seq;
    }
    if (dir)
        closedir(dir);
    p->seq++;
    return 0;
}

static bool write_all(int fd, const void *bytes, size_t n_bytes)
{
    for (const char *at = bytes; n_bytes;) {
        ssize_t n = write(fd, at, n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* Writes a profile under a temporary name. */
static int write_temporary(const struct place *p, const struct dp_recover_table *t, unsigned kind,
                           const struct dp_recover_bytes *profile, char name[DP_PROFILE_NAME_MAX])
{
    uint8_t header[DP_STAMP_HEADER_BYTES];
    dp_profile_name_format_temporary(name, t->program, t->pid, kind, (uint64_t)time(NULL) << 20 | (uint64_t)getpid());
    int fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    bool stamped = p->stamp.process && dp_stamp_insert(&p->stamp, profile->at.at, profile->at.n, header);
    size_t skipped = stamped ? DP_STAMP_PLAIN_BYTES : 0;
    bool is_whole = (!stamped || write_all(fd, header, sizeof header)) &&
                    write_all(fd, profile->at.at + skipped, profile->at.n - skipped);
    int err = is_whole ? 0 : -errno;
    if (close(fd) && !err)
        err = -errno;
    if (err)
        unlinkat(p->dir, name, 0);
    return err;
}

static int give_name(const struct place *p, const struct dp_recover_table *t, unsigned kind, const char *temporary,
                     uint32_t seq)
{
    char name[DP_PROFILE_NAME_MAX];
    dp_profile_name_format(name, t->program, t->pid, seq, kind);
    if (!dp_libc_rename(p->dir, temporary, name))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(p->dir, temporary, p->dir, name, 0))
        return -errno;
    unlinkat(p->dir, temporary, 0);
    return 0;
}

/* A kind that has something new. */
struct last {
    struct dp_recover_bytes profile;
    char temporary[DP_PROFILE_NAME_MAX]; /* "": it has no file */
};

static int make_temporary(struct dp_recover *r, const struct place *p, const struct dp_recover_table *t, unsigned kind,
                          struct last *last)
{
    int err = dp_recover_write(r, kind, DELTAPROF_OUTSIDE_KILLED | DELTAPROF_OUTSIDE_SKIP_EMPTY, dp_recover_append,
                               &last->profile, NULL);
    if (err)
        return err == 1 ? 0 : err;
    err = write_temporary(p, t, kind, &last->profile, last->temporary);
    if (err)
        last->temporary[0] = '\0';
    return err;
}

/* A process that begins in that directory may take a temporary file for one that its writer has left, and delete it. */
static int name_file(struct place *p, const struct dp_recover_table *t, unsigned kind, struct last *last)
{
    int err = 0;
    for (int i = 0; i < SEQ_TRIES; i++) {
        err = give_name(p, t, kind, last->temporary, p->seq);
        if (err == -EEXIST)
            p->seq++;
        else if (err != -ENOENT || (err = write_temporary(p, t, kind, &last->profile, last->temporary)))
            break;
    }
    if (err)
        unlinkat(p->dir, last->temporary, 0);
    return err;
}

/* Writes the kinds that have something new. The number of files, or a negative errno. */
static int write_files(struct dp_recover *r, struct place *p, const struct dp_recover_table *t)
{
    struct last lasts[DP_KIND_TABLES] = {0};
    int err = 0, n_files = 0;
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++)
        err = make_temporary(r, p, t, kind, &lasts[kind]);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        struct last *last = &lasts[kind];
        if (last->temporary[0] && err)
            unlinkat(p->dir, last->temporary, 0);
        else if (last->temporary[0] && !(err = name_file(p, t, kind, last)))
            n_files++;
        dp_vec_fini(&last->profile.at);
    }
    return err ? err : n_files;
}

/* The lock of those that deliver. -EAGAIN: another process has it; 1: the table was delivered meanwhile. */
static int claim(int dir, const char *name, int *fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    struct stat st;
    *fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return errno == ENOENT ? 1 : -errno;
    if (fcntl(*fd, F_OFD_SETLK, &lock))
        return -errno;
    return fstat(*fd, &st) || !st.st_nlink;
}

static int deliver_claimed(const char *directory, const struct dp_recover_table *t, int fd, char *why)
{
    struct dp_tables_file h;
    struct place place = {.dir = -1};
    if (t->state == DP_RECOVER_DONE)
        return 0;
    struct dp_recover *r = dp_recover_open(directory, t, why);
    if (!r)
        return -EBADMSG;
    if (pread(fd, &h, sizeof h, 0) == sizeof h)
        place.stamp = (struct dp_stamp){h.pid_scope, h.process};
    if (!place.stamp.process)
        place.stamp = dp_stamp_make(t->pid);
    int n = *t->out ? open_place(&place, t) : -ENOENT;
    if (!n)
        n = write_files(r, &place, t);
    if (n < 0)
        dp_text_format(why, DP_RECOVER_WHY, "%s/%s: cannot write the last profiles of %s %d to %s: %s", directory,
                       t->name, t->program, (int)t->pid, *t->out ? t->out : "out=none", strerror(-n));
    if (place.dir >= 0)
        close(place.dir);
    dp_recover_close(r);
    return n;
}

int dp_recover_deliver(const char *directory, const struct dp_recover_table *t, char *why)
{
    const char *what;
    int fd = -1, n = 0, dir = dp_tables_place_open(directory, false, &what);
    if (dir < 0)
        return dir;
    int claimed = claim(dir, t->name, &fd);
    if (!claimed) {
        n = deliver_claimed(directory, t, fd, why);
        if (n >= 0)
            unlinkat(dir, t->name, 0);
    }
    if (fd >= 0)
        close(fd);
    close(dir);
    return n;
}

int dp_recover_delete(const char *directory, const struct dp_recover_table *t)
{
    const char *what;
    int fd = -1, dir = dp_tables_place_open(directory, false, &what);
    if (dir < 0)
        return dir;
    int claimed = claim(dir, t->name, &fd);
    int err = claimed < 0 ? claimed : 0;
    if (!claimed && unlinkat(dir, t->name, 0))
        err = -errno;
    if (fd >= 0)
        close(fd);
    close(dir);
    return err;
}

/* Deletes the oldest of those that stay. Returns their number. */
static unsigned delete_beyond(const struct dp_recover_list *list, const bool *stays)
{
    const char *what;
    int64_t n_bytes = 0;
    unsigned n = 0, n_deleted = 0;
    int dir = dp_tables_place_open(list->directory, false, &what);
    for (size_t i = list->n; dir >= 0 && i-- > 0;) { /* the youngest first */
        if (!stays[i])
            continue;
        n++;
        n_bytes += list->at[i].n_bytes;
        if ((n > TABLES_MOST || n_bytes > BYTES_MOST) && !unlinkat(dir, list->at[i].name, 0))
            n_deleted++;
    }
    if (dir >= 0)
        close(dir);
    return n_deleted;
}

/* The directory that the table is in: the list's, or that of a family in it. */
static const char *directory_of(const struct dp_recover_list *list, const struct dp_recover_table *t)
{
    static char path[PATH_MAX + DP_TABLE_NAME_MAX + 1];
    const char *slash = strrchr(t->name, '/');
    snprintf(path, sizeof path, "%s/%.*s", list->directory, slash ? (int)(slash - t->name) : 0, t->name);
    return path;
}

int dp_recover_all(const char *directory, const char *out, void (*fn)(const char *why))
{
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY] = "", wanted[PATH_MAX], real[PATH_MAX];
    if (dp_recover_list(directory, &list, why)) {
        if (fn)
            fn(why);
        return -EIO;
    }
    bool *stays = calloc(list.n + 1, sizeof *stays);
    int n_processes = 0;
    const char *asked = out ? realpath(out, wanted) : NULL;
    for (size_t i = 0; stays && i < list.n; i++) {
        const struct dp_recover_table *t = &list.at[i];
        if (t->state == DP_RECOVER_LIVES ||
            dp_recover_is_served(directory_of(&list, t))) /* that program delivers it, and passes it on before */
            continue;
        stays[i] = true;
        if (t->state == DP_RECOVER_ENDED && !*t->out)
            continue; /* it has no files: only a program that serves the directory passes it on */
        bool is_asked =
            !out || t->state == DP_RECOVER_DONE || (asked && *t->out && realpath(t->out, real) && !strcmp(real, asked));
        if (!is_asked || (t->state == DP_RECOVER_UNKNOWN && out))
            continue;
        int n = t->state == DP_RECOVER_UNKNOWN ? -ENOEXEC : dp_recover_deliver(list.directory, t, why);
        if (t->state == DP_RECOVER_UNKNOWN)
            dp_text_format(why, sizeof why, "%s/%s: it is no file of tables of this version", list.directory, t->name);
        stays[i] = n < 0;
        n_processes += n > 0;
        if (n >= 0 && strchr(t->name, '/')) /* its server was killed, too */
            dp_recover_end_serving(directory_of(&list, t));
        if (n < 0 && fn)
            fn(why);
    }
    unsigned n_deleted = stays ? delete_beyond(&list, stays) : 0;
    if (n_deleted && fn) {
        dp_text_format(why, sizeof why, "%s: deleted the %u oldest tables of ended processes, which nobody could read",
                       list.directory, n_deleted);
        fn(why);
    }
    free(stays);
    dp_recover_list_fini(&list);
    return n_processes;
}
