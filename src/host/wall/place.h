/* SPDX-License-Identifier: MIT */
/*
 * host/wall/place.h - finds the place where a thread is off the processor, through files of /proc/self/task/TID that
 * may be kept open. Context: the background thread, under the lock of watch.c.
 */
#pragma once

#include "host/wall/threads.h"

/*
 * The record of the place where the thread is off the processor. 0: it runs, or has run since its CPU clock was
 * clock_ns. keeps: the files may be kept open.
 */
uint32_t dp_wall_place_of(dp_wall_slot slot, int32_t tid, int64_t clock_ns, bool keeps);

/* The thread's time in queues of processors; -1: not known. */
int64_t dp_wall_place_queue_ns(dp_wall_slot slot, int32_t tid, bool keeps);

/* Closes the files of threads that are gone; all: of all threads. */
void dp_wall_place_close(bool all);

/* Drops all files without closing them: the descriptor table that they were open in is not the calling thread's. */
void dp_wall_place_reset(void);
