/* SPDX-License-Identifier: MIT */
/* host/wall/wall_source.c - reports the time of threads. A row has the values samples and wall, and the label `state`.
 */
#include "base/text.h"
#include "host/cpu/watch.h"
#include "host/report/kind_source.h"
#include "host/wall/threads.h"
#include "host/wall/watch.h"

static void settle(void)
{
    dp_wall_settle(false);
}

static const struct dp_delta_rules rules = {.kind = DP_KIND_WALL, .prepare = settle};

/* A window turns the CPU profile on too, if it is off: running time has the stacks of CPU samples. */
static void window_begin(void)
{
    dp_cpu_window_begin(DP_CPU_PERIOD_NS);
    dp_wall_window_begin(DP_WALL_PERIOD_NS);
}

static void window_end(void)
{
    dp_cpu_settle(true);
    dp_wall_window_end();
    dp_cpu_window_end();
}

static const char *state(const struct dp_record *record)
{
    return dp_wall_state_name(dp_wall_state_of(record->labels));
}

static bool is_idle(const struct dp_record *record)
{
    return dp_wall_state_is_idle(dp_wall_state_of(record->labels));
}

static size_t text_header(const struct dp_rows *rows, char *text, size_t n_bytes)
{
    (void)rows;
    return dp_text_format(text, n_bytes, "--- threads' time:\nnanoseconds, samples; time between looks=%lld\n",
                          (long long)dp_wall_profile_period_ns());
}

static size_t text_row(const int64_t *values, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%lld %lld @", (long long)values[1], (long long)values[0]);
}

const struct dp_kind_source dp_wall_source = {
    .rules = &rules,
    .period = dp_wall_profile_period_ns,
    .window_begin = window_begin,
    .window_end = window_end,
    .needs_agent = true,
    .state = state,
    .is_idle = is_idle,
    .is_interrupted = true,
    .text_header = text_header,
    .text_row = text_row,
    .text_end = "\n--- Memory map: ---\n",
};
