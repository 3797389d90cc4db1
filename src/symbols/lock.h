/* SPDX-License-Identifier: MIT */
/*
 * symbols/lock.h - the symbols lock: one for maps, symbols and what they keep, held for short steps and never while a
 * sink is called.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* 0: held. -EAGAIN: another holds it, and wait is false. In a forked child the first taker forgets what was left
 * undone. */
int dp_symbols_lock(bool wait);
void dp_symbols_unlock(void);

/* After -EAGAIN: sleeps for a moment. False: the deadline (dp_clock_ns) is over, or the calling thread holds the lock
 * itself, which a signal handler interrupted. */
bool dp_report_lock_await(int64_t deadline_ns);
