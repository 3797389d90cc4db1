/* SPDX-License-Identifier: MIT */
/*
 * host/locks/alarm.h - logs a line for each thread that has waited too long for a lock with a holder, and for each
 * deadlock. Context: outside hooks; one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Checks the waits under way and logs those that have lasted stuck_ns, each once; a deadlock is one line for all of its
 * threads. Returns the time of the next check: no wait can have lasted so long before. Opens the modules that names
 * need.
 */
int64_t dp_waits_alarm(int64_t stuck_ns);

/*
 * Describes the worst wait under way for a lock with a holder: first a deadlock, then one whose holder has ended, each
 * after a second, then the longest of ten seconds or more. False: there is none. waited_ns: how long it has lasted.
 */
bool dp_waits_worst(char *text, size_t n_bytes, int64_t *waited_ns);
