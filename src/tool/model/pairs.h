/* SPDX-License-Identifier: MIT */
/*
 * tool/model/pairs.h - the pairs of waiters and holders that lock profiles have in their comments
 * (host/locks/pair_comments.h), summed over profiles. Stacks are locations of the model.
 */
#pragma once

#include "tool/model/write.h"

#include <stdbool.h>

struct dp_model_pair_sum {
    int64_t n, ns;
};

/* Zero is an empty one. */
struct dp_model_pairs {
    struct dp_strings keys; /* the two stacks as bytes: the depth of the waiter's, then its locations, the holder's */
    DP_VEC(struct dp_model_pair_sum) sums; /* by key - 1 */
};

/* Numbers of the model's locations, leaf first; they live until the next change. */
struct dp_model_pair {
    const uint32_t *waiter, *holder;
    uint32_t n_waiter, n_holder;
    int64_t n, ns;
};

/* Whether a comment is a pair. */
bool dp_model_pairs_is_comment(const char *text, size_t n_bytes);

/*
 * Adds the pairs of the profile that was added to the model last. If another program has written that profile anew,
 * with other ids of locations, its pairs are left out. 0 or -ENOMEM.
 */
int dp_model_pairs_add(struct dp_model_pairs *, const struct dp_model *, const struct dp_decode *);

/* Pair i of the number of sums. */
struct dp_model_pair dp_model_pairs_get(const struct dp_model_pairs *, size_t i);

/* Writes the pairs as comments, after the last row. 0 or -ENOMEM. */
int dp_model_pairs_write(const struct dp_model_pairs *, struct dp_model_write *);
void dp_model_pairs_fini(struct dp_model_pairs *);
