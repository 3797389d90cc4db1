/* SPDX-License-Identifier: MIT */
/* host/cpu/cpu_source.c - reports of CPU time. A row is {samples, cpu}; the sums are those of the threads' CPU clocks.
 */
#include "base/text.h"
#include "host/cpu/watch.h"
#include "host/report/kind_source.h"

static void settle(void)
{
    dp_cpu_settle(false);
}

static const struct dp_delta_rules rules = {.kind = DP_KIND_CPU, .prepare = settle};

static size_t text_header(const struct dp_rows *rows, char *text, size_t n_bytes)
{
    (void)rows;
    return dp_text_format(text, n_bytes, "--- CPU time:\nnanoseconds, samples; sampling period=%lld\n",
                          (long long)dp_cpu_profile_period_ns());
}

static size_t text_row(const int64_t *values, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%lld %lld @", (long long)values[1], (long long)values[0]);
}

static void window_begin(void)
{
    dp_cpu_window_begin(DP_CPU_PERIOD_NS);
}

const struct dp_kind_source dp_cpu_source = {
    .rules = &rules,
    .period = dp_cpu_profile_period_ns,
    .window_begin = window_begin,
    .window_end = dp_cpu_window_end,
    .text_header = text_header,
    .text_row = text_row,
    .text_end = "\n--- Memory map: ---\n",
};
