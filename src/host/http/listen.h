/* SPDX-License-Identifier: MIT */
/* host/http/listen.h - the embedded endpoint: threads of the profiler that serve the address of `listen`. */
#pragma once

#include "config/config.h"

#include <stdbool.h>

/*
 * Opens the http module, so that a forked child need not call the loader, and starts the thread, which binds after a
 * second. If an address cannot be served, one line is logged. Context: init.
 */
void dp_http_listen_init(const struct dp_config *conf);

/*
 * Creates the thread if it is needed and missing, after a fork or a stop; it binds a second later. True: created now.
 * Context: where threads may be created.
 */
bool dp_http_listen_start(void);

bool dp_http_listen_is_running(void);

/*
 * Ends the thread and waits for it until deadline_ns (dp_clock_ns). False: there was none, or it has not ended yet: it
 * may wait for a lock of the program that the calling thread holds. From a signal handler that interrupted this
 * function it returns false at once.
 */
bool dp_http_listen_stop(int64_t deadline_ns);
/* The same, and it is never started again. */
void dp_http_listen_forbid(int64_t deadline_ns);
/*
 * To be called before the main thread calls pthread_exit, after dp_agent_alone_main_exits: the endpoint goes on until
 * the program's last thread has ended. May wait a moment.
 */
void dp_http_listen_before_thread_exit(void);

/* Resets the state in a forked child, which has no such thread. Only stores. */
void dp_http_listen_fork_child(void);
