/* SPDX-License-Identifier: MIT */
/*
 * base/process.h - the program's name, whether this is still the process that was noted at start, and whether a seccomp
 * filter may forbid system calls.
 *
 * A child of vfork or of a raw clone shares or copies the memory, but no fork handler ran in it: its getpid() is not
 * the noted pid. In such a child the profiler's exit paths and ticks do nothing. Context: any, async-signal-safe.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define DP_PROGRAM_TEXT 64

/* At start, and in an atfork child handler: notes getpid(). */
void dp_process_note(void);
pid_t dp_process_pid(void); /* as noted; 0 before */
bool dp_process_is_noted(void);

/*
 * Notes that a seccomp filter is about to be installed, for the life of the process and of children that it forks.
 * False: that was noted before. From then on even getpid() may be fatal.
 */
bool dp_process_note_seccomp(void);
bool dp_process_has_seccomp(void);

/*
 * The base name of the executed file (for a script: the script), made fit for a file name: bytes other than letters,
 * digits and + - . _ @ become `_`, and so does a leading dot.
 */
void dp_process_program(char program[DP_PROGRAM_TEXT]);
/* Makes any name fit for a file name in the same way. */
void dp_process_fit_name(char *out, size_t room, const char *name);

/* Whether that name, or that of the file behind it (a link's target, a script's interpreter), matches `exe`. */
bool dp_process_matches(const char *globs);

/*
 * Whether this process has one thread (1) or several (any larger number), raw clones included. 0: unknown, without
 * /proc. One or two system calls.
 */
int dp_process_threads(void);

/*
 * Opens /proc/self/FILE for reading, as the calling thread's: /proc/self is the main thread's, and shows no memory
 * once that thread has left by pthread_exit. -1: errno.
 */
int dp_process_open(const char *file);

/*
 * Gives the calling thread a separate, empty descriptor table with /dev/null as 0, 1 and 2, so that output of a
 * module's library goes into no other file. Returns 0; or -errno: it still shares the host's table. Uses system calls
 * directly, because the libc functions may be interposed.
 */
int dp_process_own_descriptors(void);
