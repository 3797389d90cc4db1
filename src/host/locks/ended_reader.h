/* SPDX-License-Identifier: MIT */
/*
 * host/locks/ended_reader.h - remembers threads that ended while they held a rwlock for reading: the lock only counts
 * its readers. Another lock may replace a row. Context: hook; async-signal-safe.
 */
#pragma once

#include <stdint.h>

/* The thread ends, and has not unlocked the rwlock. */
void dp_ended_reader_note(uintptr_t lock, int32_t tid);

/* The lock was destroyed: a later one at this address has other readers. */
void dp_ended_reader_drop(uintptr_t lock);

/* A thread of this process that noted this before its end; 0: none. It may not have ended yet. */
int32_t dp_ended_reader_find(uintptr_t lock);
