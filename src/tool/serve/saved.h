/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/saved.h - keeps the cursors over a restart of the server, in the file `cursors` of its directory of
 * tables. Context: while no other thread uses the family.
 */
#pragma once

#include "tool/serve/family.h"

/*
 * Writes the file, before the server ends. 1; 0: there is no cursor, and no file; or a negative errno: no file. In the
 * hour after, processes that end are to leave their tables (dp_recover_keep_tables).
 */
int dp_serve_saved_write(struct dp_serve_family *, const char *directory);
/*
 * Reads the file, if there is one, and deletes it, before the first look at the directory. 0 or a negative errno: no
 * cursor goes on.
 */
int dp_serve_saved_read(struct dp_serve_family *, const char *directory);
