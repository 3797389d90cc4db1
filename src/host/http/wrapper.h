/* SPDX-License-Identifier: MIT */
/*
 * host/http/wrapper.h - recognizes programs that only start another program and share the address of `listen` with it.
 * Context: the serving thread of listen.c; opens files of /proc.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether this process only started a program and waits for its end, as timeout, `sh -c` and tini do: its one thread
 * (the profiler's not counted) waits for a child or a signal, and a child runs another program. False if /proc gives no
 * answer.
 */
bool dp_http_wrapper_only_waits(void);

/* The nearest ancestor with an endpoint, and the name of its program; 0: none. */
pid_t dp_http_wrapper_server_above(char name[16]);
