/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/serve.h - one endpoint for all profiled processes of a directory of tables.
 *
 *     workers    a reader for each process; what happened since the last look, as deltas
 *     cursors    what each client has not taken yet
 *     answer     the pages
 *     serve      the socket, and the thread that looks for processes that began or ended
 *
 * Arrows go from below to above.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct dp_serve_options {
    const char *listen; /* as the key `listen` */
    const char *token;  /* file; "": none */
    const char *tables; /* directory; NULL: the user's own one */
    pid_t program;      /* ends when this process and all others of the directory have ended; 0: at a signal */
};

/* Serves until SIGINT or SIGTERM. Returns an exit status; errors were printed. */
int dp_serve_run(const struct dp_serve_options *);
