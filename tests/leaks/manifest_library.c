/* SPDX-License-Identifier: MIT */
/* manifest_library.c - recursive descent over "name=value;" and "name={...}", a node for each entry. */
#include "manifest_library.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define OWN    __attribute__((noinline))

struct manifest {
    struct manifest *next, *children;
    char *name, *value;
};

static void *(*allocate_fn)(size_t) = malloc;
static void (*release_fn)(void *) = free;

EXPORT void manifest_set_allocator(void *(*allocate)(size_t n_bytes), void (*release)(void *block))
{
    allocate_fn = allocate;
    release_fn = release;
}

OWN static char *manifest_copy(const char *text, size_t n)
{
    char *copy = allocate_fn(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

OWN static struct manifest *manifest_node(const char *name, size_t n)
{
    struct manifest *node = allocate_fn(sizeof *node);
    if (!node)
        return NULL;
    *node = (struct manifest){.name = manifest_copy(name, n)};
    return node;
}

static struct manifest *parse_entries(const char **at)
{
    struct manifest *first = NULL, **end = &first;
    while (**at && **at != '}') {
        size_t n = strcspn(*at, "=");
        struct manifest *node = manifest_node(*at, n);
        if (!node)
            return first;
        *at += n + !!(*at)[n];
        if (**at == '{') {
            ++*at;
            node->children = parse_entries(at);
            *at += **at == '}';
        } else {
            n = strcspn(*at, ";}");
            node->value = manifest_copy(*at, n);
            *at += n;
        }
        *at += **at == ';';
        *end = node;
        end = &node->next;
    }
    return first;
}

EXPORT struct manifest *manifest_parse(const char *text)
{
    return parse_entries(&text);
}

EXPORT const char *manifest_get(const struct manifest *m, const char *name)
{
    while (m && strcmp(m->name, name))
        m = m->next;
    return m ? m->value : NULL;
}

EXPORT void manifest_free(struct manifest *m)
{
    while (m) {
        struct manifest *next = m->next;
        manifest_free(m->children);
        release_fn(m->name);
        release_fn(m->value);
        release_fn(m);
        m = next;
    }
}
