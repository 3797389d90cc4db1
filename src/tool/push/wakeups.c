/* SPDX-License-Identifier: MIT */
/*
 * tool/push/wakeups.c - inotify for files, a pidfd for a process, and signals through ppoll.
 *
 * A signal's handler sets a flag, which libcurl's progress callback reads about once a second. It also writes to an
 * eventfd, which ends a wait, so a signal between reading the flag and waiting is not missed.
 */
#include "tool/push/wakeups.h"

#include "base/atomic.h"
#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static _Atomic int n_stops, n_ignored, stop_fd; /* relaxed: one thread and its signal handlers */
static bool is_alone;                           /* no program that a terminal interrupts, too */

static void stop(int number)
{
    int saved = errno;
    uint64_t one = 1;
    dp_add_relaxed(&n_stops, number == SIGINT && is_alone ? 2 : 1);
    ssize_t n = write(dp_load_relaxed(&stop_fd), &one, sizeof one);
    (void)n; /* if the counter is full, the wait ends anyway */
    errno = saved;
}

bool dp_push_events_stopping(void)
{
    return dp_load_relaxed(&n_stops) > dp_load_relaxed(&n_ignored);
}

bool dp_push_events_must_end(void)
{
    return dp_load_relaxed(&n_stops) > 0;
}

int dp_push_events_open(struct dp_push_events *e, pid_t beside)
{
    struct sigaction action = {.sa_handler = stop};
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    dp_store_relaxed(&stop_fd, fd);
    is_alone = !beside;
    dp_store_relaxed(&n_ignored, 1);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    e->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    e->process = beside ? (int)syscall(SYS_pidfd_open, beside, 0) : -1;
    e->by_kill = e->process < 0 && errno == ENOSYS;
    char pid[24];
    snprintf(pid, sizeof pid, "%d", (int)beside);
    e->run_start = beside ? dp_process_began(beside, beside, NULL) : 0;
    e->has_news = true;
    return 0;
}

void dp_push_events_watch(struct dp_push_events *e, const char *dir)
{
    if (e->inotify >= 0)
        inotify_add_watch(e->inotify, dir, IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE | IN_ONLYDIR);
}

void dp_push_events_wait(struct dp_push_events *e, int64_t most_ns, bool new_files)
{
    char buffer[16384] __attribute__((aligned(8)));
    struct pollfd fds[3] = {{.fd = dp_load_relaxed(&stop_fd), .events = POLLIN}};
    struct timespec timeout = {most_ns / 1000000000, most_ns % 1000000000};
    nfds_t n = 1;
    if (e->inotify >= 0 && new_files)
        fds[n++] = (struct pollfd){.fd = e->inotify, .events = POLLIN};
    if (e->process >= 0)
        fds[n++] = (struct pollfd){.fd = e->process, .events = POLLIN};
    ppoll(fds, n, &timeout, NULL);
    for (nfds_t i = 1; i < n; i++)
        if (fds[i].fd == e->process && fds[i].revents) {
            close(e->process); /* it ended */
            e->process = -1;
        }
    if (!new_files || e->inotify < 0)
        return;
    while (read(e->inotify, buffer, sizeof buffer) > 0)
        e->has_news = true;
}

void dp_push_events_close(struct dp_push_events *e)
{
    if (e->inotify >= 0)
        close(e->inotify);
    if (e->process >= 0)
        close(e->process);
}

/* Whether a process has mapped the profiler. */
static bool is_profiled(const char *pid)
{
    char path[64], *line = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &room, file) > 0)
        found = strstr(line, "/libdeltaprof_preload.so") != NULL;
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* Whether a process has that variable in the environment that it was executed with. */
static bool has_variable(const char *pid, const char *variable)
{
    char path[64], *text = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/environ", pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&text, &room, 0, file) > 0)
        found = !strcmp(text, variable);
    free(text);
    if (file)
        fclose(file);
    return found;
}

bool dp_push_events_lives(struct dp_push_events *e, pid_t run)
{
    char variable[40];
    bool found = false;
    if (e->process >= 0 || (e->by_kill && !kill(run, 0)))
        return true;
    snprintf(variable, sizeof variable, "DELTAPROF_RUN=%d", (int)run);
    DIR *dir = opendir("/proc");
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && has_variable(entry->d_name, variable);
    if (dir)
        closedir(dir);
    return found;
}

bool dp_push_events_writes(const struct dp_push_events *e, const char *pid)
{
    pid_t id = (pid_t)atoi(pid);
    uint64_t start = dp_process_began(id, id, NULL);
    return start && start >= e->run_start && is_profiled(pid);
}
