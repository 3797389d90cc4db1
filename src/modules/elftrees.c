/* SPDX-License-Identifier: MIT */
/*
 * modules/elftrees.c - functions on search trees that the static libelf of elfutils 0.192 needs and does not contain.
 *
 * Compiled only where they are missing (Debian 13). A tree belongs to one Elf handle, and a handle is used by one
 * thread at a time, so the lock behind the root is not used. Weak: a libelf that has them is preferred. Source:
 * elfutils 0.192, lib/eu-search.h; https://sourceware.org/bugzilla/show_bug.cgi?id=32293
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
