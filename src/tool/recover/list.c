/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/list.c - lists the tables of a directory. Whether a process has ended is told by the lock of its file,
 * which it holds as long as it has the file mapped. A forked child that has not made tables of its own yet keeps its
 * parent's lock: so a process of this pid namespace that is not there any more has ended, too. In another namespace the
 * number means another process or none, and the lock alone tells.
 */
#include "tool/recover/recover.h"
#include "tool/recover/living.h"

#include "base/io.h"
#include "base/text.h"
#include "base/process.h"
#include "profile/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_OF(t)   ((int64_t)(t).tv_sec * 1000000000 + (t).tv_nsec)
#define NEW_MOST_S 60
#define ERRNO_MOST 999

/* When the process with this pid was started, ns of Unix time; 0: there is none; -1: not known. */
static int64_t started_ns(pid_t pid)
{
    uint64_t ticks = dp_recover_living(pid, NULL);
    if (!ticks)
        return (kill(pid, 0) && errno == ESRCH) || dp_process_began(pid, pid, NULL) ? 0 : -1;
    struct timespec wall, boot;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return NS_OF(wall) - NS_OF(boot) + (int64_t)(ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK)));
}

/* Whether pids of this namespace (its inode) mean processes that this one sees under the same number, also in /proc. */
static bool is_own_namespace(uint64_t pid_namespace)
{
    char self[32];
    struct stat st;
    dp_text_format(self, sizeof self, "/proc/%d/ns/pid", (int)getpid());
    return pid_namespace && pid_namespace == dp_process_pid_namespace() && !stat(self, &st) &&
           st.st_ino == pid_namespace;
}

static bool has_ended(int fd, const struct dp_tables_file *h)
{
    if (!flock(fd, LOCK_SH | LOCK_NB)) {
        flock(fd, LOCK_UN);
        return true;
    }
    int64_t started = is_own_namespace(h->pid_namespace) ? started_ns(h->pid) : -1;
    return started == 0 || started > h->made_wall_ns + 1000000000; /* a child has the lock */
}

/* The state as it is now: if the process was seen to have ended, its last one. */
static uint32_t state_of(int fd, const struct dp_tables_file *h)
{
    uint32_t state;
    bool is_read = pread(fd, &state, sizeof state, offsetof(struct dp_tables_file, state)) == sizeof state;
    return is_read ? state : dp_load_relaxed(&h->state);
}

/* served: where files of processes that write none are written; "": nowhere. */
static void describe(struct dp_recover_table *t, int fd, const char *served)
{
    static struct dp_tables_file h;
    struct stat st;
    t->state = DP_RECOVER_UNKNOWN;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || pread(fd, &h, sizeof h, 0) != sizeof h ||
        memcmp(h.magic, DP_TABLE_FILE_MAGIC, sizeof DP_TABLE_FILE_MAGIC) || h.pid <= 0 ||
        !memchr(h.program, 0, sizeof h.program) || !memchr(h.out, 0, sizeof h.out))
        return;
    t->pid = h.pid;
    t->parent = h.parent;
    t->begin_wall_ns = h.origin_wall_ns;
    t->changed_ns = NS_OF(st.st_mtim);
    t->n_bytes = (int64_t)st.st_blocks * 512;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        t->samples[kind] = h.is_on[kind];
    t->is_off = dp_load_relaxed(&h.off_wall_ns) != 0;
    memcpy(t->program, h.program, sizeof t->program);
    dp_profile_directory_expand(h.out, t->program, t->pid, t->out, sizeof t->out);
    t->stamp = (struct dp_stamp){h.pid_scope, h.process};
    t->is_elsewhere = !is_own_namespace(h.pid_namespace);
    t->is_written_outside = !*h.out && *served;
    if (t->is_written_outside)
        snprintf(t->out, sizeof t->out, "%s", served);
    bool is_over = has_ended(fd, &h);
    uint32_t state = state_of(fd, &h);
    bool is_done = state == DP_TABLE_IS_DONE;
    t->was_killed = !is_done && state != DP_TABLE_HAS_REST;
    t->state = !is_over ? DP_RECOVER_LIVES : is_done && !t->is_written_outside ? DP_RECOVER_DONE : DP_RECOVER_ENDED;
}

/* A file that never got its name: of a process that was killed meanwhile. */
static void delete_unfinished(int dir, const char *name)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && time(NULL) - st.st_mtim.tv_sec > NEW_MOST_S &&
        !flock(fd, LOCK_EX | LOCK_NB))
        unlinkat(dir, name, 0);
    close(fd);
}

static bool is_unfinished(const char *name)
{
    size_t n = strlen(name), n_suffix = sizeof DP_TABLE_FILE_NEW - 1;
    return n > n_suffix && !strcmp(name + n - n_suffix, DP_TABLE_FILE_NEW);
}

