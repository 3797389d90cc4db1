/* SPDX-License-Identifier: MIT */
/* profile/directory.h - the name of the directory in which a process writes its profiles. */
#pragma once

#include <stddef.h>

/* Expands %e %p %h %% of out, the value of the key, into dir. 0, or -ENAMETOOLONG. */
int dp_profile_directory_expand(const char *out, const char *program, int pid, char *dir, size_t n_bytes);
