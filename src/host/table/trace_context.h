/* SPDX-License-Identifier: MIT */
/*
 * host/table/trace_context.h - the trace that the calling thread works for: what OpenTelemetry's SDK published in its
 * thread-local variable otel_thread_ctx_v1 (OTEP 4947), else what the program set by deltaprof_trace_set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DP_TRACE_ID_BYTES = 16, DP_TRACE_SPAN_BYTES = 8, DP_TRACE_WORDS = 3 };

/* The bytes of a trace id and of a span id. False: the thread has no context. Context: hook. */
bool dp_trace_context_read(uint64_t trace[DP_TRACE_WORDS]);

/* Sets the calling thread's own context: 16 bytes and 8, or NULL and NULL. Context: any. */
void dp_trace_context_set(const void *trace_id, const void *span_id);

/*
 * Where the published variable lies in each thread. Zero: there is none. The loader gives a variable of a module either
 * the same distance from every thread pointer, or a block of its own in each thread, which the thread's vector of
 * modules (dtv) has once the thread has used it.
 */
struct dp_trace_place {
    uint32_t module; /* its number in the vector; 0: the distance is fixed */
    int32_t offset;  /* in the module's block, or from the thread pointer */
};
void dp_trace_context_place(struct dp_trace_place place);
uintptr_t dp_trace_context_thread_pointer(void);
