/* SPDX-License-Identifier: MIT */
/*
 * record/thread.h - what a thread has besides its word: a zeroed block of dp_unwind_scratch_bytes() from a bounded pool.
 */
#pragma once

/* The calling thread's block; NULL: the pool is empty. Context: hook, with the thread's word parked. */
void *dp_thread_scratch(void);
