/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/outside.h - where the names of another process are found, by a process that has copied its tables. Its
 * memory is not read, and the loader of this process knows nothing of it.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

extern struct dp_symbols_outside {
    bool is_on;         /* all below is of another process */
    char proc[32];      /* "/proc/PID"; "": it has ended */
    int pid;            /* 0: it is of another pid namespace */
    const char *exe;    /* the program's file, absolute; "": not known */
    const char *execfn; /* the path that it was started by */
} dp_symbols_outside DP_INTERNAL;
