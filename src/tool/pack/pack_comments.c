/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack_comments.c - encodes what the comments of a profile say: how much memory is resident, of which parts
 * it consists, and texts for people.
 */
#include "tool/pack/pack.h"

#include "tool/model/merge.h"
#include "profile/comments.h"

#include <stdbool.h>
#include <string.h>

/* The number of the first comment that begins so; 0: there is none. */
static uint64_t comment_number(const struct dp_decode *d, const char *begin)
{
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n_bytes;
        int64_t number;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        if (dp_profile_comment_number(text, n_bytes, begin, &number))
            return (uint64_t)number;
    }
    return 0;
}

/* Comments for people; those that begin with # are for programs. */
static int put_texts(struct dp_pack *pack, const struct dp_decode *d)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        int err = pass ? dp_pack_put(pack, n) : 0;
        for (size_t i = 0; i < (d ? d->comments.n : 0) && !err; i++) {
            size_t n_bytes;
            uint32_t number;
            const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
            if (!n_bytes || *text == '#')
                continue;
            n += !pass;
            if (pass)
                err = dp_pack_intern(&pack->strings, text, n_bytes, &number) ?: dp_pack_put(pack, number);
        }
        if (err)
            return err;
    }
    return 0;
}

/* Of which parts the resident memory consists. */
static int put_parts(struct dp_pack *pack, const struct dp_decode *d)
{
    uint64_t n = 0;
    int64_t bytes;
    int err = dp_pack_put(pack, d ? comment_number(d, DP_COMMENT_RSS_ERROR) : 0);
    for (int pass = 0; pass < 2 && !err; pass++) {
        err = pass ? dp_pack_put(pack, n) : 0;
        for (size_t i = 0; i < (d ? d->comments.n : 0) && !err; i++) {
            size_t n_bytes, n_name;
            uint32_t number;
            const char *name, *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
            if (!dp_profile_comment_part(text, n_bytes, DP_COMMENT_RSS_PART, &name, &n_name, &bytes))
                continue;
            n += !pass;
            if (pass && !(err = dp_pack_intern(&pack->strings, name, n_name, &number)) &&
                !(err = dp_pack_put(pack, number)))
                err = dp_pack_put(pack, (uint64_t)bytes);
        }
    }
    return err;
}

static uint64_t marks(const struct dp_decode *d)
{
    return (dp_model_merge_says(d, DP_COMMENT_EXIT) ? 1 : 0) | (dp_model_merge_says(d, DP_COMMENT_ENDED) ? 2 : 0);
}

int dp_pack_put_comments(struct dp_pack *pack, const struct dp_decode *d)
{
    int err;
    if ((err = dp_pack_put(pack, d ? comment_number(d, DP_COMMENT_RSS_TOTAL) : 0)) ||
        (err = dp_pack_put(pack, d ? comment_number(d, DP_COMMENT_RSS_ANON) : 0)) || (err = put_parts(pack, d)) ||
        (err = dp_pack_put(pack, d ? marks(d) : 4)))
        return err;
    return put_texts(pack, d);
}
