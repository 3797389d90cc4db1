/* SPDX-License-Identifier: MIT */
/*
 * init_static.c - the constructor of the hooks in a static program, in place of init.c.
 *
 * libc is part of the program there. What tells it from the program's own code is the order of the link: cold code of
 * all, what runs once (main may stand there, nothing of libc's does), _start, the program, these hooks, libraries that
 * were named after them, libc. Where the order is another one, all code is taken for libc's, and nothing is started out
 * of a hook (dp_edge).
 */
#include "hook.h"

#include <stdlib.h>

struct dp_range dp_libc, dp_loader;
struct deltaprof_gate dp_hooks_gate;

extern void _start(void);
extern int main(int, char **);

/* Before the program's own constructors, one of which may start the profiler. */
__attribute__((constructor(101))) static void init(void)
{
    uintptr_t start = (uintptr_t)_start, first = (uintptr_t)main, hooks = (uintptr_t)malloc;
    uintptr_t program = first < start ? first : start;
    bool in_order = program < hooks && hooks < (uintptr_t)DP_REAL(_exit);
    dp_loader.end = in_order ? program : UINTPTR_MAX;
    dp_libc = (struct dp_range){hooks, UINTPTR_MAX};
    at_quick_exit(deltaprof_before_exit); /* the first registered runs last */
    deltaprof_gate_open(&DP_GATE, true);
    deltaprof_announce_hooks(DELTAPROF_HOOKS_MALLOC | DELTAPROF_HOOKS_LOCKS);
}
