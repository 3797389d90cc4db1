/* SPDX-License-Identifier: MIT */
/* manifest_library.h - a small library that parses manifests. It allocates through functions that its user sets. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct manifest;

void manifest_set_allocator(void *(*allocate)(size_t n_bytes), void (*release)(void *block));

/* Parses text such as "a=b;c={d=e;f=g;}". The caller frees the result with manifest_free. NULL: no memory. */
struct manifest *manifest_parse(const char *text);

/* The value of the entry `name` at the top, or NULL. */
const char *manifest_get(const struct manifest *m, const char *name);

void manifest_free(struct manifest *m);

#ifdef __cplusplus
}
#endif
