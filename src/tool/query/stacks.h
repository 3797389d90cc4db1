/* SPDX-License-Identifier: MIT */
/*
 * tool/query/stacks.h - identifies stacks by the names of their frames: so they are the same in another process and in
 * another build of the program.
 */
#pragma once

#include "pprof/strings.h"
#include "tool/query/query.h"

/* Zero is an empty set. */
struct dp_query_stacks {
    struct dp_strings keys; /* names joined by newlines, the leaf first */
    DP_VEC(char) key;
};

/* The number of the stack v->stack[from..]; DP_STRINGS_NONE: no memory. Numbers are dense. */
uint32_t dp_query_stacks_add(struct dp_query_stacks *, const struct dp_query *v, size_t from);

/*
 * The names of a stack, one after the other: *at is NULL at first. Fills name, cut to n_bytes. False: there are no
 * more.
 */
bool dp_query_stacks_next(const struct dp_query_stacks *, uint32_t stack, const char **at, char *name, size_t n_bytes);

void dp_query_stacks_fini(struct dp_query_stacks *);
