/* SPDX-License-Identifier: MIT */
/* Writes that take long, by a clock of the test: peaks.c is compiled in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "host/agent/tick.h"
#include "host/cpu/timers.h"
#include "host/heap/heap.h"
#include "host/heap/peak.h"

#define S INT64_C(1000000000)

static int64_t fake_ns, write_ns; /* the clock, and how long a write takes */

static int write_profiles(void)
{
    fake_ns += write_ns;
    return 0;
}

#define dp_clock_ns()             fake_ns
#define dp_cpu_own_clock_ns()     INT64_C(0)
#define dp_agent_tick(deadline)   write_profiles()
#define dp_agent_tick_directory() "/srv/out"
#include "host/agent/peaks.c"

static void write_for(int64_t ns)
{
    write_ns = ns;
    dp_agent_peaks_tick();
}

static char said[1024];

static void take_line(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static void a_write_of_a_minute_is_said_once(void **state)
{
    (void)state;
    dp_log_init("stderr");
    dp_log_to(take_line, NULL);
    write_for(59 * S);
    assert_string_equal(said, "");
    write_for(75 * S);
    write_for(90 * S);
    assert_non_null(
        strstr(said, "a write of profiles in /srv/out took 75 s: its file system hangs, or the process was stopped"));
    assert_ptr_equal(strchr(said, '\n') + 1, said + strlen(said));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_write_of_a_minute_is_said_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
