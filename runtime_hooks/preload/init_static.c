/* SPDX-License-Identifier: MIT */
/*
 * init_static.c - the constructor of the hooks in a static program, in place of init.c. It finds the address ranges of
 * the program and of libc (dp_libc, dp_loader), because no thread is started in a hook that libc called (dp_edge).
 *
 * In a static program both are one file, in the order of linking: cold code of all files, startup code (maybe with
 * main, without libc code), _start, the program, these hooks, libraries named after them, libc. So only code between
 * _start or main and the hooks counts as the program's. If the addresses are in another order, none does.
 */
#include "hook.h"

#include <stdlib.h>

struct dp_range dp_libc, dp_loader;
struct deltaprof_gate dp_hooks_gate;

extern void _start(void);
extern int main(int, char **);

/* Runs before the constructors of the program, which may start the profiler. */
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
