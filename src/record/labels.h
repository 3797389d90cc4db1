/* SPDX-License-Identifier: MIT */
/*
 * record/labels.h - label sets: the key=value pairs that a record carries besides its stack, by id.
 *
 * An id is part of a record's key and never changes its meaning. Context: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dp_label {
    const char *key, *value; /* static */
};

/* The set {lock: name of kind}; kind is an enum deltaprof_lock_kind. */
uint32_t dp_labels_of_lock(unsigned kind);

/* The pairs of a set, sorted by key; their number, 0 for id 0 and for an id that nobody gave out. */
size_t dp_labels_get(uint32_t id, const struct dp_label **labels);
