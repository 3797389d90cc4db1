/* SPDX-License-Identifier: MIT */
/*
 * tool/pgo/write.c - writes samples for clang and for BOLT, as text.
 *
 * For clang. A function: NAME:TOTAL:ENTRIES; below it, one blank further in, its lines: LINE[.DISCRIMINATOR]: COUNT,
 * and the functions inlined into it: LINE[.DISCRIMINATOR]: NAME:TOTAL. A count is the line's samples times SCALE,
 * because clang adds 1 to each weight of a branch: 3 samples against none would be 4 to 1. Counts by byte of code,
 * which say better how often a line ran, made a JSON parser 13 to 15 % faster in place of 20.
 *
 *     parse:5300:12
 *      1: 12
 *      4.1: 2500
 *      5: next_token:2788
 *       2: 2788
 */
#include "tool/pgo/write.h"

#include "base/text.h"

#include <string.h>

enum { SCALE = 1000, LINE_BYTES = 64 };

struct output {
    dp_pprof_write_fn fn;
    void *ctx;
    int err;
};

static void append(struct output *o, const char *text, size_t n_bytes)
{
    if (!o->err && n_bytes)
        o->err = o->fn(o->ctx, text, n_bytes);
}

static void put_number(struct output *o, const char *before, int64_t number, const char *after)
{
    char text[LINE_BYTES];
    append(o, text, dp_text_format(text, sizeof text, "%s%lld%s", before, (long long)number, after));
}

static void put_place(struct output *o, unsigned depth, struct dp_pgo_place place)
{
    for (unsigned i = 0; i < depth; i++)
        append(o, " ", 1);
    put_number(o, "", place.line, "");
    if (place.discriminator)
        put_number(o, ".", place.discriminator, "");
    append(o, ": ", 2);
}

static int64_t count_of(const struct dp_pgo_line *line)
{
    return line->n * SCALE;
}

static int64_t total_of(const struct dp_pgo_profile *p, const struct dp_pgo_function *f)
{
    int64_t total = 0;
    for (uint32_t i = f->first_line; i; i = p->lines.at[i - 1].next)
        total += count_of(&p->lines.at[i - 1]);
    for (uint32_t i = f->first_inlined; i; i = p->functions.at[i - 1].next)
        total += total_of(p, &p->functions.at[i - 1]);
    return total;
}

static int64_t entries_of(const struct dp_pgo_profile *p, const struct dp_pgo_function *f)
{
    for (uint32_t i = f->has_entry ? f->first_line : 0; i; i = p->lines.at[i - 1].next) {
        const struct dp_pgo_line *line = &p->lines.at[i - 1];
        if (line->place.line == f->entry.line && line->place.discriminator == f->entry.discriminator)
            return count_of(line);
    }
    return 0;
}

static void put_name(struct output *o, const struct dp_pgo_profile *p, const struct dp_pgo_function *f)
{
    append(o, dp_strings_at(&p->names, f->name), dp_strings_size(&p->names, f->name));
}

static void put_inside(struct output *o, const struct dp_pgo_profile *p, const struct dp_pgo_function *f,
                       unsigned depth)
{
    for (uint32_t i = f->first_line; i; i = p->lines.at[i - 1].next) {
        put_place(o, depth, p->lines.at[i - 1].place);
        put_number(o, "", count_of(&p->lines.at[i - 1]), "\n");
    }
    for (uint32_t i = f->first_inlined; i; i = p->functions.at[i - 1].next) {
        const struct dp_pgo_function *inlined = &p->functions.at[i - 1];
        put_place(o, depth, inlined->call);
        put_name(o, p, inlined);
        put_number(o, ":", total_of(p, inlined), "\n");
        put_inside(o, p, inlined, depth + 1);
    }
}

int dp_pgo_write_clang(const struct dp_pgo_profile *p, dp_pprof_write_fn fn, void *ctx)
{
    struct output o = {fn, ctx, 0};
    for (uint32_t i = p->first; i; i = p->functions.at[i - 1].next) {
        const struct dp_pgo_function *f = &p->functions.at[i - 1];
        int64_t total = total_of(p, f);
        if (!total || !dp_strings_size(&p->names, f->name))
            continue;
        put_name(&o, p, f);
        put_number(&o, ":", total, "");
        put_number(&o, ":", entries_of(p, f), "\n");
        put_inside(&o, p, f, 1);
    }
    return o.err;
}

int dp_pgo_write_bolt(const struct dp_pgo_samples *s, dp_pprof_write_fn fn, void *ctx)
{
    struct output o = {fn, ctx, 0};
    append(&o, "E cycles\n", strlen("E cycles\n"));
    for (size_t i = 0; i < s->at.n; i++) {
        char text[LINE_BYTES];
        append(&o, text,
               dp_text_format(text, sizeof text, "S %llx %lld\n", (unsigned long long)s->at.at[i].address,
                              (long long)s->at.at[i].n));
    }
    return o.err;
}
