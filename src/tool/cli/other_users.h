/* SPDX-License-Identifier: MIT */
/* tool/cli/other_users.h - the tables of processes that run as other users, for root. */
#pragma once

#include "tool/summary/sentences.h"

#include <sys/types.h>

/* For root: calls fn for the directory of tables of each other user, in a child process that is that user's. */
typedef void (*dp_cli_other_users_fn)(const char *directory, void *ctx);
void dp_cli_other_users_each(dp_cli_other_users_fn fn, void *ctx);

/* Says which profiled processes cannot write to these directories, and so are missing in what they have. */
void dp_cli_other_users_say(struct dp_summary_sentences *, char **paths, int n);
/* The same for a process whose profiles are asked for. */
void dp_cli_other_users_say_of(struct dp_summary_sentences *, pid_t pid);

/* Delivers to the directory what processes that have ended left in their tables, of users who may write there now. */
void dp_cli_other_users_deliver(const char *out);
