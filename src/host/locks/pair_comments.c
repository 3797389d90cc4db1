/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pair_comments.c - writes pairs in two passes: the first one only makes the locations, because a comment
 * has their number.
 *
 * Nothing here allocates but the vector's own memory: profiles are also written by crash handlers.
 */
#include "host/locks/pair_comments.h"

#include "profile/comments.h"

#include "base/text.h"
#include "host/locks/futex_class.h"
#include "host/report/emit.h"
#include "host/report/table_source.h"

#include <errno.h>

enum { NUMBERS_BYTES = 128, ID_BYTES = 9 };

struct text {
    char *at;
    size_t n, cap;
};

static void add_stack(struct text *text, const char *name, const uint32_t *refs, size_t n)
{
    text->n += dp_text_format(text->at + text->n, text->cap - text->n, " %s=", name);
    for (size_t i = 0; i < n; i++)
        text->n += dp_text_format(text->at + text->n, text->cap - text->n, i ? ",%llu" : "%llu",
                                  (unsigned long long)dp_encode_ref_id(refs[i]));
}

static int write_pair(const struct dp_pair *pair, struct text *text, struct dp_locations *l, uint32_t *refs,
                      struct dp_encode *encode)
{
    dp_vec_clear(text);
    size_t n = dp_table_stack(DP_KIND_BLOCK, pair->waiter, l, refs);
    if (!dp_vec_room(text, (n + DP_EMIT_STACK_MAX) * ID_BYTES + NUMBERS_BYTES))
        return -ENOMEM;
    text->n =
        dp_text_format(text->at, text->cap, DP_COMMENT_PAIR "n=%lld ns=%lld", (long long)pair->n, (long long)pair->ns);
    add_stack(text, "waiter", refs, n);
    n = dp_table_stack(DP_KIND_MUTEX, pair->holder, l, refs);
    add_stack(text, "holder", refs, n);
    dp_text_format(text->at + text->n, text->cap - text->n, " locations=%llu",
                   (unsigned long long)dp_encode_locations(encode));
    dp_encode_comment(encode, text->at);
    return 0;
}

static bool is_shown(const struct dp_pair *pair, unsigned locks)
{
    bool shown;
    unsigned lock = dp_futex_lock_of(DP_KIND_MUTEX, dp_table_record(DP_KIND_MUTEX, pair->holder), &shown);
    return shown && (!locks || locks >> lock & 1);
}

void dp_pairs_write(const struct dp_pair_rows *rows, unsigned locks, struct dp_locations *l, struct dp_encode *encode)
{
    struct text text = {0};
    uint32_t refs[DP_EMIT_STACK_MAX];
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0, n = 0; i < rows->n && n < DP_PAIRS_WRITTEN && !l->err; i++) {
            const struct dp_pair *pair = &rows->at[i];
            if (!is_shown(pair, locks))
                continue;
            n++;
            if (pass) {
                l->err = write_pair(pair, &text, l, refs, encode);
            } else {
                dp_table_stack(DP_KIND_BLOCK, pair->waiter, l, refs);
                dp_table_stack(DP_KIND_MUTEX, pair->holder, l, refs);
            }
        }
    dp_vec_fini(&text);
}
