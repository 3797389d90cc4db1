/* SPDX-License-Identifier: MIT */
/* tool/run/conf_text.h - a growing text "key=value,key=value" for a process that is to be profiled. */
#pragma once

#include "config/config.h"

/* Zero is empty. bytes: to be freed. */
struct dp_run_text {
    char *bytes;
    size_t n_bytes;
};

/* Adds words, behind a comma. NULL and "" add nothing. 0 or -ENOMEM. */
int dp_run_text_append(struct dp_run_text *text, const char *words);

/*
 * Adds the relative paths of conf once more, as absolute ones: the last value of a key counts. here: `out` is the
 * present directory. 0 or -ENOMEM.
 */
int dp_run_text_make_absolute(struct dp_run_text *text, const struct dp_config *conf, bool here);

/*
 * Whether a process can make the directory of `out`, which is absolute: only its last part is made, so that a volume
 * that is not mounted is noticed. 0; or a negative errno with a line in why.
 */
int dp_run_text_check_out(const struct dp_config *conf, char *why, size_t n_why);
