/* SPDX-License-Identifier: MIT */
/*
 * otel_writer.h - publishes a thread's trace context as OTEP 4947 says: a record, packed, and a thread-local pointer to
 * it that is a dynamic symbol.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

struct __attribute__((packed, aligned(2))) otel_record {
    uint8_t trace_id[16];
    uint8_t span_id[8];
    volatile uint8_t valid;
    uint8_t trace_flags;
    uint16_t attrs_data_size;
    uint8_t attrs_data[32];
};
_Static_assert(sizeof(struct otel_record) == 28 + 32, "28 bytes before the attributes");

extern __attribute__((visibility("default"))) _Thread_local struct otel_record *volatile otel_thread_ctx_v1;

/* A new record becomes visible when it is complete. */
static inline void attach_context(struct otel_record *record, uint8_t trace, uint8_t span)
{
    memset(record->trace_id, trace, sizeof record->trace_id);
    memset(record->span_id, span, sizeof record->span_id);
    record->trace_flags = 1;
    record->attrs_data_size = 5;
    memcpy(record->attrs_data, "\0\3GET", 5);
    record->valid = 1;
    atomic_signal_fence(memory_order_seq_cst);
    otel_thread_ctx_v1 = record;
}
