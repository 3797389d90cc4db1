/* SPDX-License-Identifier: MIT */
/*
 * arena.h - memory for the calls that come before the real functions are known: dlsym itself may want some.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, never given back. NULL: it is used up. alignment is a power of two. Any thread. */
void *dp_arena_alloc(size_t alignment, size_t n_bytes);

bool dp_arena_owns(const void *ptr);
size_t dp_arena_size(const void *ptr); /* as it was asked for */

/* Has the filter say "perhaps" for every block handed out so far; does nothing when there is none. Context: init. */
void dp_arena_watch(void);
