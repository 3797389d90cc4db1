/* SPDX-License-Identifier: MIT */
/*
 * host/locks/title.c - sums lock rows by lock kind, the longest time first. Without stdio, as all of a profile: it may
 * be written in a crash handler.
 */
#include "host/locks/title.h"

#include "base/text.h"
#include "host/table/labels.h"
#include "host/table/table.h"

struct sum {
    const char *name;
    int64_t n, ns;
};

static size_t add_names(unsigned locks, char *text, size_t n_bytes)
{
    size_t at = dp_text_format(text, n_bytes, "only ");
    for (unsigned kind = 1, n = 0; kind < DP_LABELS_LOCKS; kind++)
        if (locks >> kind & 1)
            at += dp_text_format(text + at, n_bytes - at, "%s%s", n++ ? "," : "lock=", dp_labels_lock_name(kind));
    return at + dp_text_format(text + at, n_bytes - at, ": ");
}

static size_t add_time(int64_t ns, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%lld.%03u s", (long long)(ns / 1000000000),
                          (unsigned)(ns % 1000000000 / 1000000));
}

/* Takes the sum with the longest time out of the set; NULL: none is left. */
static struct sum *take_longest(struct sum *sums)
{
    struct sum *longest = NULL;
    for (unsigned kind = 0; kind < DP_LABELS_LOCKS; kind++)
        if (sums[kind].name && (!longest || sums[kind].ns > longest->ns))
            longest = &sums[kind];
    return longest;
}

void dp_title_sum(const struct dp_delta_rules *rules, const char *unit, unsigned locks, const struct dp_rows *rows,
                  char *text, size_t n_bytes)
{
    struct sum all = {0}, sums[DP_LABELS_LOCKS] = {0}, *next;
    text[0] = '\0';
    for (size_t i = 0; i < rows->n; i++) {
        const int64_t *values = rows->at[i].values;
        bool shown;
        unsigned lock = rules->lock_of(dp_table_record(rules->kind, rows->at[i].id), &shown);
        const char *name = dp_labels_lock_name(lock);
        sums[lock].name = name ? name : "[overflow]";
        sums[lock].n += values[0];
        sums[lock].ns += values[1];
        all.n += values[0];
        all.ns += values[1];
    }
    size_t at = locks ? add_names(locks, text, n_bytes) : 0;
    at += dp_text_format(text + at, n_bytes - at, "%lld %s, ", (long long)all.n, unit);
    at += add_time(all.ns, text + at, n_bytes - at);
    for (const char *before = ": "; (next = take_longest(sums)); before = ", ") {
        at += dp_text_format(text + at, n_bytes - at, "%s%s ", before, next->name);
        at += add_time(next->ns, text + at, n_bytes - at);
        at += dp_text_format(text + at, n_bytes - at, " in %lld", (long long)next->n);
        next->name = NULL;
    }
}
