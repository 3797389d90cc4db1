/* SPDX-License-Identifier: MIT */
/* tool/push/wakeups.h - waits for new files, the end of a process, or a signal that asks to end. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct dp_push_events {
    int inotify, process;         /* descriptors; -1: none */
    unsigned long long run_start; /* when the process of `run` began, in clock ticks since the boot */
    bool by_kill;                 /* this kernel has no pidfd */
    bool has_news;                /* a directory may have changed */
};

/* beside: the process of `deltaprof run`; 0: none. Also sets up SIGTERM and SIGINT. 0 or a negative errno. */
int dp_push_events_open(struct dp_push_events *, pid_t beside);
/* Watches a directory; without inotify, scans find its files. */
void dp_push_events_watch(struct dp_push_events *, const char *dir);
/* Waits until something happens, but not longer than that. With new_files false, new files do not end the wait. */
void dp_push_events_wait(struct dp_push_events *, int64_t most_ns, bool new_files);
void dp_push_events_close(struct dp_push_events *);

/* Whether SIGTERM came, or SIGINT beside a program: what is left may be sent. */
bool dp_push_events_must_end(void);
/* Whether it came twice, or SIGINT came otherwise: nothing more is sent. */
bool dp_push_events_stopping(void);

/* Whether a process of the `deltaprof run` with that id still lives: itself, or one with DELTAPROF_RUN=ID. */
bool dp_push_events_lives(struct dp_push_events *, pid_t run);
/*
 * Whether the process that wrote a file of the directory is profiled, and younger than the run. Servers that set their
 * process title overwrite their environment, so the variable alone does not find them.
 */
bool dp_push_events_writes(const struct dp_push_events *, const char *pid);
