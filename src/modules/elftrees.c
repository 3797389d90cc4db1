/* SPDX-License-Identifier: MIT */
/*
 * modules/elftrees.c - what the static libelf of elfutils 0.192 refers to and does not bring: its trees of tsearch.
 *
 * Compiled only where that is so (Debian 13). A tree is an Elf handle's own, and a handle is one thread's at a time, so
 * the lock that stands behind the root is left alone. Weak: a libelf that has them is preferred.
 * Source: elfutils 0.192, lib/eu-search.h; https://sourceware.org/bugzilla/show_bug.cgi?id=32293
 */
#include <search.h>
#include <stddef.h>

#define WEAK __attribute__((weak))

struct tree {
    void *root;
};

void eu_search_tree_init(struct tree *tree);
void eu_search_tree_fini(struct tree *tree, void (*free_node)(void *));
void *eu_tsearch(const void *key, struct tree *tree, int (*compare)(const void *, const void *));
void *eu_tfind(const void *key, struct tree *tree, int (*compare)(const void *, const void *));
void *eu_tdelete(const void *key, struct tree *tree, int (*compare)(const void *, const void *));

WEAK void eu_search_tree_init(struct tree *tree)
{
    tree->root = NULL;
}

WEAK void eu_search_tree_fini(struct tree *tree, void (*free_node)(void *))
{
    tdestroy(tree->root, free_node);
    tree->root = NULL;
}

WEAK void *eu_tsearch(const void *key, struct tree *tree, int (*compare)(const void *, const void *))
{
    return tsearch(key, &tree->root, compare);
}

WEAK void *eu_tfind(const void *key, struct tree *tree, int (*compare)(const void *, const void *))
{
    return tfind(key, &tree->root, compare);
}

WEAK void *eu_tdelete(const void *key, struct tree *tree, int (*compare)(const void *, const void *))
{
    return tdelete(key, &tree->root, compare);
}
