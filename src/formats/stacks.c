/* SPDX-License-Identifier: MIT */
/* formats/stacks.c - sums of values by stack, in a tree of stacks. */
#include "formats/stacks.h"

#include <errno.h>

static bool is_node(const struct dp_formats_stacks *s, uint32_t node, uint32_t parent, uint32_t frame)
{
    return s->nodes.at[node].parent == parent && s->nodes.at[node].frame == frame;
}

uint32_t dp_formats_stacks_enter(struct dp_formats_stacks *s, uint32_t parent, uint32_t frame)
{
    uint32_t node = dp_index_guess(&s->index);
    if (node == DP_INDEX_NONE || !is_node(s, node, parent, frame)) {
        uint64_t hash = dp_index_hash(dp_index_hash(dp_index_seed(), parent), frame);
        struct dp_index_probe probe = dp_index_probe(&s->index, hash);
        while ((node = dp_index_candidate(&s->index, &probe)) != DP_INDEX_NONE)
            if (is_node(s, node, parent, frame))
                break;
        if (node == DP_INDEX_NONE) {
            if (!dp_vec_room(&s->nodes, 1) || (node = dp_index_add(&s->index, &probe)) == DP_INDEX_NONE)
                return DP_FORMATS_NONE;
            s->nodes.at[s->nodes.n++] = (struct dp_formats_node){.parent = parent, .frame = frame};
        }
    }
    dp_index_seen(&s->index, node);
    return node;
}

int dp_formats_stacks_add(struct dp_formats_stacks *s, uint32_t node, uint32_t type, struct dp_formats_amount amount)
{
    if (!s->nodes.at[node].row) {
        struct dp_formats_amount *sums = dp_vec_room(&s->sums, s->n_types);
        if (!sums)
            return -ENOMEM;
        for (uint32_t i = 0; i < s->n_types; i++)
            sums[i] = (struct dp_formats_amount){0};
        s->sums.n += s->n_types;
        s->nodes.at[node].row = ++s->n_rows;
    }
    struct dp_formats_amount *sum = &s->sums.at[(size_t)(s->nodes.at[node].row - 1) * s->n_types + type];
    sum->rest += amount.rest;
    return __builtin_add_overflow(sum->whole, amount.whole, &sum->whole) ? -ERANGE : 0;
}

int dp_formats_stacks_values(const struct dp_formats_stacks *s, uint32_t row, int64_t *values)
{
    bool fits = true;
    for (uint32_t i = 0; i < s->n_types; i++) {
        const struct dp_formats_amount *sum = &s->sums.at[(size_t)row * s->n_types + i];
        int64_t rest = (int64_t)(sum->rest + (sum->rest < 0 ? -0.5 : 0.5));
        fits &= !__builtin_add_overflow(sum->whole, rest, &values[i]);
    }
    return fits ? 0 : -ERANGE;
}

void dp_formats_stacks_fini(struct dp_formats_stacks *s)
{
    dp_index_fini(&s->index);
    dp_vec_fini(&s->nodes);
    dp_vec_fini(&s->sums);
}
