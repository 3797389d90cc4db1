/* SPDX-License-Identifier: MIT */
/*
 * cli/count.c - two passes over the merged rows: first what is counted of them, then who has most.
 *
 * Frames without lines are named by the object's file if it is there unchanged, else by object and place in it, so that
 * profiles nobody symbolised are of use as well.
 */
#include "cli/count.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dp_cli_node *node_named(struct dp_cli_count *c, const char *name, size_t n_bytes)
{
    uint32_t number = dp_strings_add(&c->names, name, n_bytes);
    while (number != DP_STRINGS_NONE && c->nodes.n <= number) {
        struct dp_cli_node *node = dp_vec_push(&c->nodes);
        if (!node)
            return NULL;
        *node = (struct dp_cli_node){.name = (uint32_t)c->nodes.n - 1};
    }
    return number == DP_STRINGS_NONE ? NULL : &c->nodes.at[number];
}

static struct dp_cli_node *node_of_place(struct dp_cli_count *c, uint32_t number)
{
    const struct dp_model *m = &c->merge->model;
    const struct dp_model_location *location = &m->locations.at[number];
    uint32_t *known = &c->of_location.at[number];
    if (!*known) {
        char text[512];
        const char *name = dp_cli_names_find(&c->places, m, number);
        const char *file = location->mapping ? dp_model_text(m, m->mappings.at[location->mapping - 1].file) : "";
        const char *base = strrchr(file, '/');
        base = base && base[1] ? base + 1 : file;
        int n = location->object
                    ? snprintf(text, sizeof text, "%.400s+0x%llx", base, (unsigned long long)location->place)
                    : snprintf(text, sizeof text, "0x%llx", (unsigned long long)location->address);
        struct dp_cli_node *node = node_named(c, name ? name : text, name ? strlen(name) : (size_t)n);
        if (!node)
            return NULL;
        *known = node->name + 1;
    }
    return &c->nodes.at[*known - 1];
}

static struct dp_cli_node *node_of_line(struct dp_cli_count *c, const struct dp_model_line *line)
{
    const struct dp_model *m = &c->merge->model;
    if (!line->function)
        return node_named(c, "[no name]", 9);
    uint32_t *known = &c->of_function.at[line->function - 1];
    if (!*known) {
        const struct dp_model_function *f = &m->functions.at[line->function - 1];
        uint32_t name = f->name ? f->name : f->system_name;
        struct dp_cli_node *node = name ? node_named(c, dp_model_text(m, name), dp_strings_size(&m->strings, name))
                                        : node_named(c, "[no name]", 9);
        if (!node)
            return NULL;
        *known = node->name + 1;
    }
    return &c->nodes.at[*known - 1];
}

static void count(struct dp_cli_node *node, uint32_t row, int64_t value, int is_leaf)
{
    if (is_leaf)
        dp_merge_sum(&node->flat, value);
    if (node->last_row != row + 1)
        dp_merge_sum(&node->cum, value);
    node->last_row = row + 1;
}

static int count_row(struct dp_cli_count *c, uint32_t row, int64_t value)
{
    const struct dp_model *m = &c->merge->model;
    const uint32_t *stack = dp_model_stack(m, row);
    uint32_t depth = dp_model_depth(m, row);
    int is_leaf = 1;
    for (uint32_t i = 0; i < depth; i++) {
        const struct dp_model_location *location = &m->locations.at[stack[i]];
        if (c->seen.at[stack[i]] == row + 1)
            continue;
        c->seen.at[stack[i]] = row + 1;
        for (uint32_t j = 0; j < location->n_lines || j == 0; j++) {
            struct dp_cli_node *node = location->n_lines ? node_of_line(c, &m->lines.at[location->first_line + j])
                                                         : node_of_place(c, stack[i]);
            if (!node)
                return -1;
            count(node, row, value, is_leaf);
            is_leaf = 0;
        }
    }
    struct dp_cli_node *none = depth ? NULL : node_named(c, "[no stack]", 10);
    if (none)
        count(none, row, value, 1);
    return depth || none ? 0 : -1;
}

/* Whether one of the row's labels is KEY=VALUE; a number matches its digits. */
static int has_label(const struct dp_model *m, uint32_t row, const char *wanted)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        char number[32];
        const char *value = number, *key = dp_model_text(m, label->key);
        snprintf(number, sizeof number, "%lld", (long long)label->num);
        if (label->str)
            value = dp_model_text(m, label->str);
        size_t n_key = strlen(key); /* there may be a '=' in it */
        if (!strncmp(key, wanted, n_key) && wanted[n_key] == '=' && !strcmp(value, wanted + n_key + 1))
            return 1;
    }
    return 0;
}

int dp_cli_count_rows(struct dp_cli_count *c)
{
    const struct dp_model *m = &c->merge->model;
    if (!dp_vec_room(&c->of_location, m->locations.n + 1) || !dp_vec_room(&c->of_function, m->functions.n + 1) ||
        !dp_vec_room(&c->seen, m->locations.n + 1))
        return -ENOMEM;
    for (uint32_t row = 0; row < m->rows.n; row++) {
        int64_t value = c->merge->values.at[row * m->types.n + c->type];
        int wanted = value != 0;
        for (size_t i = 0; i < c->n_labels && wanted; i++)
            wanted = has_label(m, row, c->labels[i]);
        if (!wanted)
            continue;
        dp_merge_sum(&c->total, value);
        dp_merge_sum(&c->weight, value > INT64_MIN ? llabs(value) : INT64_MAX);
        if (count_row(c, row, value))
            return -ENOMEM;
    }
    return 0;
}

/* What has most first; the same order each time. */
static int compare_nodes(const void *a, const void *b, void *names)
{
    const struct dp_cli_node *x = a, *y = b;
    double flat = fabs((double)y->flat) - fabs((double)x->flat), cum = fabs((double)y->cum) - fabs((double)x->cum);
    if (flat != 0)
        return flat < 0 ? -1 : 1;
    if (cum != 0)
        return cum < 0 ? -1 : 1;
    return strcmp(dp_strings_at(names, x->name), dp_strings_at(names, y->name));
}

void dp_cli_count_sort(struct dp_cli_count *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i].cum || c->nodes.at[i].flat)
            c->nodes.at[n++] = c->nodes.at[i];
    c->nodes.n = n;
    if (n)
        qsort_r(c->nodes.at, n, sizeof *c->nodes.at, compare_nodes, &c->names);
}

void dp_cli_count_fini(struct dp_cli_count *c)
{
    dp_strings_fini(&c->names);
    dp_cli_names_fini(&c->places);
    dp_vec_fini(&c->nodes);
    dp_vec_fini(&c->of_location);
    dp_vec_fini(&c->of_function);
    dp_vec_fini(&c->seen);
}
