/* SPDX-License-Identifier: MIT */
/*
 * report/lock.h - the report lock: one for maps, symbols and what they keep, held for short steps and never while a
 * sink is called.
 */
#pragma once

#include <stdbool.h>

/* 0: held. -EAGAIN: another holds it, and wait is false. In a forked child the first taker forgets what was left
 * undone. */
int dp_report_lock(bool wait);
void dp_report_unlock(void);
