/* SPDX-License-Identifier: MIT */
/*
 * http/listen.h - the embedded endpoint: a thread of ours that serves `listen`.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>

/*
 * Opens the http module, so that a forked child has it without the loader, and starts the thread, which binds after a
 * second. An address that cannot be served is one line in the log. Context: init.
 */
void dp_listen_init(const struct dp_config *conf);

/* Makes the thread if it is wanted and there is none, since a fork or a stop; it binds a second after that. True: it
 * was made now. Context: where threads may be made. */
bool dp_listen_start(void);

/* Ends the thread and waits for it. False: there was none. */
bool dp_listen_stop(void);
/* The same, for good. */
void dp_listen_forbid(void);

/* No thread lives on in a forked child. Only stores. */
void dp_listen_fork_child(void);
