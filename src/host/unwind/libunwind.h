/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/libunwind.h - walks the stack through libunwind: loads its module, counts the threads inside it, and
 * keeps them out during a fork.
 */
#pragma once

#include "host/unwind/stack_cache.h"

#include <stdbool.h>

struct deltaprof_site;

/* Asks for the module to be loaded. Context: hook. */
void dp_libunwind_want(void);
bool dp_libunwind_wanted(void); /* asked for, not loaded yet, and loading has not failed */
int dp_libunwind_load(void);    /* 0, or -errno. Context: outside hooks */

/*
 * Walks from the caller's registers and writes the frames from site on into cache->others, at most depth. Returns their
 * number, 0 where there is no module, or a fork bars it, or the site is not met; *whole: up to the outermost. sps gets
 * the stack pointer of each frame. Context: hook.
 */
uint32_t dp_libunwind_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth,
                           uintptr_t *sps, bool *whole);

/* Clears cache->inside: after a walk, or at the next one if a longjmp out of a signal handler skipped that. */
void dp_libunwind_exit(struct dp_stack_cache *cache);

void dp_libunwind_fork_prepare(const void *scratch);
void dp_libunwind_fork_parent(void);
void dp_libunwind_fork_child(const void *scratch);
