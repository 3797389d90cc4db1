/* SPDX-License-Identifier: MIT */
/*
 * unwind/unwind.h - from a site to a stack of frame ids, without a lock, an allocation or the loader.
 *
 * Context of walk: hook, with the thread's countdown guarded. It reads only memory that is there, ends at any frame
 * that it cannot step from, and then keeps what it has and counts the cut.
 */
#pragma once

#include "base/config.h"
#include "unwind/stack.h"

#include <stdbool.h>

struct deltaprof_site;

/* depth: most frames kept. budget_bytes: of dp_mem for rules. Context: init. */
int dp_unwind_init(enum dp_unwind_mode mode, unsigned depth, size_t budget_bytes);

/* Bytes of scratch memory that a walk wants, the same for each walk of a thread; zeroed at first. After init. */
size_t dp_unwind_scratch_bytes(void);

/* scratch: at least dp_unwind_scratch_bytes, the calling thread's, or NULL: then only the leaf is kept. Fills stack
 * with the calling thread's frames from site rootward; at least one frame (perhaps synthetic). Frames of runtimes
 * stand in it where their providers put them. */
void dp_unwind_walk(void *scratch, const struct deltaprof_site *site, struct dp_stack *stack);

/* libunwind is wanted (a frame that rules cannot say was met, or unwind=libunwind) and not yet loaded. */
bool dp_unwind_wants_module(void);
/* Opens it. Context: above the waterline, where dlopen may be called. 0, or what went wrong, said once in the log by
 * the caller. */
int dp_unwind_load_module(void);

/* Bars new walks from entering libunwind and waits until none is inside; then lifts the bar. Context: fork handlers. */
void dp_unwind_fork_prepare(const void *scratch);
void dp_unwind_fork_parent(void);
void dp_unwind_fork_child(const void *scratch);
