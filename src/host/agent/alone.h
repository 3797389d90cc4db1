/* SPDX-License-Identifier: MIT */
/*
 * host/agent/alone.h - tells when only threads of the profiler are left: if main left by pthread_exit, the process ends
 * with the last of the program's other threads, and a thread of the profiler must not keep it alive.
 */
#pragma once

#include <stdbool.h>

/* A thread of the profiler that lives as long as the process calls the first at its begin and the other at its end. */
void dp_agent_alone_thread_begins(void);
void dp_agent_alone_thread_ends(void);

/*
 * To be called as the last step of such a thread. The kernel gives the process the status of the thread that ends last:
 * if main was the program's last, and left by the system call exit with a status, this thread does the same and does
 * not return.
 */
void dp_agent_alone_keep_status(void);

/* To be called before the main thread calls pthread_exit. */
void dp_agent_alone_main_exits(void);
bool dp_agent_alone_has_main_exited(void);

/*
 * Whether no thread of the program exists any more; without /proc, whether main has left. Opens no file. May be false
 * for a moment while a thread ends.
 */
bool dp_agent_alone_is(void);

/* In a forked child the thread that forked is the main one. Only stores. */
void dp_agent_alone_fork_child(void);
