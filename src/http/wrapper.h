/* SPDX-License-Identifier: MIT */
/*
 * http/wrapper.h - programs that start other programs, and the address of `listen` that they share with them. Context:
 * a thread of ours; reads /proc.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether this process has done nothing but start a program and waits for its end, as timeout, `sh -c` and tini do: its
 * one thread, ours aside, waits for a child or a signal, and a child runs another program. False where /proc does not
 * say.
 */
bool dp_wrapper_only_waits(void);

/* The nearest ancestor with an endpoint of its own, and the name of its program; 0: none. */
pid_t dp_wrapper_server_above(char name[16]);
