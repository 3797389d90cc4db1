/* SPDX-License-Identifier: MIT */
/* base/glob.h - matches names against globs, for `exe`, which selects the programs to profile. */
#pragma once

#include <stdbool.h>

/* Whether the whole name matches one of the globs, "a|b*": `*` any bytes, `?` one byte. Pure. */
bool dp_glob_matches(const char *globs, const char *name);
