/* SPDX-License-Identifier: MIT */
/*
 * host/wall/place.h - finds out where a thread waits, through /proc/self/task/TID, with descriptors that are kept.
 * Context: the thread that looks, under its lock.
 */
#pragma once

#include "host/wall/threads.h"

/*
 * The record of the place where the thread waits; 0: it runs, or has run since its CPU clock was clock_ns. keeps:
 * descriptors may stay open.
 */
uint32_t dp_wall_place_of(dp_wall_slot slot, int32_t tid, int64_t clock_ns, bool keeps);

/* The thread's time in queues, by its kept descriptor if there is one. */
int64_t dp_wall_place_queue_ns(dp_wall_slot slot, int32_t tid, bool keeps);

/* Closes the descriptors of threads that are gone; all: of all. */
void dp_wall_place_close(bool all);

/* The table of descriptors that they were kept in is gone, or is another thread's. */
void dp_wall_place_reset(void);
