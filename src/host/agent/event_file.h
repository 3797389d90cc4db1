/* SPDX-License-Identifier: MIT */
/* host/agent/event_file.h - writes the events of a tick to a file of kind `events`, if the key events asks for it. */
#pragma once

#include "config/config.h"
#include "host/agent/profile_file.h"
#include "host/symbols/symbol.h"

/* The directory of the events is made at the first write. Context: init. */
void dp_agent_events_sink_init(const struct dp_config *conf);

/*
 * Writes the events of `files`' tick, beside its other files or into the directory that the key names. names: the
 * files that the tick has open for names. flags: of dp_consumer_write; with DP_WRITE_NO_WAIT it is repeated until
 * deadline_ns while another thread holds the symbols lock. Returns 0, also without events, or -errno: then the events
 * stay for the next tick.
 */
int dp_agent_events_sink_write(struct dp_agent_files *files, struct dp_symbols_files *names, unsigned flags,
                               int64_t deadline_ns);
