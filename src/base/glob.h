/* SPDX-License-Identifier: MIT */
/*
 * base/glob.h - names by globs, as `exe` says which programs are profiled.
 */
#pragma once

#include <stdbool.h>

/* Whether the whole name matches one of the globs, "a|b*": `*` any bytes, `?` one byte. Pure. */
bool dp_glob_matches(const char *globs, const char *name);
