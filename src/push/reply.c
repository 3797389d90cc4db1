/* SPDX-License-Identifier: MIT */
/* push/reply.c - reads the body of a reply: rejected profiles. */
#include "push/body.h"

#include "pprof/wire.h"

/*
 * ExportProfilesServiceResponse: partial_success = 1 {rejected_profiles = 1 int64, error_message = 2}. Source:
 * opentelemetry-proto, collector/profiles/v1development. Bytes that are no such message reject nothing.
 */
int64_t dp_push_body_rejected(const struct dp_push_target *target, const void *reply, size_t n_bytes)
{
    const uint8_t *at = reply, *end = at + n_bytes;
    uint64_t tag, n, rejected = 0;
    if (target->protocol != DP_PUSH_OTLP || !n_bytes || !(at = dp_wire_get(at, end, &tag)) ||
        tag != dp_wire_tag(1, DP_WIRE_BYTES) || !(at = dp_wire_get(at, end, &n)) || n > (size_t)(end - at))
        return 0;
    if (!(at = dp_wire_get(at, end, &tag)) || tag != dp_wire_tag(1, DP_WIRE_VARINT) || !dp_wire_get(at, end, &rejected))
        return 0;
    return (int64_t)rejected;
}
