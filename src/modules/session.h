/* SPDX-License-Identifier: MIT */
/*
 * modules/session.h - what the symbolize and lines modules share: a session of opened files, and names for people.
 */
#pragma once

#include "base/symbolize.h"
#include "modules/elffile.h"

/* Lines at pc by whatever the module has; strings live as long as the file. */
typedef int (*dp_session_lookup_fn)(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines, int max);

/* close_file gives back what the module keeps in file->lines; may be NULL. NULL: no memory. */
void *dp_session_open(dp_session_lookup_fn lookup, void (*close_file)(struct elffile *));

/* As struct dp_symbolize_ops wants them. */
void dp_session_close(void *session);
int dp_session_add(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias);
int dp_session_lookup(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max);

/* The one line that the symbol tables give. 1; 0: not known. */
int dp_session_function(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines);
