/* SPDX-License-Identifier: MIT */
/* tool/recover/live.h - the profiles of a living process, as files. */
#pragma once

#include "tool/recover/recover.h"

/*
 * Writes them into the directory `to`, which exists and is empty. 0, or a negative errno with the reason in why
 * (DP_RECOVER_WHY bytes).
 */
int dp_recover_live(const char *directory, const struct dp_recover_table *table, const char *to, char *why);
