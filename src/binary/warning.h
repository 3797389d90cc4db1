/* SPDX-License-Identifier: MIT */
/* binary/warning.h - says in a line what of a program will not be seen, and what shows it. */
#pragma once

#include "binary/binary.h"

#include <stddef.h>

/* Writes the line about the memory of the program at path. inside: its key. False: all will be seen. */
bool dp_binary_warn(const struct dp_binary *binary, const char *path, bool inside, char *line, size_t n_line);
/* The same about waits. */
bool dp_binary_warn_of_waits(const struct dp_binary *binary, const char *path, char *line, size_t n_line);
