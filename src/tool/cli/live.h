/* SPDX-License-Identifier: MIT */
/* tool/cli/live.h - lets verbs read living processes, and delivers killed ones first. */
#pragma once

/*
 * For the words that a verb reads as PATH, after its options: puts the name of a temporary directory in the place of
 * each that is the pid of a profiled process, with its profiles; and delivers the killed processes whose files lie in a
 * directory among the words. Returns 0, or an exit status after one line on stderr.
 */
int dp_cli_live_begin(const char *verb, char **words, int n);
/* Delivers the killed processes whose files lie in a directory among the arguments. */
void dp_cli_live_deliver(int argc, char **argv);
/* Deletes the temporary directories. */
void dp_cli_live_end(void);
