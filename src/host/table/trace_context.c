/* SPDX-License-Identifier: MIT */
/*
 * host/table/trace_context.c - reads the record that an OpenTelemetry SDK published for the calling thread.
 *
 *     otel_thread_ctx_v1 (thread-local) --> trace id [16] | span id [8] | valid | trace flags | size [2] | attributes
 *
 * The protocol is that of signal handlers: only the thread itself writes the pointer and its record, and a hook or a
 * handler of that thread reads them. So nothing here is atomic but the variable's place, which a report finds
 * (host/report/published_trace.c): a hook must not ask the loader. It must not make the loader allocate a thread's
 * block either, so it reads the vector of modules itself. glibc's has 16 bytes for each module, {block, to_free};
 * before the first stands the number of entries, and a block that was not used yet is -1.
 *
 * The kernel is asked whether the record can be read, because a program that ends a span late may have freed it.
 */
#include "host/table/trace_context.h"

#include "base/atomic.h"
#include "base/mem.h"
#include "host/objects/reach.h"
#include "host/thread/thread.h"

#include <string.h>

enum { VALID_AT = 24, HEADER_BYTES = 28 };

static _Atomic uint64_t published; /* a struct dp_trace_place; 0: none */

void dp_trace_context_place(struct dp_trace_place place)
{
    dp_store_relaxed(&published, (uint64_t)place.module << 32 | (uint32_t)place.offset);
}

uintptr_t dp_trace_context_thread_pointer(void)
{
#ifdef __x86_64__
    uintptr_t pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

struct vector_entry {
    uintptr_t block, to_free;
};

static const struct vector_entry *vector_of(uintptr_t thread_pointer)
{
#ifdef __x86_64__
    thread_pointer += sizeof(void *);
#endif
    return *(const struct vector_entry *const *)thread_pointer;
}

/* The address of the calling thread's variable; 0: it has none yet. */
static uintptr_t find_address(struct dp_trace_place place)
{
    uintptr_t pointer = dp_trace_context_thread_pointer();
    if (!place.module)
        return pointer + (uintptr_t)(intptr_t)place.offset;
    const struct vector_entry *vector = vector_of(pointer);
    if (!vector || place.module > vector[-1].block || !vector[place.module].block ||
        vector[place.module].block == UINTPTR_MAX)
        return 0;
    return vector[place.module].block + (uintptr_t)(intptr_t)place.offset;
}

static bool is_readable(uintptr_t record)
{
    uintptr_t last = record + HEADER_BYTES - 1;
    return dp_reach_probe(record) && (dp_page_floor(record) == dp_page_floor(last) || dp_reach_probe(last));
}

/* no_sanitize: the record is the program's. Bytes are copied one by one, for the same reason. */
static __attribute__((noinline, no_sanitize("address", "thread"))) bool read_published(uint64_t place,
                                                                                       uint64_t trace[DP_TRACE_WORDS])
{
    uintptr_t at = find_address((struct dp_trace_place){(uint32_t)(place >> 32), (int32_t)place});
    const volatile unsigned char *record = at ? *(const volatile unsigned char *volatile *)at : NULL;
    if (!record || !is_readable((uintptr_t)record) || record[VALID_AT] != 1)
        return false;
    unsigned char bytes[DP_TRACE_ID_BYTES + DP_TRACE_SPAN_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = record[i];
    memcpy(trace, bytes, sizeof bytes);
    return (trace[0] | trace[1]) && trace[2]; /* zeros: no active span */
}

bool dp_trace_context_read(uint64_t trace[DP_TRACE_WORDS])
{
    const struct dp_thread *self = dp_thread_self();
    uint64_t place = dp_load_relaxed(&published);
    if (place && read_published(place, trace))
        return true;
    /* Word by word: the thread sanitizer does not see a memcpy that the compiler expands. */
    for (int i = 0; self->traced && i < DP_TRACE_WORDS; i++)
        trace[i] = self->trace[i];
    return self->traced;
}

/* A signal handler between two stores finds no trace. */
void dp_trace_context_set(const void *trace_id, const void *span_id)
{
    struct dp_thread *self = dp_thread_self();
    self->traced = 0;
    dp_fence_signal();
    if (!trace_id || !span_id)
        return;
    memcpy(self->trace, trace_id, DP_TRACE_ID_BYTES);
    memcpy(self->trace + 2, span_id, DP_TRACE_SPAN_BYTES);
    dp_fence_signal();
    self->traced = 1;
}