/* PID.START.RANDOM.ERRNO.NAMESPACE.none */
static bool is_private(const char *name, struct dp_recover_private *p)
{
    unsigned long long pid_namespace;
    int n = 0;
    if (sscanf(name, "%d.%*[0-9].%*[0-9a-f].%d.%llu%n", &p->pid, &p->err, &pid_namespace, &n) != 3 ||
        strcmp(name + n, DP_TABLE_FILE_NONE) || strlen(name) >= sizeof p->name)
        return false;
    strcpy(p->name, name);
    p->is_elsewhere = !is_own_namespace(pid_namespace);
    return p->pid > 0 && p->err > 0 && p->err <= ERRNO_MOST;
}

/* One that has ended, or whose number another process has now, has left its file. A link or a directory is none. */
static void add_private(struct dp_recover_list *list, int dir, const struct dp_recover_private *p)
{
    struct stat st;
    char path[32];
    struct dp_recover_private *to;
    if (fstatat(dir, p->name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return;
    int64_t started = p->is_elsewhere ? -1 : started_ns(p->pid);
    if (started == 0 || started > NS_OF(st.st_mtim) + 1000000000) {
        unlinkat(dir, p->name, 0);
    } else if ((to = dp_vec_push(&list->private))) {
        *to = *p;
        to->begin_wall_ns = started;
        dp_text_format(path, sizeof path, "/proc/%d/comm", (int)p->pid);
        if (p->is_elsewhere)
            dp_text_format(to->program, sizeof to->program, "[another pid namespace]");
        else
            dp_io_read_text(path, to->program, sizeof to->program);
        to->program[strcspn(to->program, "\n")] = '\0';
    }
}

/* PID.START.RANDOM */
static bool is_name(const char *name)
{
    int dots = 0;
    for (const char *p = name; *p; p++)
        if (*p == '.')
            dots++;
        else if (!strchr("0123456789abcdef", *p))
            return false;
    return dots == 2 && *name != '.' && strlen(name) < DP_TABLE_NAME_MAX;
}

static int by_begin(const void *a, const void *b)
{
    const struct dp_recover_table *x = a, *y = b;
    return x->begin_wall_ns < y->begin_wall_ns ? -1 : x->begin_wall_ns > y->begin_wall_ns;
}

static int add(struct dp_recover_list *list, int dir, const char *name, const char *served)
{
    struct dp_recover_table *at = realloc(list->at, (list->n + 1) * sizeof *at);
    if (!at)
        return -ENOMEM;
    list->at = at;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0; /* it was deleted, or is a link */
    struct dp_recover_table *t = &list->at[list->n++];
    memset(t, 0, sizeof *t);
    strcpy(t->name, name);
    describe(t, fd, served);
    close(fd);
    return 0;
}

/* The tables of a family that `run --serve` serves, in a directory of their own in the user's one. */
static int add_family(struct dp_recover_list *list, int dir, const char *family)
{
    int fd = openat(dir, family, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = 0;
    DIR *tables = fd < 0 ? NULL : fdopendir(fd);
    char served[PATH_MAX];
    struct dp_recover_private private = {.pid = 0};
    if (!tables)
        return 0;
    dp_tables_place_files(fd, served);
    for (struct dirent *entry; !err && (entry = readdir(tables));) {
        char name[DP_TABLE_NAME_MAX];
        if (is_private(entry->d_name, &private))
            add_private(list, fd, &private);
        if (is_name(entry->d_name) && strlen(family) + strlen(entry->d_name) + 1 < sizeof name) {
            dp_text_format(name, sizeof name, "%s/%s", family, entry->d_name);
            err = add(list, dir, name, served);
        }
    }
    closedir(tables);
    return err;
}

int dp_recover_list(const char *directory, struct dp_recover_list *list, char *why)
{
    const char *what;
    memset(list, 0, sizeof *list);
    if (directory)
        snprintf(list->directory, sizeof list->directory, "%s", directory);
    else
        dp_tables_place_default(list->directory, sizeof list->directory);
    int fd = dp_tables_place_open(list->directory, false, &what);
    if (fd == -ENOENT && !directory)
        return 0;
    if (fd < 0) {
        dp_text_format(why, DP_RECOVER_WHY, "%s: cannot %s: %s", list->directory, what, strerror(-fd));
        return fd;
    }
    char served[PATH_MAX];
    dp_tables_place_files(fd, served);
    DIR *dir = fdopendir(fd);
    int err = dir ? 0 : -errno;
    struct dp_recover_private private = {.pid = 0};
    for (struct dirent *entry; !err && (entry = readdir(dir));)
        if (is_private(entry->d_name, &private))
            add_private(list, fd, &private);
        else if (is_unfinished(entry->d_name))
            delete_unfinished(fd, entry->d_name);
        else if (is_name(entry->d_name))
            err = add(list, fd, entry->d_name, served);
        else if (!directory && !strncmp(entry->d_name, DP_TABLES_RUN, strlen(DP_TABLES_RUN)))
            err = add_family(list, fd, entry->d_name);
    if (dir)
        closedir(dir);
    else
        close(fd);
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, by_begin);
    if (err)
        dp_text_format(why, DP_RECOVER_WHY, "%s: %s", list->directory, strerror(-err));
    return err;
}

void dp_recover_list_fini(struct dp_recover_list *list)
{
    free(list->at);
    dp_vec_fini(&list->private);
    memset(list, 0, sizeof *list);
}

const struct dp_recover_table *dp_recover_find(const struct dp_recover_list *list, pid_t pid)
{
    const struct dp_recover_table *found = NULL;
    for (size_t i = list->n; i-- > 0 && !(found && !found->is_elsewhere);)
        if (list->at[i].pid == pid && list->at[i].state == DP_RECOVER_LIVES && !(found && list->at[i].is_elsewhere))
            found = &list->at[i];
    return found;
}

bool dp_recover_is_private(const struct dp_recover_list *list, const struct dp_recover_private *p)
{
    const struct dp_recover_table *t = p->is_elsewhere ? NULL : dp_recover_find(list, p->pid);
    return !t || t->is_elsewhere;
}

/* The files of processes whose tables lie here were written elsewhere until now. */
static int settle_files(const char *directory, char *why)
{
    struct dp_recover_list list;
    int err = dp_recover_list(directory, &list, why);
    for (size_t i = 0; !err && i < list.n; i++) {
        const struct dp_recover_table *t = &list.at[i];
        struct dp_recover *r = t->is_written_outside ? dp_recover_open(list.directory, t, why) : NULL;
        if (r) /* else it is damaged, and will have no file */
            err = dp_recover_settle(r);
        if (err)
            dp_text_format(why, DP_RECOVER_WHY, "%s/%s: %s", list.directory, t->name, strerror(-err));
        dp_recover_close(r);
    }
    dp_recover_list_fini(&list);
    return err;
}

int dp_recover_lock(const char *directory, char *why)
{
    const char *what = "lock";
    char path[PATH_MAX];
    if (!directory)
        dp_tables_place_default(path, sizeof path);
    else
        snprintf(path, sizeof path, "%s", directory);
    int dir = dp_tables_place_open(path, true, &what);
    int fd = dir < 0 ? dir : dp_tables_place_lock(dir);
    if (dir >= 0)
        close(dir);
    if (fd == -EAGAIN)
        dp_text_format(why, DP_RECOVER_WHY, "%s: another deltaprof serve has this directory", path);
    else if (fd < 0)
        dp_text_format(why, DP_RECOVER_WHY, "%s: cannot %s: %s", path, what, strerror(-fd));
    return fd;
}

int dp_recover_serve(int lock, const char *directory, const char *out, char *why)
{
    char before[PATH_MAX];
    int err = dp_recover_was_served(directory, before) && strcmp(before, out) ? settle_files(directory, why) : 0;
    if (err)
        return err;
    err = dp_tables_place_set_files(lock, out);
    if (err)
        dp_text_format(why, DP_RECOVER_WHY, "cannot write the file `" DP_TABLES_SERVE_FILE "` beside the tables: %s",
                       strerror(-err));
    return err;
}

bool dp_recover_is_served(const char *directory)
{
    return dp_tables_place_is_served(directory);
}

bool dp_recover_was_served(const char *directory, char out[PATH_MAX])
{
    const char *what;
    char path[PATH_MAX];
    if (!directory)
        dp_tables_place_default(path, sizeof path);
    int dir = dp_tables_place_open(directory ? directory : path, false, &what);
    *out = '\0';
    if (dir < 0)
        return false;
    dp_tables_place_files(dir, out);
    close(dir);
    return *out;
}

void dp_recover_touch_files(int lock)
{
    futimens(lock, NULL);
}

void dp_recover_end_files(int lock)
{
    dp_tables_place_set_files(lock, "");
}

void dp_recover_keep_tables(int lock)
{
    dp_tables_place_set_files(lock, "none"); /* not the path of a directory */
}

static bool has_tables(const char *directory)
{
    bool has = false;
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && !has && (entry = readdir(dir));)
        has = is_name(entry->d_name) || is_unfinished(entry->d_name);
    if (dir)
        closedir(dir);
    return has;
}

void dp_recover_end_serving(const char *directory)
{
    char path[PATH_MAX];
    if (has_tables(directory)) /* that file says where their last files belong */
        return;
    snprintf(path, sizeof path, "%s/" DP_TABLES_SERVE_FILE, directory);
    unlink(path);
    rmdir(directory);
}

/* Of a program that has ended, and not just being made. Another pid namespace may have that program. */
static bool is_old_family(int dir, const char *name)
{
    struct stat st;
    pid_t run = (pid_t)atoi(name + strlen(DP_TABLES_RUN));
    return run > 0 && kill(run, 0) && errno == ESRCH && !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) &&
           S_ISDIR(st.st_mode) && time(NULL) - st.st_mtim.tv_sec > NEW_MOST_S;
}

void dp_recover_end_families(const char *directory)
{
    char path[PATH_MAX];
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strncmp(entry->d_name, DP_TABLES_RUN, strlen(DP_TABLES_RUN)) || !is_old_family(dirfd(dir), entry->d_name))
            continue;
        dp_text_format(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!dp_recover_is_served(path))
            dp_recover_end_serving(path);
    }
    if (dir)
        closedir(dir);
}
