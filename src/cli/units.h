/* SPDX-License-Identifier: MIT */
/* cli/units.h - values and names as people read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "1.50MB", "12.30ms", "17": the largest unit that leaves at least 1, and no unit for one that is not known. */
void dp_cli_unit(char *to, size_t n_bytes, int64_t value, const char *unit);

/*
 * Names come from files, and a terminal obeys control characters, those of C1 (U+0080 to U+009F) too: they and what is
 * not UTF-8 become '?'.
 */
void dp_cli_clean(char *text);
/* Writes it cleaned, with its middle left out if it is wider than n_columns; n_columns 0: whole. */
void dp_cli_print_name(FILE *to, const char *name, size_t n_columns);
/* Columns of the terminal that standard output is; 0: it is none. Before names are printed into them. */
size_t dp_cli_columns(void);
