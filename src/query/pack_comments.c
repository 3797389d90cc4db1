/* SPDX-License-Identifier: MIT */
/*
 * query/pack_comments.c - encodes what the comments of a profile say: how much memory is resident, of which parts it
 * consists, and texts for people.
 */
#include "query/pack.h"

#include "model/merge.h"

#include <stdbool.h>
#include <string.h>

/* The number behind the name in a comment NAME=NUMBER; 0: no comment is one. */
static uint64_t comment_number(const struct dp_decode *d, const char *name)
{
    size_t n_name = strlen(name);
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n_bytes, at = n_name;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        uint64_t value = 0;
        if (n_bytes <= n_name || n_bytes > n_name + 18 || memcmp(text, name, n_name))
            continue;
        for (; at < n_bytes && text[at] >= '0' && text[at] <= '9'; at++)
            value = value * 10 + (uint64_t)(text[at] - '0');
        if (at == n_bytes)
            return value;
    }
    return 0;
}

/* Comments for people; those that begin with # are for programs. */
static int put_texts(struct dp_query_pack *pack, const struct dp_decode *d)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        int err = pass ? dp_query_pack_put(pack, n) : 0;
        for (size_t i = 0; i < (d ? d->comments.n : 0) && !err; i++) {
            size_t n_bytes;
            uint32_t number;
            const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
            if (!n_bytes || *text == '#')
                continue;
            n += !pass;
            if (pass)
                err = dp_query_pack_intern(&pack->strings, text, n_bytes, &number) ?: dp_query_pack_put(pack, number);
        }
        if (err)
            return err;
    }
    return 0;
}

/* Behind "#RssPart ": the name of a part of the resident memory in [*name, *name + *n_name), and its bytes. */
static bool is_part(const char *text, size_t n_bytes, const char **name, size_t *n_name, uint64_t *bytes)
{
    static const char head[] = "#RssPart ";
    const char *equals = memrchr(text, '=', n_bytes), *end = text + n_bytes;
    if (!equals || n_bytes < sizeof head || memcmp(text, head, sizeof head - 1) || end - equals < 2 ||
        end - equals > 18)
        return false;
    *name = text + sizeof head - 1;
    *n_name = (size_t)(equals - *name);
    *bytes = 0;
    for (const char *p = equals + 1; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        *bytes = *bytes * 10 + (uint64_t)(*p - '0');
    }
    return equals > *name;
}

/* Of which parts the resident memory consists. */
static int put_parts(struct dp_query_pack *pack, const struct dp_decode *d)
{
    uint64_t bytes, n = 0;
    int err = dp_query_pack_put(pack, d ? comment_number(d, "#RssError=") : 0);
    for (int pass = 0; pass < 2 && !err; pass++) {
        err = pass ? dp_query_pack_put(pack, n) : 0;
        for (size_t i = 0; i < (d ? d->comments.n : 0) && !err; i++) {
            size_t n_bytes, n_name;
            uint32_t number;
            const char *name, *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
            if (!is_part(text, n_bytes, &name, &n_name, &bytes))
                continue;
            n += !pass;
            if (pass && !(err = dp_query_pack_intern(&pack->strings, name, n_name, &number)) &&
                !(err = dp_query_pack_put(pack, number)))
                err = dp_query_pack_put(pack, bytes);
        }
    }
    return err;
}

static uint64_t marks(const struct dp_decode *d)
{
    return (dp_merge_says(d, DP_MERGE_EXIT) ? 1 : 0) | (dp_merge_says(d, DP_MERGE_ENDED) ? 2 : 0);
}

int dp_query_pack_put_comments(struct dp_query_pack *pack, const struct dp_decode *d)
{
    int err;
    if ((err = dp_query_pack_put(pack, d ? comment_number(d, "#RssTotal=") : 0)) ||
        (err = dp_query_pack_put(pack, d ? comment_number(d, "#RssAnon=") : 0)) || (err = put_parts(pack, d)) ||
        (err = dp_query_pack_put(pack, d ? marks(d) : 4)))
        return err;
    return put_texts(pack, d);
}
