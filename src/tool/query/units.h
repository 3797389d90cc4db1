/* SPDX-License-Identifier: MIT */
/* tool/query/units.h - formats values and names for people. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* "1.50MB", "12.30ms", "17": the largest unit that leaves at least 1, and no unit for one that is not known. */
void dp_query_print_unit(char *to, size_t n_bytes, int64_t value, const char *unit);

/*
 * Replaces by '?' control characters, which a terminal would obey (also U+0080 to U+009F), and bytes that are not
 * UTF-8: names come from untrusted files.
 */
void dp_query_print_clean(char *text);
/* Writes the cleaned name; if it is wider than n_columns, its middle is left out. n_columns 0: writes it whole. */
void dp_query_print_name(FILE *to, const char *name, size_t n_columns);
/* Writes the cleaned argument of a command for the user to copy, in quotes if a shell needs them, and a newline. */
void dp_query_print_argument(const char *argument);
/* The same for several, on one line. */
void dp_query_print_arguments(char *const *arguments, size_t n);
/* The word that the user wrote where `path` stands now, which commands and messages show; both are kept. */
void dp_query_print_replaced(const char *path, const char *word);
const char *dp_query_print_word_of(const char *argument);
/* How wide a name may be on a line of n_columns behind n_used others: at least a little. 0, any, if n_columns is 0. */
size_t dp_query_print_room(size_t n_columns, size_t n_used);
/* The width of the terminal on standard output; 0: it is not a terminal. To be called before names are printed. */
size_t dp_query_print_columns(void);
