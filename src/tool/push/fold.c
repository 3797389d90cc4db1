/* SPDX-License-Identifier: MIT */
/*
 * tool/push/fold.c - removes leaf locations that only pass an allocation or a lock on. A location passes if all of its
 * functions do, those inlined into it too. A location without a name is removed if one that calls it passes. The root
 * location always stays. Rows that become equal are not merged: their sum is the same.
 */
#include "tool/push/fold.h"

#include "tool/query/naming.h"

#include <string.h>

enum { NAME_BYTES = 4096 };

bool dp_push_fold_set(struct dp_push_fold *fold, const char *regex, char *why, size_t n_bytes)
{
    fold->is_on = true;
    if (!regex)
        return true;
    if (fold->has_regex)
        regfree(&fold->regex);
    int err = regcomp(&fold->regex, regex, REG_EXTENDED | REG_NOSUB);
    if (err)
        regerror(err, &fold->regex, why, n_bytes);
    fold->has_regex = !err;
    return !err;
}

static bool only_passes(const struct dp_push_fold *fold, const char *name)
{
    char text[NAME_BYTES];
    size_t n = strlen(name);
    if (n >= sizeof text)
        return false;
    memcpy(text, name, n + 1);
    dp_query_naming_shorten(text);
    return dp_query_naming_is_passing(text) || (fold->has_regex && !regexec(&fold->regex, text, 0, NULL, 0));
}

/* UNNAMED: is removed if a location that calls it passes. */
enum leaf { STAYS, UNNAMED, PASSES };

static enum leaf judge_location(const struct dp_push_fold *fold, const struct dp_model *m, uint32_t number)
{
    const struct dp_model_location *l = &m->locations.at[number];
    for (uint32_t i = 0; i < l->n_lines; i++) {
        uint32_t function = m->lines.at[l->first_line + i].function;
        const char *name = function ? dp_model_text(m, m->functions.at[function - 1].name) : "";
        if (!*name || dp_model_is_place(name))
            return UNNAMED;
        if (!only_passes(fold, name))
            return STAYS;
    }
    return l->n_lines ? PASSES : UNNAMED;
}

/*
 * Removes the first n locations of a row. Its words are n_locations, n_labels, the locations, the labels: so the row
 * begins n words later, and both numbers are written there, over removed locations.
 */
static void drop_leaves(struct dp_model *m, uint32_t row, uint32_t n)
{
    uint32_t *words = &m->words.at[m->rows.at[row].key], n_locations = words[0], n_labels = words[1];
    words[n] = n_locations - n;
    words[n + 1] = n_labels;
    m->rows.at[row].key += n;
}

bool dp_push_fold_rows(const struct dp_push_fold *fold, struct dp_model *m)
{
    bool found = false;
    for (uint32_t row = 0; row < m->rows.n && fold->is_on; row++) {
        uint32_t n_locations = dp_model_depth(m, row), n = 0;
        const uint32_t *stack = dp_model_stack(m, row);
        enum leaf leaf = PASSES;
        for (uint32_t i = 0; i + 1 < n_locations && leaf != STAYS; i++)
            if ((leaf = judge_location(fold, m, stack[i])) == PASSES)
                n = i + 1;
        if (n)
            drop_leaves(m, row, n);
        found |= n > 0;
    }
    return found;
}
