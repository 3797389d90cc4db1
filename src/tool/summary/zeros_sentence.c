/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/zeros_sentence.c - says how much of the memory in use is resident and has only zeros, and which function
 * has most of it. Only profiles of types=waste tell.
 */
#include "tool/summary/sentence_parts.h"

#include "tool/query/print.h"
#include "tool/query/units.h"

#include <stdio.h>

#define ZEROS_SHARE 0.2        /* of the memory in use that is resident; less is normal */
#define ZEROS_LEAST (16 << 20) /* bytes */

static int refuse_memory(const struct dp_summary_sentences *s)
{
    dp_query_print_error(s->verb, "out of memory");
    return DP_EXIT_FAILED;
}

static void say_zeros(struct dp_summary_sentences *s, struct dp_query *v, const struct dp_summary_functions *f,
                      int64_t zeros, int64_t resident)
{
    double share = (double)zeros / (double)resident;
    const struct dp_summary_function *most = dp_summary_functions_largest(f);
    struct dp_summary_sentence *to = dp_summary_sentences_add(s, "zeros", 0.5 + share / 2);
    struct dp_summary_place place;
    char bytes[32], of_most[32];
    if (!to)
        return;
    dp_query_print_unit(bytes, sizeof bytes, zeros, "bytes");
    int n = snprintf(to->text, sizeof to->text, "%.0f%% of memory in use that is resident, %s, is only zeros",
                     100 * share, bytes);
    to->amount = zeros;
    to->verb = "waste";
    if (most && dp_summary_place_of_row(&place, &s->stacks, v, most->row)) {
        dp_query_print_unit(of_most, sizeof of_most, most->value, "bytes");
        n += snprintf(to->text + n, sizeof to->text - (size_t)n, ", most in %s: %s", place.name, of_most);
        to->stack = place.stack;
    }
    snprintf(to->text + n, sizeof to->text - (size_t)n, ".");
}

int dp_summary_sentences_zeros(struct dp_summary_sentences *s)
{
    struct dp_query v;
    struct dp_summary_functions f = {.at = {0}};
    int64_t zeros = 0, resident = 0;
    int status = dp_summary_sentences_query(&v, s, "zero_space", DP_QUERY_AT_END);
    if (!status)
        status = dp_query_read(&v, s->paths, s->n_paths);
    const struct dp_model *m = &v.merge.model;
    size_t of_resident = dp_model_type_named(m, "resident_space");
    for (uint32_t row = 0; row < m->rows.n && !status; row++) {
        dp_model_merge_sum(&zeros, dp_query_value(&v, row));
        if (of_resident < m->types.n)
            dp_model_merge_sum(&resident, v.merge.values.at[row * m->types.n + of_resident]);
    }
    if (!status && dp_summary_functions_count(&f, &v, 1, true))
        status = refuse_memory(s);
    if (!status && zeros >= ZEROS_LEAST && (double)zeros >= ZEROS_SHARE * (double)resident)
        say_zeros(s, &v, &f, zeros, resident);
    else if (!status && resident > 0)
        dp_summary_sentences_looked(s, "%.0f%% of memory in use only zeros", 100 * (double)zeros / (double)resident);
    dp_summary_functions_fini(&f);
    dp_query_fini(&v);
    return status;
}
