/* SPDX-License-Identifier: MIT */
/* tool/recover/living.h - whether a process lives, also after its main thread has left by pthread_exit. */
#pragma once

#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * When the process began, in clock ticks since boot; 0: there is none, it has ended, or /proc does not show it.
 * thread, if not NULL: one that lives. After pthread_exit /proc/PID shows neither memory nor root, and the main thread
 * as ended, but /proc/PID/task has the others.
 */
uint64_t dp_recover_living(pid_t pid, pid_t *thread);

/* The user and group of a process. False: it is not there. */
bool dp_recover_living_user(pid_t pid, uid_t *user, gid_t *group);
/* Of root: from now on this process is that user's. 0 or -1. */
int dp_recover_become_user(uid_t user, gid_t group);
