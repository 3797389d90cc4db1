/* SPDX-License-Identifier: MIT */
/*
 * tool/push/queue.c - reads a directory of profiles. The files are the queue: nothing is copied, and the key `keep` of
 * the profiled processes bounds it. Files that were deleted before they were sent are counted in the journal: files
 * that an earlier scan saw, and whole ticks, by the gaps that they leave in SEQ.
 *
 * Invariant: a file is gone only if the system says ENOENT, or if a listing that reached its end does not name it.
 * After any other failure it waits, and is counted as one that cannot be read.
 */
#include "tool/push/queue.h"

#include "base/clock.h"
#include "pprof/stamp.h"
#include "profile/file_name.h"
#include "profile/kinds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Files of one process and kind are sent together only if those that wait span so much time, or are so many that the
 * profiled process may delete them before they are sent (`keep`, 5,760 by default). Otherwise each is a point of its
 * own: databases sum memory in use over the points of a range, so that the sum must not depend on how the files went.
 */
#define BEHIND_NS    (INT64_C(7200) * 1000000000)
#define BEHIND_FILES 2000
/* Files that span more time than this are not joined. */
#define JOINED_NS (INT64_C(300) * 1000000000)
#define YOUNG_NS  (INT64_C(2) * 1000000000)

/* Takes the name of a profile apart. False: another name. */
static bool parse(struct dp_push_file *file)
{
    struct dp_profile_name name;
    if (*file->name == '.' || strlen(file->name) > NAME_MAX || !dp_profile_name_parse(file->name, &name) ||
        name.kind_id == DP_KINDS)
        return false;
    file->seq = name.seq;
    file->n_program = name.n_program;
    file->n_process = name.n_process;
    file->kind = name.kind_id;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct dp_push_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static const struct dp_push_file *named(const struct dp_push_queue *q, const char *name)
{
    struct dp_push_file key = {.name = (char *)name};
    return q->files.n ? bsearch(&key, q->files.at, q->files.n, sizeof key, by_name) : NULL;
}

const struct dp_push_file *dp_push_queue_find(const struct dp_push_queue *q, const char *key)
{
    const char *name = strchr(key, ' ');
    const struct dp_push_file *file = name ? named(q, name + 1) : NULL;
    return file && file->stamp == strtoull(key, NULL, 16) ? file : NULL;
}

static bool exists(void *ctx, const char *key)
{
    return dp_push_queue_find(ctx, key) != NULL;
}

bool dp_push_queue_has(const struct dp_push_queue *q, const char *key)
{
    struct stat st;
    const struct dp_push_file *file = dp_push_queue_find(q, key);
    return file && !fstatat(q->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
}

int dp_push_queue_open(struct dp_push_queue *q, const char *path, const struct dp_push_target *target)
{
    *q = (struct dp_push_queue){.path = path, .journal.fd = -1, .takes_events = target->takes_events};
    q->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (q->dir_fd < 0)
        return -errno;
    int err = dp_push_journal_open(&q->journal, q->dir_fd, target->address);
    if (err) {
        close(q->dir_fd);
        q->dir_fd = -1;
    }
    return err;
}

static void free_files(struct dp_push_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i].name);
}

void dp_push_queue_close(struct dp_push_queue *q)
{
    free_files(q->files.at, q->files.n);
    dp_vec_fini(&q->files);
    if (q->dir_fd >= 0) {
        if (!q->only_reads)
            dp_push_journal_remove_blank(&q->journal);
        dp_push_journal_close(&q->journal);
        close(q->dir_fd);
    }
}

bool dp_push_queue_is_current(const struct dp_push_queue *q)
{
    struct stat by_fd, by_path;
    return !fstat(q->dir_fd, &by_fd) && !stat(q->path, &by_path) && by_fd.st_dev == by_path.st_dev &&
           by_fd.st_ino == by_path.st_ino;
}

bool dp_push_queue_is_young(const struct stat *st)
{
    int64_t age = dp_clock_wall_ns() - (st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec);
    return age < YOUNG_NS && age > -YOUNG_NS; /* later: a clock was set back */
}

static void copy_state(struct dp_push_file *file, const struct dp_push_file *before)
{
    file->stamp = before->stamp;
    file->is_settled = before->is_settled;
    file->is_aside = before->is_aside;
}

