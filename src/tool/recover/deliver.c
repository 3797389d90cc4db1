/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/deliver.c - turns the tables of ended processes into their last files.
 *
 * The files are complete before the first one gets its name (files.c), and the table is deleted last. Of several
 * processes that do this at once the one with the lock (F_OFD_SETLK) of the file goes on. A table that cannot be
 * delivered stays; of those, the oldest are deleted where there are more than TABLES_MOST, or BYTES_MOST of them.
 */
#include "base/text.h"
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

enum { TABLES_MOST = 512 };
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

static int deliver_claimed(const char *directory, const struct dp_recover_table *t, struct dp_recover *reader,
                           char *why)
{
    if (t->state == DP_RECOVER_DONE)
        return 0;
    struct dp_recover *r = reader ? reader : dp_recover_open(directory, t, why);
    if (!r)
        return -EBADMSG;
    const char *what;
    int n = dp_recover_files_write(r, t, t->was_killed ? DELTAPROF_OUTSIDE_KILLED : DELTAPROF_OUTSIDE_ENDED, &what);
    if (n < 0)
        dp_text_format(why, DP_RECOVER_WHY, "%s/%s: cannot %s the last profiles of %s %d to %s: %s", directory, t->name,
                       what, t->program, (int)t->pid, *t->out ? t->out : "out=none", strerror(-n));
    if (r != reader)
        dp_recover_close(r);
    return n;
}

int dp_recover_deliver(const char *directory, const struct dp_recover_table *t, struct dp_recover *reader, char *why)
{
    const char *what;
    int fd = -1, n = 0, dir = dp_tables_place_open(directory, false, &what);
    if (dir < 0)
        return dir;
    int claimed = claim(dir, t->name, &fd);
    if (!claimed) {
        n = deliver_claimed(directory, t, reader, why);
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

/* The file of the cursors of a server that did not come back. */
static void end_cursors(const char *directory)
{
    struct stat st;
    char path[PATH_MAX + sizeof DP_TABLES_CURSORS_FILE];
    snprintf(path, sizeof path, "%s/" DP_TABLES_CURSORS_FILE, directory);
    if (!lstat(path, &st) && time(NULL) - st.st_mtim.tv_sec > DP_TABLES_CURSORS_S && !dp_recover_is_served(directory))
        unlink(path);
}

int dp_recover_all(const char *directory, const char *out, void (*fn)(const char *why))
{
    struct dp_recover_list list;
    char why[DP_RECOVER_WHY] = "", wanted[PATH_MAX], real[PATH_MAX];
    const char *cleaned = out ? out : "";
    if (out)
        dp_recover_files_clean(out);
    if (dp_recover_list(directory, &list, why)) {
        if (fn)
            fn(why);
        return -EIO;
    }
    bool *stays = calloc(list.n + 1, sizeof *stays);
    int n_processes = 0;
    unsigned n_unknown = 0;
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
        if (t->state == DP_RECOVER_UNKNOWN) {
            n_unknown++;
            continue;
        }
        if (strcmp(cleaned, t->out))
            dp_recover_files_clean(cleaned = t->out);
        int n = dp_recover_deliver(list.directory, t, NULL, why);
        stays[i] = n < 0;
        n_processes += n > 0;
        if (n >= 0 && strchr(t->name, '/')) /* its server was killed, too */
            dp_recover_end_serving(directory_of(&list, t));
        if (n < 0 && fn)
            fn(why);
    }
    if (n_unknown && fn) {
        dp_text_format(why, sizeof why, "%s: %u file%s of tables of another version; that version can read them",
                       list.directory, n_unknown, n_unknown == 1 ? "" : "s");
        fn(why);
    }
    unsigned n_deleted = stays ? delete_beyond(&list, stays) : 0;
    if (n_deleted && fn) {
        dp_text_format(why, sizeof why, "%s: deleted the %u oldest tables of ended processes, which nobody could read",
                       list.directory, n_deleted);
        fn(why);
    }
    end_cursors(list.directory);
    if (!directory) /* those whose last table was delivered by a program that was killed then */
        dp_recover_end_families(list.directory);
    free(stays);
    dp_recover_list_fini(&list);
    return n_processes;
}
