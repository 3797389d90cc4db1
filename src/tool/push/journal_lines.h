/* SPDX-License-Identifier: MIT */
/* tool/push/journal_lines.h - shared by the files of the journal: writes a line, and applies lines to the state. */
#pragma once

#include "tool/push/journal.h"

/* Appends one line, whole or not at all. 0 or a negative errno. */
int dp_push_journal_line(struct dp_push_journal *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Changes the state as the line says; 0 or -ENOMEM. */
int dp_push_journal_add_file(struct dp_push_journal *, unsigned long long id, const char *key);
void dp_push_journal_start_unit(struct dp_push_journal *, unsigned long long id);
void dp_push_journal_end_part(struct dp_push_journal *, unsigned part, enum dp_push_outcome);
int dp_push_journal_end_unit(struct dp_push_journal *, enum dp_push_outcome);
int dp_push_journal_settle(struct dp_push_journal *, const char *key);
int dp_push_journal_settle_gone(struct dp_push_journal *, const char *key);
int dp_push_journal_put_aside(struct dp_push_journal *, const struct dp_push_aside *how); /* the unit under way */
void dp_push_journal_bring_back(struct dp_push_journal *, unsigned long long id);         /* the opposite */
/* Drops the unit of that file, if no part of it was settled. */
void dp_push_journal_drop_aside(struct dp_push_journal *, const char *key);
int dp_push_journal_write_aside(struct dp_push_journal *, const struct dp_push_aside *how);
int dp_push_journal_note_seq(struct dp_push_journal *, uint64_t stamp, unsigned long long seq);