/* Fills in a file whose name is set. 0: it is no profile, or no file any more. A negative errno: it cannot be read. */
static int inspect(struct dp_push_queue *q, struct dp_push_file *file)
{
    struct stat st;
    struct dp_stamp stamp;
    char key[DP_PUSH_KEY_BYTES];
    if (!parse(file))
        return 0;
    if (fstatat(q->dir_fd, file->name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    file->inode = st.st_ino;
    file->n_bytes = st.st_size;
    file->mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
    const struct dp_push_file *before = named(q, file->name);
    if (before && before->inode == file->inode && before->mtime_ns == file->mtime_ns) {
        copy_state(file, before);
        return 1;
    }
    int err = dp_stamp_read(q->dir_fd, file->name, &stamp);
    if (err)
        return err == -ENOENT ? 0 : err;
    if (!stamp.process && dp_push_queue_is_young(&st)) {
        q->n_young++; /* perhaps a copy whose beginning is not there yet: its time, by which it is known, still changes
                       */
        return 0;
    }
    file->stamp = stamp.process ? stamp.process : (uint64_t)file->mtime_ns;
    file->is_settled = (!q->takes_events && file->kind == DP_KIND_EVENTS) ||
                       dp_push_journal_is_settled(&q->journal, file->stamp, file->name);
    dp_push_journal_key(key, file->stamp, file->name);
    file->is_aside = dp_push_journal_is_aside(&q->journal, key);
    return 1;
}

/* Looks at a file. One that cannot be read is counted; what the last scan knew of it stays true. As look otherwise. */
static bool inspect_or_count(struct dp_push_queue *q, struct dp_push_file *file)
{
    int found = inspect(q, file);
    if (found >= 0)
        return found;
    bool is_forbidden = found == -EACCES || found == -EPERM;
    q->n_forbidden += is_forbidden;
    q->n_failed += !is_forbidden;
    q->failure = is_forbidden ? q->failure : found;
    const struct dp_push_file *before = named(q, file->name);
    if (!before)
        return false;
    file->inode = before->inode;
    file->n_bytes = before->n_bytes;
    file->mtime_ns = before->mtime_ns;
    copy_state(file, before);
    return true;
}

/* Counts the pending files of the last scan that do not exist any more. Those of the unit under way are left to it. */
static int count_gone(struct dp_push_queue *q, const struct dp_push_queue *now)
{
    int err = 0;
    for (size_t i = 0; i < q->files.n && !err; i++) {
        const struct dp_push_file *file = &q->files.at[i];
        char key[DP_PUSH_KEY_BYTES];
        dp_push_journal_key(key, file->stamp, file->name);
        if (!file->is_settled && !dp_push_queue_find(now, key) && !dp_push_journal_holds(&q->journal, key))
            err = dp_push_journal_gone(&q->journal, key);
    }
    return err;
}

/*
 * Counts the files of the ticks between the highest SEQ that was settled and the lowest above it that exists, process
 * by process: files of a process stand together. A tick that was deleted unseen had as many files as the next one.
 */
static int count_gaps(struct dp_push_queue *q)
{
    int err = 0;
    for (size_t i = 0, end; i < q->files.n && !err; i = end) {
        uint64_t stamp = q->files.at[i].stamp;
        unsigned long long seen = dp_push_journal_seen(&q->journal, stamp), lowest = 0, n_files = 0;
        for (end = i; end < q->files.n && q->files.at[end].stamp == stamp; end++) {
            unsigned long long seq = q->files.at[end].seq;
            if (seq > seen && (!lowest || seq <= lowest)) {
                n_files = seq == lowest ? n_files + 1 : 1;
                lowest = seq;
            }
        }
        if (seen && lowest > seen + 1)
            err = dp_push_journal_missed(&q->journal, stamp, lowest, (lowest - seen - 1) * n_files);
    }
    return err;
}

int dp_push_queue_scan(struct dp_push_queue *q)
{
    struct dp_push_queue next = {.n_pending = 0};
    q->n_forbidden = q->n_failed = q->n_young = 0;
    int err = 0, fd = openat(q->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    while (!err) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            err = -errno; /* after half a directory, the other files would count as deleted */
            break;
        }
        struct dp_push_file file = {.name = strdup(entry->d_name)}, *to = NULL;
        if (!file.name || (inspect_or_count(q, &file) && !(to = dp_vec_push(&next.files))))
            err = -ENOMEM;
        if (to)
            *to = file;
        else
            free(file.name);
    }
    closedir(dir);
    if (!err) {
        if (next.files.n)
            qsort(next.files.at, next.files.n, sizeof *next.files.at, by_name);
        err = q->only_reads ? 0 : count_gone(q, &next);
    }
    if (err) {
        free_files(next.files.at, next.files.n);
        dp_vec_fini(&next.files);
        return err;
    }
    free_files(q->files.at, q->files.n);
    dp_vec_fini(&q->files);
    q->files.at = next.files.at, q->files.n = next.files.n, q->files.cap = next.files.cap;
    q->n_pending = 0;
    for (size_t i = 0; i < q->files.n; i++)
        q->n_pending += !q->files.at[i].is_settled;
    if (q->only_reads)
        return 0;
    err = q->n_failed ? 0 : count_gaps(q); /* a file that cannot be read may stand in the gap */
    return err ? err : dp_push_journal_compact(&q->journal, exists, q);
}

static bool is_before(const struct dp_push_file *a, const struct dp_push_file *b)
{
    if (a->stamp == b->stamp && a->seq != b->seq)
        return a->seq < b->seq;
    if (a->mtime_ns != b->mtime_ns)
        return a->mtime_ns < b->mtime_ns;
    return strcmp(a->name, b->name) < 0;
}

const struct dp_push_file *dp_push_queue_first(const struct dp_push_queue *q)
{
    const struct dp_push_file *first = NULL;
    for (size_t i = 0; i < q->files.n && q->n_pending; i++) {
        const struct dp_push_file *file = &q->files.at[i];
        if (!file->is_settled && !file->is_aside && (!first || is_before(file, first)))
            first = file;
    }
    return first;
}

static bool is_same(const struct dp_push_file *a, const struct dp_push_file *b)
{
    return a->stamp == b->stamp && a->n_process == b->n_process && !memcmp(a->name, b->name, a->n_process) &&
           a->kind == b->kind;
}

size_t dp_push_queue_unit(const struct dp_push_queue *q, const struct dp_push_file *first,
                          const struct dp_push_file **files, size_t n_most)
{
    size_t n = 0, n_waiting = 0;
    int64_t newest_ns = first->mtime_ns;
    /* Files of one process stand together, by SEQ: as long as SEQ has four digits, so sort those that are taken. */
    for (size_t i = 0; i < q->files.n; i++) {
        const struct dp_push_file *file = &q->files.at[i];
        if (file->is_settled || file->is_aside || !is_same(file, first))
            continue;
        n_waiting++;
        newest_ns = file->mtime_ns > newest_ns ? file->mtime_ns : newest_ns;
        if (file->mtime_ns - first->mtime_ns > JOINED_NS || (n == n_most && file->seq > files[n - 1]->seq))
            continue;
        size_t at = n < n_most ? n++ : n - 1;
        for (; at && files[at - 1]->seq > file->seq; at--)
            files[at] = files[at - 1];
        files[at] = file;
    }
    if (!n || (newest_ns - first->mtime_ns < BEHIND_NS && n_waiting < BEHIND_FILES)) {
        files[0] = first;
        return 1;
    }
    return n;
}

void dp_push_queue_settled_key(struct dp_push_queue *q, const char *key)
{
    const struct dp_push_file *found = dp_push_queue_find(q, key);
    struct dp_push_file *file = found ? &q->files.at[found - q->files.at] : NULL;
    if (!file)
        return;
    q->n_pending -= !file->is_settled;
    file->is_settled = true;
    file->is_aside = false;
}

void dp_push_queue_settled(struct dp_push_queue *q)
{
    for (uint32_t i = 1; i <= q->journal.unit.n_files; i++)
        dp_push_queue_settled_key(q, dp_strings_at(&q->journal.unit.keys, i));
}

void dp_push_queue_aside(struct dp_push_queue *q)
{
    for (uint32_t i = 1; i <= q->journal.unit.n_files; i++) {
        const struct dp_push_file *file = dp_push_queue_find(q, dp_strings_at(&q->journal.unit.keys, i));
        if (file)
            q->files.at[file - q->files.at].is_aside = true;
    }
}
