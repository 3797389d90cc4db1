/* SPDX-License-Identifier: MIT */
/* tool/query/count.c - counts values by function (or line, file, library, label) over the merged rows, then sorts. */
#include "tool/query/count.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dp_query_node *node_named(struct dp_query_count *c, const char *name)
{
    uint32_t number = dp_strings_add(&c->names, name, strlen(name));
    while (number != DP_STRINGS_NONE && c->nodes.n <= number) {
        struct dp_query_node *node = dp_vec_push(&c->nodes);
        if (!node)
            return NULL;
        *node = (struct dp_query_node){.name = (uint32_t)c->nodes.n - 1};
        int64_t *sums = c->n_columns ? dp_vec_room(&c->sums, c->n_columns) : NULL;
        if (c->n_columns && !sums)
            return NULL;
        for (size_t i = 0; i < c->n_columns; i++)
            sums[i] = 0;
        c->sums.n += c->n_columns;
    }
    return number == DP_STRINGS_NONE ? NULL : &c->nodes.at[number];
}

/* The name under which a frame is counted. */
static void describe(const struct dp_query_count *c, const struct dp_query_naming_frame *frame, char *text,
                     size_t n_bytes)
{
    const struct dp_query_naming_frames *f = &c->view->frames;
    const char *name = dp_query_naming_frames_text(f, frame->name);
    const char *file = frame->file ? dp_query_naming_frames_text(f, frame->file) : "";
    const char *library = frame->library ? dp_query_naming_frames_text(f, frame->library) : "";
    if (c->by == DP_QUERY_BY_LINE && *file)
        snprintf(text, n_bytes, "%s %s:%lld", name, file, (long long)frame->line);
    else if (c->by == DP_QUERY_BY_FILE)
        snprintf(text, n_bytes, "%s%s%s", *file ? file : "[no file] ", *file ? "" : library, "");
    else if (c->by == DP_QUERY_BY_LIBRARY)
        snprintf(text, n_bytes, "%s", *library ? library : "[no library]");
    else
        snprintf(text, n_bytes, "%s", name);
}

static struct dp_query_node *node_of_frame(struct dp_query_count *c, uint32_t frame)
{
    const struct dp_query_naming_frames *f = &c->view->frames;
    if (c->of_frame.n <= frame) {
        size_t n_more = f->at.n - c->of_frame.n;
        uint32_t *fresh = dp_vec_room(&c->of_frame, n_more);
        if (!fresh)
            return NULL;
        memset(fresh, 0, n_more * sizeof *fresh);
        c->of_frame.n += n_more;
    }
    uint32_t *known = &c->of_frame.at[frame];
    if (!*known) {
        char text[16384];
        const struct dp_query_naming_frame *at = &f->at.at[frame];
        bool by_name = c->by == DP_QUERY_BY_FUNCTION;
        if (!by_name)
            describe(c, at, text, sizeof text);
        struct dp_query_node *node = node_named(c, by_name ? dp_query_naming_frames_text(f, at->name) : text);
        if (!node)
            return NULL;
        *known = node->name + 1;
    }
    return &c->nodes.at[*known - 1];
}

static int64_t column_value(const struct dp_query_count *c, uint32_t row, size_t i)
{
    const struct dp_model_merge *merge = &c->view->merge;
    return merge->values.at[row * merge->model.types.n + c->columns[i]];
}

static void count(struct dp_query_count *c, struct dp_query_node *node, uint32_t row, int64_t value, bool is_leaf)
{
    bool is_first = node->last_row != row + 1;
    if (is_leaf)
        dp_model_merge_sum(&node->flat, value);
    if (is_first)
        dp_model_merge_sum(&node->cum, value);
    for (size_t i = 0; i < c->n_columns && (c->by_cum ? is_first : is_leaf); i++)
        dp_model_merge_sum(&c->sums.at[node->name * c->n_columns + i], column_value(c, row, i));
    node->last_row = row + 1;
}

static int count_row(struct dp_query_count *c, uint32_t row, int64_t value)
{
    const struct dp_query *v = c->view;
    for (size_t i = 0; i < v->stack.n && c->by != DP_QUERY_BY_LABEL; i++) {
        struct dp_query_node *node = node_of_frame(c, v->stack.at[i]);
        if (!node)
            return -ENOMEM;
        count(c, node, row, value, i == 0);
    }
    if (c->by == DP_QUERY_BY_LABEL) {
        char number[32];
        const char *text = dp_query_label_value(&v->merge.model, row, c->key, number);
        struct dp_query_node *node = node_named(c, text ? text : "[no label]");
        if (!node)
            return -ENOMEM;
        count(c, node, row, value, true);
    }
    return 0;
}

void dp_query_count_choose(struct dp_query_count *c, const char *const *types, size_t n)
{
    const struct dp_model *m = &c->view->merge.model;
    for (size_t i = 0; i < n; i++)
        for (size_t type = 0; type < m->types.n && c->n_columns == i; type++)
            if (!strcmp(dp_model_text(m, m->types.at[type].type), types[i]))
                c->columns[c->n_columns++] = type;
}

int dp_query_count_rows(struct dp_query_count *c)
{
    struct dp_query *v = c->view;
    for (uint32_t row = 0; row < v->merge.model.rows.n; row++) {
        int64_t value = dp_query_value(v, row);
        bool counts = value;
        for (size_t i = 0; i < c->n_columns && !counts; i++)
            counts = column_value(c, row, i);
        if (!counts || !dp_query_has_labels(v, row))
            continue;
        dp_model_merge_sum(&c->total, value);
        dp_model_merge_sum(&c->weight, value > INT64_MIN ? llabs(value) : INT64_MAX);
        int err = dp_query_row(v, row);
        if (err == 0)
            continue;
        dp_model_merge_sum(&c->shown, value);
        c->n_rows += value != 0;
        if (err < 0 || count_row(c, row, value))
            return -ENOMEM;
    }
    return 0;
}

struct order {
    const struct dp_strings *names;
    bool by_cum;
};

/* Largest first; equal values in a fixed order. */
static int compare_nodes(const void *a, const void *b, void *ctx)
{
    const struct order *order = ctx;
    const struct dp_query_node *x = a, *y = b;
    double flat = fabs((double)y->flat) - fabs((double)x->flat), cum = fabs((double)y->cum) - fabs((double)x->cum);
    double first = order->by_cum ? cum : flat, second = order->by_cum ? flat : cum;
    if (first != 0)
        return first < 0 ? -1 : 1;
    if (second != 0)
        return second < 0 ? -1 : 1;
    return strcmp(dp_strings_at(order->names, x->name), dp_strings_at(order->names, y->name));
}

void dp_query_count_sort(struct dp_query_count *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->nodes.n; i++)
        if (c->nodes.at[i].cum || c->nodes.at[i].flat)
            c->nodes.at[n++] = c->nodes.at[i];
    c->nodes.n = n;
    struct order order = {&c->names, c->by_cum};
    if (n)
        qsort_r(c->nodes.at, n, sizeof *c->nodes.at, compare_nodes, &order);
}

void dp_query_count_fini(struct dp_query_count *c)
{
    dp_strings_fini(&c->names);
    dp_vec_fini(&c->nodes);
    dp_vec_fini(&c->of_frame);
    dp_vec_fini(&c->sums);
}
