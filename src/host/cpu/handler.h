/* SPDX-License-Identifier: MIT */
/* host/cpu/handler.h - the signal handler that records a sample of CPU time. */
#pragma once

#include <signal.h>
#include <stdint.h>

/* Maps the memory for walks, once. -ENOMEM: samples have no stacks. Context: any thread, not a hook. */
int dp_cpu_handler_init(void);

/* Records the sample of a timer's signal. Async-signal-safe; the signal itself is blocked meanwhile. errno is kept. */
void dp_cpu_handle(const siginfo_t *info, void *context);

/* Samples since start; and those of them that met a system call that returned EINTR. */
uint64_t dp_cpu_n_handled(void);

/* In a forked child: the walks of other threads are gone. Only stores. */
void dp_cpu_handler_fork_child(void);
