/* SPDX-License-Identifier: MIT */
/*
 * host/report/columns.c - chooses sample types by the key `types`: of a kind with levels one half, its flows or its
 * levels. The key has no effect on kinds without levels.
 */
#include "host/report/columns.h"

#include <errno.h>
#include <string.h>

static void add(const struct dp_kind *kind, size_t first, size_t n, struct dp_columns *columns)
{
    for (size_t i = first; i < first + n; i++)
        columns->types[columns->n_types++] = (struct dp_encode_value_type){kind->types[i].name, kind->types[i].unit};
}

int dp_columns_choose(unsigned kind, enum dp_types types, struct dp_columns *columns)
{
    *columns = (struct dp_columns){.n_types = 0};
    if (kind >= DP_KIND_DELTAS)
        return -EINVAL;
    const struct dp_kind *k = &dp_kind_table[kind];
    size_t n_flows = 0;
    while (n_flows < k->n_values && k->types[n_flows].nature == DP_KIND_FLOW)
        n_flows++;
    columns->levels_only = n_flows < k->n_values && types == DP_TYPES_INUSE;
    columns->first = columns->levels_only ? n_flows : 0;
    add(k, columns->first, types == DP_TYPES_ALLOC ? n_flows : k->n_values - columns->first, columns);
    return 0;
}

bool dp_columns_add_group(unsigned kind, const char *first, size_t n, struct dp_columns *columns)
{
    const struct dp_kind *k = &dp_kind_table[kind];
    size_t i = k->n_values;
    while (i < k->n_types && strcmp(k->types[i].name, first))
        i++;
    if (columns->n_types < k->n_values || columns->n_types + n > DP_TYPES_MAX || i + n > k->n_types)
        return false;
    add(k, i, n, columns);
    return true;
}

bool dp_columns_have_last(unsigned kind, const struct dp_columns *columns)
{
    return columns->first + columns->n_types >= dp_kind_table[kind].n_values;
}

bool dp_columns_have(const struct dp_columns *columns, const char *type)
{
    for (size_t i = 0; i < columns->n_types; i++)
        if (!strcmp(columns->types[i].type, type))
            return true;
    return false;
}
