/* SPDX-License-Identifier: MIT */
/*
 * host/report/consumer.c - sets and returns the settings of a consumer (names, addresses, types, number of rows, ages);
 * gets and gives back its write buffers.
 */
#include "host/report/consumer.h"

#include <errno.h>

void dp_consumer_configure(struct dp_consumer *c, const struct dp_config *conf)
{
    c->follows &= !dp_config_given(conf, "symbolize");
    c->symbolize = conf->symbolize;
    c->address = conf->address;
    c->types = conf->types;
    c->max_samples = conf->max_samples;
    c->age = conf->age;
}

void dp_consumer_configuration(const struct dp_consumer *c, struct dp_config *conf)
{
    dp_config_init(conf);
    conf->symbolize = c->symbolize;
    conf->address = c->address;
    conf->types = c->types;
    conf->max_samples = c->max_samples;
    conf->age = c->age;
}

enum dp_symbolize dp_consumer_symbolize(const struct dp_consumer *c)
{
    return c->symbolize;
}

void dp_consumer_set_frames(struct dp_consumer *c, deltaprof_name_fn fn, void *ctx)
{
    c->name_fn = fn;
    c->name_ctx = ctx;
}

void dp_consumer_filter(struct dp_consumer *c, unsigned locks)
{
    c->locks = dp_kind_table[c->kind].has_locks ? locks : 0;
}

void dp_consumer_set_default_type(struct dp_consumer *c, const char *type)
{
    c->default_type = type;
}

void dp_consumer_share_files(struct dp_consumer *c, struct dp_symbols_files *files)
{
    c->files = files;
}

int64_t dp_consumer_covered_ns(const struct dp_consumer *c)
{
    return dp_load_relaxed(&c->covered_ns);
}

int dp_consumer_get_buffers(struct dp_consumer *c)
{
    c->buffers = dp_report_write_buffers_get();
    return c->buffers ? 0 : -ENOMEM;
}

/* Between writes a consumer keeps only its baseline. */
void dp_consumer_put_buffers(struct dp_consumer *c)
{
    dp_report_write_buffers_put(c->buffers, c->memory_bytes / 16);
    if (c->source_of_kind->free_more)
        c->source_of_kind->free_more(&c->more);
    c->buffers = NULL;
    c->pending = false;
}
