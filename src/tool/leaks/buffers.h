/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/buffers.h - curves of blocks that become larger, not more: tables, strings and arrays that are appended
 * to.
 */
#pragma once

#include "tool/leaks/series.h"

/*
 * Fills *settled with the curve of what stays in use, as if each time that the blocks were made larger were one block
 * that is kept. The pace is counted from the point `first` on. False: the curve is one of blocks that become more, or
 * that become smaller, too.
 */
bool dp_leaks_buffers_settle(const struct dp_leaks_process *, const struct dp_leaks_curve *, size_t first,
                             struct dp_leaks_curve *settled);
