/* SPDX-License-Identifier: MIT */
/* tool/recover/file.h - writes one profile of a table as a file. */
#pragma once

#include "tool/recover/recover.h"

/*
 * Writes the bytes of a profile to a new file, with the stamp of its process (process 0: without): verbs then count it
 * and the files that the process wrote as those of one process. 0 or a negative errno: the file is not there.
 */
int dp_recover_write_file(int dir, const char *name, const struct dp_stamp *, const struct dp_recover_bytes *);
