/* SPDX-License-Identifier: MIT */
/*
 * init_static.c - the constructor of the hooks in a static program, instead of init.c.
 *
 * There libc is part of the program. Only the order of linking separates its code from the program's: cold code of all
 * files, startup code (main may be there, but no libc code), _start, the program, these hooks, libraries named after
 * them, libc. If the order is different, all code counts as libc's, and no thread is started from a hook (dp_edge).
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
    dp_watch_main();
    deltaprof_gate_open(&DP_GATE, DELTAPROF_GIVES_PAGES);
    deltaprof_announce_hooks(DELTAPROF_HOOKS_MALLOC | DELTAPROF_HOOKS_LOCKS);
}
