/* SPDX-License-Identifier: MIT */
/* host/cpu/probe.h - whether the kernel's CPU timers let blocking system calls end as without them. */
#pragma once

#include <stdbool.h>

/*
 * False: a timer's signal may end a blocking call early, with EINTR. Where the kernel's version does not tell, the
 * calling thread tries it, for ten ticks of the kernel's clock; the answer is kept. sig: installed.
 * Context: any thread, not a hook.
 */
bool dp_cpu_probe_is_harmless(int sig);
