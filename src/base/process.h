/* SPDX-License-Identifier: MIT */
/*
 * base/process.h - facts about the calling process: its program's name, its number of threads, whether it is the
 * process that was noted at start, whether a seccomp filter may forbid system calls.
 *
 * A child of vfork or of a raw clone shares or copies the memory, but no fork handler ran in it: its getpid() is not
 * the noted pid. In such a child the profiler's exit paths and ticks do nothing. Context: any, async-signal-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DP_PROGRAM_TEXT 64

/*
 * Places the functions that run in each forked child next to each other. The kernel maps pages of a library into a
 * child when they are first used. The fork handlers stand in all rooms, so a child that ends soon, or calls execve,
 * would take a page fault for each room.
 */
#define DP_IN_CHILD __attribute__((section(".text.in_child")))

/* Notes getpid(). To be called at start and in an atfork child handler. */
void dp_process_note(void);
pid_t dp_process_pid(void); /* the noted pid; 0: none yet */
bool dp_process_is_noted(void);

/*
 * Notes that a seccomp filter is about to be installed. The note holds for this process and for children that it
 * forks. Returns false if it was noted before. Under the filter even getpid() may be fatal.
 */
bool dp_process_note_seccomp(void);
bool dp_process_has_seccomp(void);

/*
 * Whether the calling thread has a filter that was installed since start, past the hooks: by a system call instruction
 * of the program's own. One system call; to be asked before many of them.
 */
void dp_process_note_unfiltered(void); /* at start */
bool dp_process_is_filtered(void);
/*
 * Whether there was a filter before the start, as in a container or a service of systemd. It may end the process for a
 * call that services do not make: one outside of systemd's group @system-service.
 */
bool dp_process_began_filtered(void);

/*
 * The base name of the executed file (for a script: the script), made fit for a file name: bytes other than letters,
 * digits and + - . _ @ become `_`, and so does a leading dot.
 */
void dp_process_program(char program[DP_PROGRAM_TEXT]);
/* Makes any name fit for a file name in the same way. */
void dp_process_fit_name(char *out, size_t room, const char *name);

/* Whether a glob matches that name, or the name of the file behind it (a link's target, a script's interpreter). */
bool dp_process_matches(const char *globs);

/*
 * Returns 1 if this process has one thread, a larger number if it has several (raw clones included), 0 if neither /proc
 * nor unshare can tell. One or two system calls.
 */
int dp_process_threads(void);

/*
 * Opens /proc/thread-self/FILE for reading (before Linux 3.17: /proc/self/FILE). /proc/self belongs to the main thread
 * and shows no memory after that thread has left by pthread_exit. Returns -1 with errno on failure.
 */
int dp_process_open(const char *file);

/* The inode of this process's pid namespace; 0: not known, and errno says why. */
uint64_t dp_process_pid_namespace(void);
/* The number that a process has in its own pid namespace; pid: not known. */
pid_t dp_process_inner_pid(pid_t pid);

/*
 * A number in /proc/PID/task/THREAD/stat, by the field's number in proc(5), 4 or more. 0: there is no such thread, or
 * it cannot be read. *state: field 3; may be NULL.
 */
uint64_t dp_process_stat(pid_t pid, pid_t thread, int field, char *state);
/*
 * When a thread of a process began, in clock ticks since boot: with the id, that identifies it. *state: its state, as
 * /proc has it (Z, X: ended); may be NULL. Returns 0 if there is no such thread, or it cannot be read.
 */
uint64_t dp_process_began(pid_t pid, pid_t thread, char *state);

/*
 * Gives the calling thread a separate, empty descriptor table with /dev/null as 0, 1 and 2, so that output of a
 * module's library cannot reach another file. Returns 0, or -errno if the thread still shares the host's table. Makes
 * the system calls directly, because the libc functions may be interposed.
 *
 * When any thread of a process closes a message queue, the kernel ends the process's mq_notify. So copies of queues
 * stay open, until the thread ends. has_queue: whether it would have one; then a thread that may end before the process
 * does better with the host's table.
 */
int dp_process_own_descriptors(void);
bool dp_process_has_queue(void);
