/* SPDX-License-Identifier: MIT */
/* cli/passing.h - functions that only pass an allocation on: the caller is whom a user looks for. */
#pragma once

#include <stdbool.h>

/* Whether a function of that name, short or full, is one: operator new, std::vector's growth, xmalloc, zmalloc, ... */
bool dp_cli_is_passing(const char *name);
