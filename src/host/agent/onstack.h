/* SPDX-License-Identifier: MIT */
/* host/agent/onstack.h - calls a function on another stack, because an exit path may run on a small signal stack. */
#pragma once

#include <stddef.h>

/*
 * Calls fn(arg) on the n_bytes at stack, which nothing else may use meanwhile; returns when fn does. fn must neither
 * throw nor jump out.
 */
void dp_agent_call_on_stack(void *stack, size_t n_bytes, void (*fn)(void *), void *arg);
