/* SPDX-License-Identifier: MIT */
/* tool/query/stacks.c - numbers stacks: each stack is a string in a set of strings. */
#include "tool/query/stacks.h"

#include <string.h>

uint32_t dp_query_stacks_add(struct dp_query_stacks *s, const struct dp_query *v, size_t from)
{
    dp_vec_clear(&s->key);
    for (size_t i = from; i < v->stack.n; i++) {
        const char *name = dp_query_naming_frames_text(&v->frames, v->frames.at.at[v->stack.at[i]].name);
        size_t n = strlen(name);
        char *to = dp_vec_room(&s->key, n + 1);
        if (!to)
            return DP_STRINGS_NONE;
        for (size_t j = 0; j < n; j++)
            to[j] = name[j] == '\n' ? '?' : name[j];
        to[n] = '\n';
        s->key.n += n + 1;
    }
    return dp_strings_add(&s->keys, s->key.at, s->key.n ? s->key.n - 1 : 0);
}

bool dp_query_stacks_next(const struct dp_query_stacks *s, uint32_t stack, const char **at, char *name, size_t n_bytes)
{
    const char *from = *at ? *at : dp_strings_at(&s->keys, stack);
    if (*at && !**at)
        return false;
    from += *at && **at == '\n';
    size_t n = strcspn(from, "\n"), n_kept = n < n_bytes - 1 ? n : n_bytes - 1;
    memcpy(name, from, n_kept);
    name[n_kept] = '\0';
    *at = from + n;
    return true;
}

void dp_query_stacks_fini(struct dp_query_stacks *s)
{
    dp_strings_fini(&s->keys);
    dp_vec_fini(&s->key);
}
