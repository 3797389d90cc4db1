/* SPDX-License-Identifier: MIT */
/*
 * sink/spawn.h - makes a thread of ours among the host's: every signal blocked from its first instruction on (by
 * pthread_sigmask, which leaves the two that glibc needs), a stack of its own size.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>

/* thread NULL: detached. 0, or a negative errno. Context: where threads may be made. */
int dp_spawn(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg);
