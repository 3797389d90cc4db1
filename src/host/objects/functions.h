/* SPDX-License-Identifier: MIT */
/*
 * host/objects/functions.h - the functions that runtimes name: function, file and first line, copied when first seen.
 *
 * Append-only and bounded. A function's id never changes its meaning, so a frame of a runtime is a function id and a
 * line in one word. Context: hook.
 */
#pragma once

#include <deltaprof/frames.h>

/* Longer texts are cut, at the beginning of a UTF-8 character. */
enum { DP_FUNCTION_NAME_MAX = 255, DP_FUNCTION_FILE_MAX = 511 };

/* budget_bytes of dp_mem. Without it, or after -ENOMEM, every function is unknown. Context: init. */
int dp_functions_init(size_t budget_bytes);

/* Copies the row of a function to where other processes can read it; for a frame that refers to it. */
void dp_function_publish(uint32_t id);

/* Takes n units of rows that were copied from another process to the shared array. False: too many. */
bool dp_functions_adopt(uint32_t n);
/* Whether an id among those is one of a complete row. */
bool dp_function_is_valid(uint32_t id);

/* The texts of an id that deltaprof_function_find gave; they end with a NUL and stay. name "": unknown id. */
struct dp_function {
    const char *name, *file; /* file "": not known */
    uint32_t first_line;     /* 0: not known */
};
struct dp_function dp_function_get(uint32_t id);

/* A frame's value and back. */
static inline uint64_t dp_function_frame(uint32_t id, uint32_t line)
{
    return (uint64_t)id << 32 | line;
}
