/* SPDX-License-Identifier: MIT */
/*
 * base/settings.h - the configuration in force at a start: defaults, the host's text, the environment, in this order.
 */
#pragma once

#include "base/config.h"

/*
 * Fills conf, paths made absolute. preloaded: nobody linked us, so out is `.` (without listen) and signals on unless
 * something else was said. 1: `exe` leaves this program out, and nothing else was looked at. A negative errno: said in
 * the log. Context: init.
 */
int dp_settings_make(struct dp_config *conf, const char *text, bool preloaded);

/* `deltaprof run` started this very process: it left its pid, and became it. */
bool dp_settings_by_run(void);
