/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory for the calls that come before the real functions are known: dlsym itself may want some.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, never given back; the filter says "perhaps" for it from now on. NULL: it is used up. Any thread. */
void *dp_arena_alloc(size_t alignment, size_t n_bytes);

bool dp_arena_is_unused(void);
bool dp_arena_owns(const void *ptr);
size_t dp_arena_size(const void *ptr); /* as it was asked for */
