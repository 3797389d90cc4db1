/* SPDX-License-Identifier: MIT */
/*
 * sink/agent.h - the background thread that writes profiles. It is made late and ends when asked; a thread of the host
 * that waits for it names a deadline. Context: any thread; ring and finish are async-signal-safe.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Notes what is wanted; the first tick is due an interval from now. Starts nothing. interposed: somebody will say when
 * main leaves (dp_agent_before_thread_exit).
 */
void dp_agent_init(const struct dp_config *conf, bool interposed);
void dp_agent_tune(int64_t interval_ns);

/* Whether the process is old enough for a sampled allocation to make threads of ours. Mostly a load and a coarse clock.
 */
bool dp_agent_may_poll(void);
/* Not for the next second. */
void dp_agent_poll_later(void);

/* The endpoint's thread, too, waits for an occasion to be made. */
void dp_agent_keep_polling(bool wanted);

/* Makes the thread if it is wanted and there is none. 1: it was made now. 0: nothing was to be done. Or a negative
 * errno. Context: where threads may be made. */
int dp_agent_start(void);
/* The id of the thread that made the last one. */
int32_t dp_agent_maker(void);

/* Ticks soon, in the agent. */
void dp_agent_ring(void);

/* True: the agent ended a tick that began after this call, by deadline_ns. False: there is no agent, or it is late. */
bool dp_agent_finish(int64_t deadline_ns);
bool dp_agent_is_running(void);
bool dp_agent_is_self(void);

/* Ends the thread, and waits until the kernel has forgotten it; false: not by deadline_ns, it goes on. */
bool dp_agent_quiesce(int64_t deadline_ns);

/* The main thread is about to call pthread_exit: the last of the others ends the process. May wait a moment. */
void dp_agent_before_thread_exit(int64_t deadline_ns);

/* No thread is wanted until the next init; one that runs goes on until quiesce. */
void dp_agent_retire(void);
/* No thread is made from now on. */
void dp_agent_forbid(void);

/* Only stores. */
void dp_agent_fork_child(void);
