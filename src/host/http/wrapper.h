/* SPDX-License-Identifier: MIT */
/*
 * host/http/wrapper.h - recognizes a wrapper: a process that only started another program, with the same configuration,
 * and so competes with it for the address of `listen`. Context: the serving thread of listen.c; opens files of /proc.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether this process is a wrapper, as timeout, `sh -c` and tini are: beside the profiler's threads it has one thread,
 * which waits for a child or a signal, and one of its children has executed a program. False also if /proc cannot be
 * read.
 */
bool dp_http_wrapper_only_waits(void);

/* Returns the nearest ancestor process with an endpoint, and the name of its program; 0: none. */
pid_t dp_http_wrapper_server_above(char name[16]);
