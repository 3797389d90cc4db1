/* SPDX-License-Identifier: MIT */
/*
 * base/relay.c - one buffer for one line; the word `state` says which thread may use it.
 *
 *     CLOSED --open--> EMPTY --line--> FILLING --> FULL --run wrote it--> EMPTY      EMPTY --close--> CLOSED
 *
 * [LINE] FULL publishes the text, EMPTY gives the buffer back. Without the first pair the relay could write an older
 * text; without the second a text could change while it is written.
 *
 * Progress: a thread never waits while it fills the buffer, so FILLING is short. The log callback may be slow; other
 * lines are then dropped after a second. No thread waits longer.
 */
#include "base/relay.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"

#include <string.h>

#define PATIENCE_NS INT64_C(1000000000)

enum { CLOSED, EMPTY, FILLING, FULL };

static struct {
    _Atomic uint32_t state;
    size_t n;
} relay;
static DP_LARGE char line[DP_LOG_LINE_BYTES];
static __thread bool used;

/* Waits for EMPTY and changes it to `to`. False: the relay is closed, or the time is over. */
static bool move_from_empty(uint32_t to)
{
    int64_t deadline_ns = dp_clock_ns() + PATIENCE_NS;
    for (;;) {
        uint32_t state = EMPTY;
        if (dp_cas_acquire(&relay.state, &state, to)) /* [LINE] */
            return true;
        if (state == CLOSED || dp_clock_ns() >= deadline_ns)
            return false;
        dp_futex_wait(&relay.state, state, deadline_ns);
    }
}

void dp_relay_open(void)
{
    dp_store_release(&relay.state, EMPTY);
}

void dp_relay_close(void)
{
    if (!move_from_empty(CLOSED))
        dp_store_release(&relay.state, CLOSED);
    dp_futex_wake(&relay.state);
}

bool dp_relay_is_open(void)
{
    return dp_load_relaxed(&relay.state) != CLOSED;
}

bool dp_relay_run(const _Atomic int64_t *deadline_ns)
{
    for (;;) {
        uint32_t state = dp_load_acquire(&relay.state); /* [LINE] */
        if (state == CLOSED)
            return true;
        if (state == FULL) {
            if (relay.n)
                dp_log_line(line, relay.n);
            if (dp_cas_publish(&relay.state, &state, EMPTY)) /* [LINE]; fails if it was closed meanwhile */
                dp_futex_wake(&relay.state);
            continue;
        }
        int64_t until_ns = dp_load_relaxed(deadline_ns);
        if (dp_clock_ns() >= until_ns)
            return false;
        dp_futex_wait(&relay.state, state, until_ns);
    }
}

/* An empty line changes the state, so a wake cannot fall between the look at the deadline and the wait. */
void dp_relay_wake(void)
{
    dp_relay_line("", 0);
}

void dp_relay_use(void)
{
    used = true;
}

bool dp_relay_is_used(void)
{
    return used;
}

void dp_relay_line(const char *text, size_t n_bytes)
{
    if (!move_from_empty(FILLING))
        return;
    relay.n = n_bytes < sizeof line - 1 ? n_bytes : sizeof line - 1;
    memcpy(line, text, relay.n);
    line[relay.n] = 0;
    uint32_t state = FILLING;
    dp_cas_publish(&relay.state, &state, FULL); /* [LINE] */
    dp_futex_wake(&relay.state);
}

DP_IN_CHILD void dp_relay_fork_child(void)
{
    dp_store_relaxed(&relay.state, CLOSED);
}
