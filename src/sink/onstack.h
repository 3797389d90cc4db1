/* SPDX-License-Identifier: MIT */
/* sink/onstack.h - calls a function on another stack: exit paths run on whatever signal stack a crash left them. */
#pragma once

#include <stddef.h>

/* fn(arg) on the n_bytes at stack, which nobody else uses meanwhile; returns when fn does. fn neither throws nor jumps
 * out.
 */
void dp_call_on_stack(void *stack, size_t n_bytes, void (*fn)(void *), void *arg);
