/* SPDX-License-Identifier: MIT */
/* tool/query/json.h - one JSON object on standard output, for scripts. */
#pragma once

#include <stdint.h>

/* Writes text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void dp_query_print_json_string(const char *text);

/* Writes "key": and the value; separator is what stands before it: "{", "," or "". */
void dp_query_print_json_text(const char *separator, const char *key, const char *text);
void dp_query_print_json_number(const char *separator, const char *key, int64_t value);
void dp_query_print_json_fraction(const char *separator, const char *key, double value);
