/* SPDX-License-Identifier: MIT */
/*
 * config/settings.h - builds the configuration at start from defaults, the host's text and the environment, in this
 * order.
 */
#pragma once

#include "config/config.h"

/*
 * Fills conf and makes paths absolute. preloaded: the library came by LD_PRELOAD, so the defaults are `.` for out
 * (without listen) and on for signals. Returns 0; 1: `exe` excludes this program, nothing else was checked; or a
 * negative errno, logged. Context: init.
 */
int dp_config_settings_make(struct dp_config *conf, const char *text, bool preloaded);

/*
 * Merges keys that come from outside, later, into a configuration made by dp_config_settings_make. Paths must be
 * absolute. 0, or -EINVAL with error filled and conf unchanged. Context: where files may be read.
 */
int dp_config_settings_amend(struct dp_config *conf, const char *text, struct dp_config_error *error);

/* Whether `deltaprof run` started this very process: it noted its pid and then executed the program. */
bool dp_config_by_run(void);
