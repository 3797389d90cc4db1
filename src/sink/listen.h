/* SPDX-License-Identifier: MIT */
/*
 * sink/listen.h - the embedded endpoint: a thread of ours that serves `listen`.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>

/*
 * Opens the http module, so that a forked child has it without the loader, and starts the thread, which binds after a
 * second. loud: a port that is taken is worth a line in the log. Context: init.
 */
void dp_listen_init(const struct dp_config *conf, bool loud);

/* Wanted and not running, since a fork or a stop a second ago. Two loads and a coarse clock. */
bool dp_listen_due(void);
/* Makes the thread again. A second call while it runs does nothing. Context: where threads may be made. */
void dp_listen_start(void);

/* Ends the thread and waits for it; it is due again a second later. */
void dp_listen_stop(void);
/* The same, for good. */
void dp_listen_forbid(void);

/* No thread lives on in a forked child. Only stores. */
void dp_listen_fork_child(void);
