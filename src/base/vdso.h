/* SPDX-License-Identifier: MIT */
/* base/vdso.h - finds the functions that the kernel maps into each process. */
#pragma once

#include <time.h>

typedef int (*dp_vdso_clock_fn)(clockid_t id, struct timespec *t); /* 0 or a negative errno */

/* NULL: the kernel maps none. Context: any, async-signal-safe. */
dp_vdso_clock_fn dp_vdso_clock(void);
