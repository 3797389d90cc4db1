/* SPDX-License-Identifier: MIT */
/* tool/formats/perfetto_packets.c - writes fields in place, and a message into its outer message when it is complete.
 */
#include "tool/formats/perfetto_packets.h"

#include "pprof/wire.h"

#include <errno.h>
#include <string.h>

enum { TRACE_PACKET = 1, SEQUENCE = 10, INTERNED = 12 }; /* fields of the trace and of a packet */
enum interned { INTERNED_EVENT_NAMES = 2, INTERNED_ANNOTATION_NAMES = 3, INTERNED_ANNOTATION_STRINGS = 29 };
enum { SEQUENCE_ID = 1 };

/* ---- messages ---- */

static uint8_t *room(struct dp_formats_timeline_message *m, size_t n_bytes)
{
    uint8_t *at = m->err ? NULL : dp_vec_room(&m->bytes, n_bytes);
    if (!at)
        m->err = -ENOMEM;
    return at;
}

void dp_formats_timeline_put_number(struct dp_formats_timeline_message *m, unsigned field, uint64_t value)
{
    uint8_t *at = room(m, 2 * DP_WIRE_VARINT_MAX);
    if (at)
        m->bytes.n = (size_t)(dp_wire_put_field(at, field, value) - m->bytes.at);
}

static void put_bytes(struct dp_formats_timeline_message *m, unsigned field, const void *bytes, size_t n_bytes)
{
    uint8_t *at = room(m, 2 * DP_WIRE_VARINT_MAX + n_bytes);
    if (at)
        m->bytes.n = (size_t)(dp_wire_put_bytes(at, field, bytes, n_bytes) - m->bytes.at);
}

void dp_formats_timeline_put_text(struct dp_formats_timeline_message *m, unsigned field, const char *text)
{
    put_bytes(m, field, text, strlen(text));
}

void dp_formats_timeline_put_message(struct dp_formats_timeline_message *m, unsigned field,
                                     struct dp_formats_timeline_message *from)
{
    put_bytes(m, field, from->bytes.at, from->bytes.n);
    m->err = m->err ? m->err : from->err;
    dp_vec_clear(&from->bytes);
}

/* ---- interning ---- */

uint32_t dp_formats_timeline_packets_intern(struct dp_formats_timeline_packets *t,
                                            struct dp_formats_timeline_names *names, const char *text)
{
    uint32_t number = dp_strings_add(&names->set, text, strlen(text));
    if (number == DP_STRINGS_NONE) {
        t->err = -ENOMEM;
        return 0;
    }
    return number + 1;
}

static void tell_names(struct dp_formats_timeline_packets *t, struct dp_formats_timeline_names *names, unsigned field)
{
    for (; names->n_told < dp_strings_count(&names->set); names->n_told++) {
        uint32_t number = (uint32_t)names->n_told;
        dp_formats_timeline_put_number(&t->innermost, 1, number + 1);
        put_bytes(&t->innermost, 2, dp_strings_at(&names->set, number), dp_strings_size(&names->set, number));
        dp_formats_timeline_put_message(&t->inner, field, &t->innermost);
    }
}

void dp_formats_timeline_packets_tell(struct dp_formats_timeline_packets *t)
{
    tell_names(t, &t->event_names, INTERNED_EVENT_NAMES);
    tell_names(t, &t->annotation_names, INTERNED_ANNOTATION_NAMES);
    tell_names(t, &t->annotation_strings, INTERNED_ANNOTATION_STRINGS);
    if (t->inner.bytes.n)
        dp_formats_timeline_put_message(&t->packet, INTERNED, &t->inner);
}

/* ---- packets ---- */

void dp_formats_timeline_packets_write(struct dp_formats_timeline_packets *t)
{
    uint8_t head[2 * DP_WIRE_VARINT_MAX], *at = head;
    dp_formats_timeline_put_number(&t->packet, SEQUENCE, SEQUENCE_ID);
    at = dp_wire_put(at, dp_wire_tag(TRACE_PACKET, DP_WIRE_BYTES));
    at = dp_wire_put(at, t->packet.bytes.n);
    if (!t->err)
        t->err = t->packet.err;
    if (!t->err)
        t->err = t->fn(t->ctx, head, (size_t)(at - head));
    if (!t->err)
        t->err = t->fn(t->ctx, t->packet.bytes.at, t->packet.bytes.n);
    dp_vec_clear(&t->packet.bytes);
}

void dp_formats_timeline_packets_fini(struct dp_formats_timeline_packets *t)
{
    dp_vec_fini(&t->packet.bytes);
    dp_vec_fini(&t->inner.bytes);
    dp_vec_fini(&t->innermost.bytes);
    dp_strings_fini(&t->event_names.set);
    dp_strings_fini(&t->annotation_names.set);
    dp_strings_fini(&t->annotation_strings.set);
}
