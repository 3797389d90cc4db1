/* SPDX-License-Identifier: MIT */
/*
 * host/table/label_sets.h - the label sets that the program pushes, each known once, by a number.
 *
 * A set is a set and one pair more: sets form a tree, whose root 0 has no label. Numbers never change their meaning, in
 * forked children either. Context: any, hooks and signal handlers too; nothing here allocates, locks or waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DP_LABEL_SETS = 1024, DP_LABEL_KEY_BYTES = 64, DP_LABEL_VALUE_BYTES = 128 };

struct dp_label {
    const char *key, *value; /* static */
};

/*
 * The set `parent` with one pair more; longer texts are cut. When most sets are taken, a new pair gets the value
 * "[other]". 0: there is no room even for that.
 */
uint32_t dp_label_set_find(uint32_t parent, const char *key, const char *value);

/* 0 for 0. */
uint32_t dp_label_set_parent(uint32_t set);

/* The pairs of a set, the last pushed first, each key once; at most max. How many. */
size_t dp_label_set_pairs(uint32_t set, struct dp_label *pairs, size_t max);

/* The array of copies for other processes. -ENOMEM. Context: init. */
int dp_label_sets_share(void);
/* Copies a set and its parents there, once, for a record that refers to it. */
void dp_label_set_publish(uint32_t set);
/* In such a process: takes the first n sets of the array. False: one is not valid. */
bool dp_label_set_adopt(uint32_t n);
