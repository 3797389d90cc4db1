/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/symbols_lock.h - the symbols lock: protects maps, symbols and their caches. Held for short steps, never
 * while a sink is called.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns 0: locked. -EAGAIN: another thread holds it, and wait is false. In a forked child the first call drops caches
 * that were left incomplete.
 */
int dp_symbols_lock(bool wait);
void dp_symbols_unlock(void);

/*
 * For a crash handler: unlocks, if the calling thread holds the lock and crashed inside a module, where no cache is
 * being changed. Returns whether it did. Async-signal-safe.
 */
bool dp_symbols_unlock_crashed(void);

/*
 * After -EAGAIN: sleeps for a moment. False: the deadline (dp_clock_ns) is over, or this is a signal handler and its
 * own thread holds the lock.
 */
bool dp_symbols_lock_await(int64_t deadline_ns);
