/* SPDX-License-Identifier: MIT */
/*
 * tool/query/calltree.h - stacks as a tree: from the root of the stacks down to the called functions, or from a
 * function up to its callers.
 */
#pragma once

#include "pprof/index.h"
#include "tool/query/query.h"

struct dp_query_calltree_node {
    uint32_t name;        /* of the view's frames' strings */
    uint32_t parent;      /* number of the parent; 0: the root, which is its own parent */
    uint32_t child, next; /* the first child and the next sibling; 0: none */
    int64_t cum, flat;
};

/* Zero is an empty tree. */
struct dp_query_calltree {
    DP_VEC(struct dp_query_calltree_node) nodes; /* 0 is the root */
    struct dp_index index;                       /* by parent and name */
    int64_t total, weight;                       /* of all rows of the type, and of their absolute values */
    size_t n_rows;                               /* that were added */
};

/* Adds a path of names that begins below the root. 0 or -ENOMEM. */
int dp_query_calltree_add(struct dp_query_calltree *, const uint32_t *names, size_t n, int64_t value);
/* Sorts children, the largest first. 0 or -ENOMEM. */
int dp_query_calltree_sort(struct dp_query_calltree *);
void dp_query_calltree_fini(struct dp_query_calltree *);
