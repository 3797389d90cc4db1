/* SPDX-License-Identifier: MIT */
/* modules/session.h - shared by the symbolize and lines modules: a session of opened files, and demangling. */
#pragma once

#include "base/symbolize.h"
#include "modules/elffile.h"

/* Finds the lines at pc; its strings are valid until the next call. */
typedef int (*dp_session_lookup_fn)(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines, int max);

/* close_file frees file->lines; it may be NULL. Returns NULL if there is no memory. */
void *dp_session_open(dp_session_lookup_fn lookup, void (*close_file)(struct elffile *));

/* Functions for struct dp_symbolize_ops. */
void dp_session_close(void *session);
int dp_session_add(void *session, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias);
int dp_session_lookup(void *session, int handle, uintptr_t pc, struct dp_symbol_line *lines, int max);

int dp_session_variable(void *session, int handle, uintptr_t address, struct dp_symbol_line *line);

/* The file of a handle. */
struct elffile *dp_session_file(void *session, int handle);

/* Finds the one line that the symbol tables give. Returns 1; 0: not known. */
int dp_session_function(struct elffile *file, uintptr_t pc, struct dp_symbol_line *lines);
