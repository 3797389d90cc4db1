/* SPDX-License-Identifier: MIT */
/* binary/search.h - finds a text in tens of megabytes, faster than memmem: a program waits for it to start. */
#pragma once

#include <stddef.h>

/*
 * The first place of a text of n_text bytes, or NULL. rare: a place in the text, below n_text - 1, where two bytes
 * stand that are seldom together elsewhere.
 */
const void *dp_binary_search(const void *bytes, size_t n_bytes, const void *text, size_t n_text, size_t rare);
