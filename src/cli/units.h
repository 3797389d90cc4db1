/* SPDX-License-Identifier: MIT */
/* cli/units.h - values and names as people read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "1.50MB", "12.30ms", "17": the largest unit that leaves at least 1, and no unit for one that is not known. */
void dp_cli_unit(char *to, size_t n_bytes, int64_t value, const char *unit);

/* Without control characters, which a name from a file could send to the terminal. */
void dp_cli_print_name(FILE *to, const char *name);
