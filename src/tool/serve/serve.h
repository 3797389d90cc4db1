/* SPDX-License-Identifier: MIT */
/*
 * tool/serve/serve.h - one endpoint for all profiled processes of a directory of tables.
 *
 *     workers    the readers of the processes: they return deltas, profiles of what happened since the last one
 *     unwritten  the last files of ended processes, where they could not be written
 *     join       joins deltas into one profile
 *     cursors    the deltas that each client has not received yet
 *     saved      the file by which cursors go on in a later server
 *     family     the workers and the cursors, under one lock
 *     pages      the index and the metrics
 *     history    the live page, which begins with the files on disk
 *     answer     the replies
 *     child      starts programs
 *     pushers    the programs that send the files to databases
 *     serve      the socket, and the thread that looks for processes that began or ended
 */
#pragma once

#include "config/address.h"
#include "tool/serve/pushers.h"

#include <stdbool.h>
#include <sys/types.h>

struct dp_serve_options {
    const char *listen; /* as the key `listen` */
    const char *token;  /* file; "": none */
    const char *tables; /* directory; NULL: the user's own one */
    const char *out;    /* directory for files of processes that write none; NULL: none are written */
    int64_t interval_ns;
    int64_t keep;                          /* ticks of files, as of dp_recover_files_limit */
    const char *to[DP_SERVE_PUSHERS_MOST]; /* receivers of these files */
    size_t n_to;
    const char *pusher; /* the program that sends them */
    pid_t program;      /* ends when this process and all others of the directory have ended; 0: at a signal */
};

/* Parses the address that `option` of `verb` has. False: the reason was printed. */
bool dp_serve_address_parse(const char *text, bool has_token, const char *verb, const char *option,
                            struct dp_config_address *);

/* Serves until SIGINT or SIGTERM. Returns an exit status; errors were printed. */
int dp_serve_run(const struct dp_serve_options *);
