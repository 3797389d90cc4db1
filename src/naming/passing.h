/* SPDX-License-Identifier: MIT */
/* naming/passing.h - recognizes functions that only pass an allocation on: users want to see their caller. */
#pragma once

#include <stdbool.h>

/* Whether a function of that name, short or full, is one: operator new, std::vector's growth, xmalloc, zmalloc, ... */
bool dp_naming_is_passing(const char *name);
