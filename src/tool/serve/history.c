/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/history.c - begins the live page with the files on disk.
 *
 * Files are written by this program (-o), or by the processes, into the directory that their tables name. Under the
 * family's lock the page gets a cursor, for each kind: its first delta has what each process did since its last file,
 * or, of one with files elsewhere or none, since its start. Then `deltaprof view` reads the directory. Ticks that ended
 * after that moment are in files and in the delta: the page leaves out those of the files (data-until).
 */
#include "tool/serve/history.h"

#include "base/clock.h"
#include "tool/serve/child.h"
#include "view/page.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS INT64_C(20000000)

/* The directory of files that the page begins with; NULL: there is none. */
static const char *find_directory(const struct dp_serve_family *f)
{
    if (f->out && *f->out)
        return f->out;
    for (size_t i = 0; i < f->workers.at.n; i++)
        if (*f->workers.at.at[i]->table.out)
            return f->workers.at.at[i]->table.out;
    return NULL;
}

/* The cursor's deltas of one kind begin at the last files. */
static int begin_cursor(struct dp_serve_family *f, const char *name, unsigned kind, const char *directory,
                        int64_t now_ns)
{
    bool is_new;
    int err = dp_serve_workers_collect(&f->workers, kind, 0, dp_serve_saved_add, f);
    struct dp_serve_cursor *c = err ? NULL : dp_serve_cursors_get(&f->cursors, name, kind, 0, false, &is_new);
    if (!c)
        return err; /* without a cursor the page begins with one of its own, from now on */
    c->pending.from_ns = now_ns;
    err = dp_serve_workers_since_files(&f->workers, kind, directory, dp_serve_cursor_add, c);
    dp_serve_saved_cursor(f, c);
    return err;
}

static int begin_cursors(struct dp_serve_family *f, const char *name, const char *directory, int64_t now_ns)
{
    int err = 0;
    dp_serve_workers_refresh(&f->workers);
    for (unsigned kind = 0; !err && kind < DP_KIND_TABLES; kind++)
        if (dp_serve_workers_tell(kind) && f->workers.was_on[kind])
            err = begin_cursor(f, name, kind, directory, now_ns);
    return err;
}

/* In a file in memory, so that no pipe has to be emptied while nobody reads the page. */
static int start_viewer(struct dp_serve_history *h, const char *directory)
{
    char *argv[] = {(char *)"deltaprof", (char *)"view", (char *)directory, (char *)"-o", (char *)"-", NULL};
    h->fd = memfd_create("page", MFD_CLOEXEC);
    if (h->fd < 0)
        return -errno;
    pid_t pid = dp_serve_child_start("/proc/self/exe", argv, h->fd);
    if (pid < 0)
        return -errno;
    h->viewer = pid;
    return 0;
}

int dp_serve_history_begin(struct dp_serve_history *h, struct dp_serve_family *f, dp_pprof_write_fn fn, void *ctx)
{
    char name[DP_CURSOR_NAME_MAX + 1] = "", element[192];
    const char *directory = find_directory(f);
    int64_t now_ns = dp_clock_wall_ns();
    h->fd = -1;
    h->viewer = 0;
    int err = 0;
    if (directory) {
        snprintf(name, sizeof name, DP_SERVE_CURSOR_PAGE "%llx", (unsigned long long)now_ns);
        err = begin_cursors(f, name, directory, now_ns);
        err = err ? err : start_viewer(h, directory);
    }
    int n = snprintf(element, sizeof element,
                     "<script type=\"application/octet-stream\" data-cursor=\"%s\" data-until=\"%lld\"></script>\n",
                     name, (long long)(now_ns / 1000000));
    err = err ? err : fn(ctx, dp_view_page_before, dp_view_page_before_bytes);
    return err ? err : fn(ctx, element, (size_t)n);
}

/* Without any file, or if it was ended, it wrote no whole page. */
static bool has_page(const struct dp_serve_history *h, int status)
{
    struct stat st;
    return WIFEXITED(status) && WEXITSTATUS(status) < 2 && !fstat(h->fd, &st) &&
           (size_t)st.st_size >= dp_view_page_before_bytes + dp_view_page_after_bytes;
}

int64_t dp_serve_history_wait_ns(struct dp_serve_history *h)
{
    int status;
    if (!h->viewer)
        return 0;
    pid_t pid = waitpid(h->viewer, &status, WNOHANG);
    if (pid == 0)
        return LOOK_NS;
    h->viewer = 0;
    if (pid < 0 || !has_page(h, status)) {
        close(h->fd);
        h->fd = -1;
    }
    return 0;
}

ssize_t dp_serve_history_read(const struct dp_serve_history *h, size_t at, void *buf, size_t n_bytes)
{
    if (h->fd >= 0) {
        ssize_t n = pread(h->fd, buf, n_bytes, (off_t)(dp_view_page_before_bytes + at));
        return n < 0 ? -errno : n;
    }
    if (at >= dp_view_page_after_bytes)
        return 0;
    if (n_bytes > dp_view_page_after_bytes - at)
        n_bytes = dp_view_page_after_bytes - at;
    memcpy(buf, dp_view_page_after + at, n_bytes);
    return (ssize_t)n_bytes;
}

void dp_serve_history_end(struct dp_serve_history *h)
{
    if (h->viewer) {
        kill(h->viewer, SIGKILL);
        waitpid(h->viewer, NULL, 0);
    }
    if (h->fd >= 0)
        close(h->fd);
}
