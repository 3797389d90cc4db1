/* SPDX-License-Identifier: MIT */
/*
 * unwind/libunwind.h - walks through libunwind: its module, who is inside, and the bar at a fork.
 */
#pragma once

#include "unwind/stack_cache.h"

#include <stdbool.h>

struct deltaprof_site;

/* The module is wanted from now on. Context: hook. */
void dp_libunwind_want(void);
bool dp_libunwind_wanted(void); /* and not there yet, and may still come */
int dp_libunwind_load(void);    /* 0, or -errno. Context: above the waterline */

/*
 * Walks from the caller's registers and writes the frames from site on into cache->others, at most depth. Returns their
 * number, 0 where there is no module, or a fork bars it, or the site is not met; *whole: up to the outermost. sps gets
 * the stack pointer of each frame. Context: hook.
 */
uint32_t dp_libunwind_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth,
                           uintptr_t *sps, bool *whole);

/* Takes cache->inside back: after a walk, and at the next one where a longjmp out of a handler left it behind. */
void dp_libunwind_exit(struct dp_stack_cache *cache);

void dp_libunwind_fork_prepare(const void *scratch);
void dp_libunwind_fork_parent(void);
void dp_libunwind_fork_child(const void *scratch);
