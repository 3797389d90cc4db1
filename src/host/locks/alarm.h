/* SPDX-License-Identifier: MIT */
/*
 * host/locks/alarm.h - finds deadlocks and threads that have waited too long for a lock. Context: outside hooks; one
 * thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Logs each wait under way that has lasted stuck_ns, once, if it is for a mutex or a rwlock of the C library. A
 * deadlock is one line for all of its threads. Loads the modules for names. Returns when to check again (dp_clock_ns).
 */
int64_t dp_waits_alarm(int64_t stuck_ns);

/*
 * Describes the worst wait under way for a mutex, a rwlock or the end of a thread: a deadlock that has lasted a second;
 * else a wait of a second for a holder that has ended; else the longest wait for a lock, of ten seconds or more. Sets
 * waited_ns to how long it has lasted. False: there is none.
 */
bool dp_waits_worst(char *text, size_t n_bytes, int64_t *waited_ns);
