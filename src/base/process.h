/* SPDX-License-Identifier: MIT */
/*
 * base/process.h - who this process is: the program's name, and whether it is still the process that was noted.
 *
 * A child of vfork or a raw clone shares or copies our memory without our fork handler having run: its getpid() is not
 * the noted pid, and every exit path and tick of ours then does nothing. Context: any, async-signal-safe.
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
 * The base name of the file that was executed (for a script: the script), as far as it is fit for a file name: other
 * bytes than letters, digits and + - . _ @ become `_`, and so does a dot in front.
 */
void dp_process_program(char program[DP_PROGRAM_TEXT]);
/* Makes any name fit in the same way. */
void dp_process_fit_name(char *out, size_t room, const char *name);

/* Whether that name, or that of the file behind it (a link's target, a script's interpreter), matches `exe`. */
bool dp_process_matches(const char *globs);

/*
 * How many threads this process has, those made by raw clone included: 1, or any larger number for several. 0: unknown,
 * without /proc. One system call, or two.
 */
int dp_process_threads(void);

/*
 * Gives the calling thread an empty descriptor table of its own, with /dev/null as 0, 1 and 2: what a module's library
 * prints lands in no file of ours. 0; or -errno, and it shares the host's. By system calls: the libc functions may be
 * the interposer's.
 */
int dp_process_own_descriptors(void);
