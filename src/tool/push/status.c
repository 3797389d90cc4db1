/* SPDX-License-Identifier: MIT */
/* tool/push/status.c - prints, for each journal of a directory, how many files were settled, and which are set aside.
 */
#include "tool/push/status.h"

#include "tool/push/queue.h"
#include "tool/push/say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void print_time(const char *before, int64_t time_ns)
{
    char text[32];
    time_t time_s = (time_t)(time_ns / 1000000000);
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time_s, &tm));
    printf("%s%s", before, text);
}

/* Text that a journal took from a reply or a name. */
static void print_clean(const char *text)
{
    for (; *text; text++)
        putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
}

static void print_aside(const struct dp_push_aside *aside)
{
    const struct dp_push_unit *unit = &aside->unit;
    for (uint32_t i = 1; i <= unit->n_files; i++) {
        printf("  ");
        print_clean(strchr(dp_strings_at(&unit->keys, i), ' ') + 1);
        print_time(": set aside at ", unit->aside_ns);
        print_time(", tried at ", aside->tried_ns);
        if (unit->part)
            printf(", %u parts of it settled", unit->part);
        printf(": ");
        print_clean(aside->why);
        putchar('\n');
    }
}

static size_t count_same(const struct dp_push_journal *j, size_t at, bool *is_first)
{
    size_t n = 0;
    *is_first = true;
    for (size_t i = 0; i < j->aside.n; i++) {
        if (j->aside.at[i].unit.part || strcmp(j->aside.at[i].why, j->aside.at[at].why))
            continue;
        *is_first &= n > 0 || i == at;
        n += j->aside.at[i].unit.n_files;
    }
    return n;
}

/* Says a reason once, with the number of its files, if several whole files have it. */
static void print_asides(const struct dp_push_journal *j)
{
    for (size_t i = 0; i < j->aside.n; i++) {
        const struct dp_push_aside *aside = &j->aside.at[i];
        bool is_first;
        size_t n = count_same(j, i, &is_first);
        if (aside->unit.part || n < 2) {
            print_aside(aside);
        } else if (is_first) {
            printf("  %zu files, the first of them ", n);
            print_clean(strchr(dp_strings_at(&aside->unit.keys, 1), ' ') + 1);
            print_time(": set aside at ", aside->unit.aside_ns);
            print_time(", tried at ", aside->tried_ns);
            printf(": ");
            print_clean(aside->why);
            putchar('\n');
        }
    }
}

static void print_journal(const char *dir, const struct dp_push_queue *q)
{
    const struct dp_push_journal *j = &q->journal;
    size_t n_aside = 0;
    for (size_t i = 0; i < j->aside.n; i++)
        n_aside += j->aside.at[i].unit.n_files;
    printf("%s to %s: %" PRIu64 " files accepted, %" PRIu64 " perhaps delivered, %" PRIu64 " refused, %" PRIu64
           " deleted before they were sent, %zu waiting, %zu of them set aside\n",
           dir, j->target, j->counts[DP_PUSH_ACCEPTED], j->counts[DP_PUSH_DOUBT], j->counts[DP_PUSH_REFUSED],
           j->counts[DP_PUSH_GONE], q->n_pending, n_aside);
    if (j->n_broken)
        printf("  %zu lines of its journal %s are broken\n", j->n_broken, j->name);
    print_asides(j);
}

static int show_journal(const char *dir, int dir_fd, const char *name)
{
    struct dp_push_queue q = {.path = dir, .dir_fd = -1, .only_reads = true};
    int err = dp_push_journal_read(&q.journal, dir_fd, name);
    if (err)
        return err;
    q.takes_events = dp_push_target_takes_events(q.journal.target);
    q.dir_fd = dup(dir_fd);
    err = q.dir_fd < 0 ? -errno : dp_push_queue_scan(&q);
    if (!err)
        print_journal(dir, &q);
    if (q.dir_fd < 0)
        dp_push_journal_close(&q.journal);
    dp_push_queue_close(&q);
    return err;
}

static int show_directory(const char *path)
{
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status = 0;
    DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
    size_t n = 0;
    if (!dir) {
        dp_push_say("%s: %s", path, strerror(errno));
        if (dir_fd >= 0)
            close(dir_fd);
        return 1;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        if (strncmp(name, ".push.", 6) || strlen(name) != 22)
            continue;
        int err = show_journal(path, dir_fd, name);
        if (err) {
            dp_push_say("%s/%s: %s", path, name, strerror(-err));
            status = 1;
        }
        n++;
    }
    if (!n)
        printf("%s: no journal\n", path);
    closedir(dir);
    return status;
}

int dp_push_status(char **dirs, size_t n_dirs)
{
    int status = 0;
    for (size_t i = 0; i < n_dirs; i++)
        status |= show_directory(dirs[i]);
    return fflush(stdout) ? 1 : status;
}
