/* SPDX-License-Identifier: MIT */
/*
 * host/agent/agent.h - the background thread that writes profiles. It is created late and ends on request; a thread of
 * the host that waits for it gives a deadline. Context: any thread; request_tick and finish are async-signal-safe.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Notes the settings; the first tick is due an interval from now. Starts nothing. interposed: a hook will call
 * dp_agent_before_thread_exit when the main thread leaves.
 */
void dp_agent_init(const struct dp_config *conf, bool interposed);
void dp_agent_tune(const struct dp_config *conf);

/*
 * Whether the process is old enough for a sampled allocation to create the profiler's threads. Mostly a load and a
 * coarse clock.
 */
bool dp_agent_may_poll(void);
/* Makes dp_agent_may_poll false for the next second. */
void dp_agent_poll_later(void);

/*
 * fn carries out commands from outside. The agent calls it some times a second, and ends itself if fn returns true.
 * While there is no agent, hooks must call deltaprof_poll for that. NULL: no commands any more.
 */
void dp_agent_set_commands(bool (*fn)(void));
/* Whether the library needs a thread that it does not have. */
bool dp_agent_needs_poll(void);

/* wanted: the endpoint's thread has to be created too, so polling continues. */
void dp_agent_keep_polling(bool wanted);

/*
 * Creates the thread if it is needed and missing. Returns 1: created now; 0: nothing to do; or a negative errno.
 * Context: where threads may be created.
 */
int dp_agent_start(void);
/* The id of the thread that created the last agent. */
int32_t dp_agent_maker(void);

/* A profile that the agent records has begun: creates the agent if it is missing, and wakes it. */
void dp_agent_watch(void);

/* Asks the agent for a tick soon. */
void dp_agent_request_tick(void);

/*
 * Waits for a tick that begins after this call. True: it ended by deadline_ns. False: there is no agent, or it is late.
 */
bool dp_agent_finish(int64_t deadline_ns);
bool dp_agent_is_running(void);
bool dp_agent_is_self(void);

/* Ends the thread, and waits until the kernel has removed it. False: not by deadline_ns; the thread continues. */
bool dp_agent_quiesce(int64_t deadline_ns);

/*
 * Between the two no agent is created; they may nest, in several threads. block_starts waits for one that is being
 * created now, until deadline_ns. unblock_starts returns whether no other thread blocks.
 */
void dp_agent_block_starts(int64_t deadline_ns);
bool dp_agent_unblock_starts(void);
bool dp_agent_is_blocked(void);
/* A thread that quiesce found late ends as soon as it can, and may be created again then. */
void dp_agent_end_late(void);

/*
 * To be called before the main thread calls pthread_exit: then the last other thread ends the process. May wait a
 * moment.
 */
void dp_agent_before_thread_exit(int64_t deadline_ns);

/* No thread is created until the next init; a running one continues until quiesce. */
void dp_agent_retire(void);
/* No thread is created from now on. */
void dp_agent_forbid(void);

/* Only stores. */
void dp_agent_fork_child(void);
