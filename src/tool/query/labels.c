/* SPDX-License-Identifier: MIT */
/* tool/query/labels.c - compares the labels of rows with those that options ask for. */
#include "tool/query/print.h"
#include "tool/query/query.h"

#include <stdio.h>
#include <string.h>

const char *dp_query_label_value(const struct dp_model *m, uint32_t row, const char *key, char number[32])
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (strcmp(dp_model_text(m, label->key), key))
            continue;
        snprintf(number, 32, "%lld", (long long)label->num);
        return label->str ? dp_model_text(m, label->str) : number;
    }
    return NULL;
}

/* Whether the label equals `wanted`, KEY=VALUE. A number is compared as decimal text. KEY may contain '='. */
static bool is_label(const struct dp_model *m, const struct dp_model_label *label, const char *wanted)
{
    char number[32];
    const char *value = number, *key = dp_model_text(m, label->key);
    size_t n_key = strlen(key);
    snprintf(number, sizeof number, "%lld", (long long)label->num);
    if (label->str)
        value = dp_model_text(m, label->str);
    return !strncmp(key, wanted, n_key) && wanted[n_key] == '=' && !strcmp(value, wanted + n_key + 1);
}

static bool row_has_label(const struct dp_model *m, uint32_t row, const char *wanted)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++)
        if (is_label(m, &m->labels.at[dp_model_labels(m, row)[i]], wanted))
            return true;
    return false;
}

/* A thread that waits for work. In wall profiles its rows say so; in those of locks the kind of the lock does. */
static bool is_idle(const struct dp_model *m, uint32_t row)
{
    static const char *const labels[] = {"idle=yes", "lock=cond", "lock=sem", "lock=join", "lock=park"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        if (row_has_label(m, row, labels[i]))
            return true;
    return false;
}

bool dp_query_has_labels(const struct dp_query *v, uint32_t row)
{
    if (v->without_idle && is_idle(&v->merge.model, row))
        return false;
    for (size_t i = 0; i < v->n_labels; i++)
        if (!row_has_label(&v->merge.model, row, v->labels[i]))
            return false;
    return true;
}

/* Prints an error that lists the labels of the profile. */
static int refuse_label(const struct dp_query *v, const char *wanted)
{
    const struct dp_model *m = &v->merge.model;
    char there[200] = "";
    for (size_t i = 0, used = 0; i < m->labels.n && used < sizeof there - 64; i++) {
        const struct dp_model_label *label = &m->labels.at[i];
        const char *key = dp_model_text(m, label->key), *value = label->str ? dp_model_text(m, label->str) : NULL;
        int n = value ? snprintf(there + used, sizeof there - used, "%s%.40s=%.60s", used ? ", " : "", key, value)
                      : snprintf(there + used, sizeof there - used, "%s%.40s=%lld", used ? ", " : "", key,
                                 (long long)label->num);
        used += (size_t)n;
    }
    dp_query_print_error(v->verb, "no sample has the label %s; %s%s", wanted,
                         *there ? "there are: " : "none has any label", there);
    return DP_EXIT_FAILED;
}

int dp_query_check_key(const struct dp_query *v, const char *key)
{
    const struct dp_model *m = &v->merge.model;
    for (size_t i = 0; i < m->labels.n; i++)
        if (!strcmp(dp_model_text(m, m->labels.at[i].key), key))
            return 0;
    return refuse_label(v, key);
}

int dp_query_check_labels(const struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    for (size_t i = 0; i < v->n_labels; i++) {
        bool found = false;
        for (size_t j = 0; j < m->labels.n && !found; j++)
            found = is_label(m, &m->labels.at[j], v->labels[i]);
        if (!found)
            return refuse_label(v, v->labels[i]);
    }
    return 0;
}
