/* SPDX-License-Identifier: MIT */
/* tool/cli/live.h - lets verbs read living processes, and delivers killed ones first. */
#pragma once

#include <sys/types.h>

/*
 * Prepares the words that a verb reads as PATH, after its options. A word can be the pid of a profiled process: writes
 * the process's profiles to a temporary directory, and replaces the word by the directory's name. A word can be a
 * directory: writes the last profiles of killed processes to it, if their files are there. Returns 0, or an exit status
 * after one line on stderr.
 */
int dp_cli_live_begin(const char *verb, char **words, int n);
/* The same for one word, the number of a process. 1, without a line: it has no tables. A negative exit status: failed.
 */
int dp_cli_live_replace(const char *verb, char **word, pid_t pid);
/* Writes the last profiles of killed processes to those of the arguments that are the directories of their files. */
void dp_cli_live_deliver(int argc, char **argv);
/* Deletes the temporary directories. */
void dp_cli_live_end(void);
