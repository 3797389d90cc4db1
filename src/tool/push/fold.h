/* SPDX-License-Identifier: MIT */
/*
 * tool/push/fold.h - leaves functions that only pass an allocation or a lock on out of the leaf ends of stacks, as
 * `top` does: xmalloc, zmalloc, operator new, g_mutex_lock. A receiver shows the leaves; else they are all the same
 * function.
 */
#pragma once

#include "tool/model/model.h"

#include <regex.h>
#include <stdbool.h>

/* Zero folds nothing. */
struct dp_push_fold {
    bool is_on;     /* the functions that `top` knows */
    bool has_regex; /* and those whose names match */
    regex_t regex;
};

/*
 * Turns folding on. regex: a POSIX extended regular expression, which replaces the one before; NULL: none. False: it
 * cannot be compiled, with the reason in *why.
 */
bool dp_push_fold_set(struct dp_push_fold *, const char *regex, char *why, size_t n_bytes);

/* Shortens the stacks of all rows; no rows may be added to the model later. Returns whether any was. */
bool dp_push_fold_rows(const struct dp_push_fold *, struct dp_model *);
