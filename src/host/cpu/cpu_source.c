/* SPDX-License-Identifier: MIT */
/* host/cpu/cpu_source.c - reports of CPU time. A row is {samples, cpu}; the sums are those of the threads' CPU clocks.
 */
#include "base/text.h"
#include "host/cpu/address_rows.h"
#include "host/cpu/watch.h"
#include "host/report/consumer.h"

static void settle(void)
{
    dp_cpu_settle(false);
}

static const struct dp_delta_rules rules = {.kind = DP_KIND_CPU, .prepare = settle};

_Static_assert(sizeof(struct dp_address_deltas) <= sizeof(struct dp_kind_state), "the memory of a consumer");

static struct dp_address_baseline *delivered_of(struct dp_kind_state *state)
{
    return (struct dp_address_baseline *)(void *)state->bytes;
}

static struct dp_address_deltas *deltas_of(struct dp_kind_state *state)
{
    return (struct dp_address_deltas *)(void *)state->bytes;
}

static void add_more(struct dp_consumer *c, unsigned flags, struct dp_emission *e)
{
    bool cumulative = flags & DP_WRITE_CUMULATIVE;
    dp_address_rows_split(&c->buffers->rows, cumulative ? NULL : delivered_of(&c->delivered), deltas_of(&c->more));
}

static int skip(struct dp_consumer *c)
{
    return dp_address_rows_skip(delivered_of(&c->delivered), deltas_of(&c->more));
}

static void commit(struct dp_kind_state *delivered, const struct dp_kind_state *more)
{
    dp_address_rows_commit(delivered_of(delivered), (const struct dp_address_deltas *)(const void *)more->bytes);
}

static void restart(struct dp_kind_state *delivered)
{
    dp_vec_clear(delivered_of(delivered));
}

static void free_more(struct dp_kind_state *more)
{
    dp_vec_fini(deltas_of(more));
}

static void free_delivered(struct dp_kind_state *delivered)
{
    dp_vec_fini(delivered_of(delivered));
}

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
    .add_more = add_more,
    .skip = skip,
    .commit = commit,
    .restart = restart,
    .free_more = free_more,
    .free_delivered = free_delivered,
    .is_interrupted = true,
    .text_header = text_header,
    .text_row = text_row,
    .text_end = "\n--- Memory map: ---\n",
};
