/* SPDX-License-Identifier: MIT */
/* tool/query/progress.h - says on a terminal how far long work is: one line on stderr, which is removed at the end. */
#pragma once

#include <stddef.h>

/*
 * i of n files are read. Nothing is printed in the first second, and on a stderr that is not a terminal. With i == n
 * the line is removed.
 */
void dp_query_print_progress(const char *verb, size_t i, size_t n);
