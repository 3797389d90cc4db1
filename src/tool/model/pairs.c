/* SPDX-License-Identifier: MIT */
/*
 * tool/model/pairs.c - reads pairs from comments, sums them and writes them again, with the ids of the new profile.
 *
 * Ids are positions + 1 in the profiles that deltaprof writes. A profile with other ids, or with another number of
 * locations than its comments say, was written by another program, which does not know what the comments mean.
 */
#include "tool/model/pairs.h"

#include "profile/comments.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ID_BYTES = 11, NUMBERS_BYTES = 128 };

struct cursor {
    const char *at, *end;
};

bool dp_model_pairs_is_comment(const char *text, size_t n_bytes)
{
    static const char begin[] = DP_COMMENT_PAIR;
    return n_bytes >= sizeof begin - 1 && !memcmp(text, begin, sizeof begin - 1);
}

static bool take(struct cursor *c, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n))
        return false;
    c->at += n;
    return true;
}

static bool take_number(struct cursor *c, int64_t *number)
{
    const char *begin = c->at;
    *number = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *c->at - '0', number))
            return false;
    return c->at > begin;
}

struct words {
    uint32_t *at;
    size_t n, cap;
};

/* The model's locations of the ids. -EBADMSG: it is no list of them. */
static int take_stack(struct cursor *c, const struct dp_model *m, size_t n_locations, struct words *words)
{
    do {
        int64_t id;
        if (!take_number(c, &id) || id < 1 || (uint64_t)id > n_locations)
            return -EBADMSG;
        uint32_t *to = dp_vec_push(words);
        if (!to)
            return -ENOMEM;
        *to = m->location_map.at[id - 1];
    } while (take(c, ","));
    return 0;
}

/* Fills in key and sum. -EBADMSG: the comment does not have this form. */
static int parse(struct cursor *c, const struct dp_model *m, const struct dp_decode *d, struct words *key,
                 struct dp_model_pair_sum *sum)
{
    size_t n_locations = d->location_ids.in_order ? d->locations.n : 0;
    int64_t stated;
    dp_vec_clear(key);
    uint32_t *depth = dp_vec_push(key);
    if (!depth)
        return -ENOMEM;
    if (!take(c, DP_COMMENT_PAIR "n=") || !take_number(c, &sum->n) || !take(c, " ns=") || !take_number(c, &sum->ns) ||
        !take(c, " waiter="))
        return -EBADMSG;
    int err = take_stack(c, m, n_locations, key);
    if (err)
        return err;
    key->at[0] = (uint32_t)key->n - 1;
    if (!take(c, " holder="))
        return -EBADMSG;
    if ((err = take_stack(c, m, n_locations, key)))
        return err;
    bool whole = take(c, " locations=") && take_number(c, &stated) && c->at == c->end;
    return whole && (uint64_t)stated == n_locations ? 0 : -EBADMSG;
}

static void add(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = INT64_MAX;
}

static int add_sum(struct dp_model_pairs *pairs, const struct words *key, const struct dp_model_pair_sum *sum)
{
    if (dp_strings_add(&pairs->keys, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    uint32_t number = dp_strings_add(&pairs->keys, (const char *)key->at, key->n * sizeof *key->at);
    if (number == DP_STRINGS_NONE)
        return -ENOMEM;
    bool is_new = number > pairs->sums.n;
    struct dp_model_pair_sum *to = is_new ? dp_vec_push(&pairs->sums) : &pairs->sums.at[number - 1];
    if (!to)
        return -ENOMEM;
    if (is_new)
        *to = (struct dp_model_pair_sum){0};
    add(&to->n, sum->n);
    add(&to->ns, sum->ns);
    return 0;
}

int dp_model_pairs_add(struct dp_model_pairs *pairs, const struct dp_model *m, const struct dp_decode *d)
{
    struct words key = {0};
    int err = 0;
    for (size_t i = 0; i < d->comments.n && !err; i++) {
        size_t n_bytes;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        struct cursor cursor = {text, text + n_bytes};
        struct dp_model_pair_sum sum;
        if (!dp_model_pairs_is_comment(text, n_bytes))
            continue;
        err = parse(&cursor, m, d, &key, &sum);
        err = err ? err : add_sum(pairs, &key, &sum);
        err = err == -EBADMSG ? 0 : err;
    }
    dp_vec_fini(&key);
    return err;
}

struct dp_model_pair dp_model_pairs_get(const struct dp_model_pairs *pairs, size_t i)
{
    uint32_t number = (uint32_t)i + 1;
    const uint32_t *key = (const void *)dp_strings_at(&pairs->keys, number);
    uint32_t n_words = (uint32_t)(dp_strings_size(&pairs->keys, number) / sizeof *key);
    return (struct dp_model_pair){.waiter = key + 1,
                                  .holder = key + 1 + key[0],
                                  .n_waiter = key[0],
                                  .n_holder = n_words - 1 - key[0],
                                  .n = pairs->sums.at[i].n,
                                  .ns = pairs->sums.at[i].ns};
}

static size_t put_stack(struct dp_model_write *w, const uint32_t *stack, uint32_t n, const char *name, char *to)
{
    size_t n_bytes = (size_t)sprintf(to, " %s=", name);
    for (uint32_t i = 0; i < n; i++)
        n_bytes += (size_t)sprintf(to + n_bytes, i ? ",%llu" : "%llu",
                                   (unsigned long long)dp_model_write_location(w, stack[i]));
    return n_bytes;
}

int dp_model_pairs_write(const struct dp_model_pairs *pairs, struct dp_model_write *w)
{
    DP_VEC(char) text = {0};
    int err = 0;
    for (int pass = 0; pass < 2; pass++) /* the first one makes the locations, whose number is in each comment */
        for (size_t i = 0; i < pairs->sums.n && !err; i++) {
            struct dp_model_pair pair = dp_model_pairs_get(pairs, i);
            dp_vec_clear(&text);
            char *to = dp_vec_room(&text, NUMBERS_BYTES + ID_BYTES * ((size_t)pair.n_waiter + pair.n_holder));
            if (!to) {
                err = -ENOMEM;
                continue;
            }
            to += sprintf(to, DP_COMMENT_PAIR "n=%lld ns=%lld", (long long)pair.n, (long long)pair.ns);
            to += put_stack(w, pair.waiter, pair.n_waiter, "waiter", to);
            to += put_stack(w, pair.holder, pair.n_holder, "holder", to);
            sprintf(to, " locations=%llu", (unsigned long long)dp_encode_locations(w->encode));
            if (pass)
                dp_encode_comment(w->encode, text.at);
        }
    dp_vec_fini(&text);
    return err;
}

void dp_model_pairs_fini(struct dp_model_pairs *pairs)
{
    dp_strings_fini(&pairs->keys);
    dp_vec_fini(&pairs->sums);
}
