/* SPDX-License-Identifier: MIT */
/*
 * record/foreign.h - walks through libunwind: its module, who is inside, and the bar at a fork.
 */
#pragma once

#include "record/memo.h"

struct deltaprof_site;

/* The module is wanted from now on. Context: hook. */
void dp_foreign_want(void);
int dp_foreign_wanted(void); /* and not there yet, and may still come */
int dp_foreign_load(void);   /* 0, or -errno. Context: above the waterline */

/*
 * Walks from the caller's registers and writes the frames from site on into memo->others, at most depth. Returns their
 * number, 0 where there is no module, or a fork bars it, or the site is not met; *whole: up to the outermost. Context:
 * hook.
 */
uint32_t dp_foreign_walk(struct dp_memo *memo, const struct deltaprof_site *site, unsigned depth, bool *whole);

/* Takes memo->inside back: after a walk, and at the next one where a longjmp out of a handler left it behind. */
void dp_foreign_leave(struct dp_memo *memo);

void dp_foreign_fork_prepare(void);
void dp_foreign_fork_parent(void);
void dp_foreign_fork_child(void);
