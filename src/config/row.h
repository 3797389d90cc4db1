/* SPDX-License-Identifier: MIT */
/*
 * config/row.h - a row of the table of keys, for the config files only: rows.c has the table,
 * value.c reads one value by its row, config.c reads texts of key=value pairs.
 */
#pragma once

#include "config/config.h"

enum dp_config_type {
    DP_KEY_SIZE,
    DP_KEY_TIME,
    DP_KEY_COUNT,
    DP_KEY_CHOICE,
    DP_KEY_SWITCH,
    DP_KEY_SIGNAL,
    DP_KEY_GLOBS,
    DP_KEY_DIRECTORY,
    DP_KEY_EVENTS,
    DP_KEY_LOG,
    DP_KEY_ADDRESS,
    DP_KEY_FILE,
    DP_KEY_RECEIVER,
};
enum { DP_KEY_LIVE = 1, DP_KEY_DELTA = 2 };

struct dp_config_row {
    struct dp_config_key shown;
    enum dp_config_type type;
    size_t at;           /* offset in struct dp_config */
    int64_t min, max;    /* in bytes, ns or a count; if min is negative, 0 is allowed and means off or none */
    unsigned when;       /* LIVE: deltaprof_set; DELTA: deltaprof_delta_set */
    const char *initial; /* the true default, if value_default is a sentence */
};

/* Row i; NULL beyond the last. */
const struct dp_config_row *dp_config_row(size_t i);

/* Stores the key's index in *i. False: there is no such key. */
bool dp_config_find(const char *key, size_t *i);

/* Fills error with the most similar key, or with all keys. */
void dp_config_unknown(struct dp_config_error *error, const char *word);

/* Reads a value, shorter than DP_CONFIG_TEXT, into its field. 0, or -EINVAL with error filled: what is allowed. */
int dp_config_read_value(struct dp_config *conf, const struct dp_config_row *row, const char *value,
                         struct dp_config_error *error);
