/* SPDX-License-Identifier: MIT */
/* tool/serve/child.h - starts programs that end with this process, however it ends. */
#pragma once

#include <sys/types.h>

/*
 * Starts a program with these arguments. output: its standard output, with no standard error; -1: those of this
 * process. The program gets SIGTERM when the calling thread ends. Returns its pid, or -1 with errno.
 */
pid_t dp_serve_child_start(const char *program, char **argv, int output);
