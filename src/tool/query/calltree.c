/* SPDX-License-Identifier: MIT */
/*
 * tool/query/calltree.c - builds a call tree, with one node per path. Children are found by a hash of parent and name,
 * and sorted once at the end.
 *
 * No function here is recursive: a stack in a profile may be arbitrarily deep.
 */
#include "tool/query/calltree.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t find_child(struct dp_query_calltree *t, uint32_t parent, uint32_t name)
{
    uint64_t hash = dp_index_hash(dp_index_hash(dp_index_seed(), parent), name);
    struct dp_index_probe probe = dp_index_probe(&t->index, hash);
    uint32_t id;
    while ((id = dp_index_candidate(&t->index, &probe)) != DP_INDEX_NONE)
        if (t->nodes.at[id + 1].parent == parent && t->nodes.at[id + 1].name == name)
            return id + 1;
    struct dp_query_calltree_node *node = dp_vec_push(&t->nodes);
    id = node ? dp_index_add(&t->index, &probe) : DP_INDEX_NONE;
    if (id == DP_INDEX_NONE)
        return 0;
    *node = (struct dp_query_calltree_node){.name = name, .parent = parent, .next = t->nodes.at[parent].child};
    t->nodes.at[parent].child = id + 1;
    return id + 1;
}

int dp_query_calltree_add(struct dp_query_calltree *t, const uint32_t *names, size_t n, int64_t value)
{
    uint32_t at = 0;
    if (!dp_vec_room(&t->nodes, 1))
        return -ENOMEM;
    if (!t->nodes.n)
        t->nodes.at[t->nodes.n++] = (struct dp_query_calltree_node){.name = 0};
    t->n_rows++;
    dp_model_merge_sum(&t->nodes.at[0].cum, value);
    for (size_t i = 0; i < n; i++) {
        at = find_child(t, at, names[i]);
        if (!at)
            return -ENOMEM;
        dp_model_merge_sum(&t->nodes.at[at].cum, value);
    }
    dp_model_merge_sum(&t->nodes.at[at].flat, value);
    return 0;
}

static int by_size(const void *a, const void *b, void *ctx)
{
    const struct dp_query_calltree_node *nodes = ctx, *x = &nodes[*(const uint32_t *)a],
                                        *y = &nodes[*(const uint32_t *)b];
    uint64_t left = x->cum < 0 ? -(uint64_t)x->cum : (uint64_t)x->cum;
    uint64_t right = y->cum < 0 ? -(uint64_t)y->cum : (uint64_t)y->cum;
    if (left != right)
        return left > right ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

int dp_query_calltree_sort(struct dp_query_calltree *t)
{
    DP_VEC(uint32_t) children = {0};
    int err = 0;
    for (size_t i = 0; i < t->nodes.n && !err; i++) {
        dp_vec_clear(&children);
        for (uint32_t child = t->nodes.at[i].child; child && !err; child = t->nodes.at[child].next) {
            uint32_t *to = dp_vec_push(&children);
            if (to)
                *to = child;
            else
                err = -ENOMEM;
        }
        if (err || children.n < 2)
            continue;
        qsort_r(children.at, children.n, sizeof *children.at, by_size, t->nodes.at);
        t->nodes.at[i].child = children.at[0];
        for (size_t j = 0; j < children.n; j++)
            t->nodes.at[children.at[j]].next = j + 1 < children.n ? children.at[j + 1] : 0;
    }
    dp_vec_fini(&children);
    return err;
}

void dp_query_calltree_fini(struct dp_query_calltree *t)
{
    dp_vec_fini(&t->nodes);
    dp_index_fini(&t->index);
}
