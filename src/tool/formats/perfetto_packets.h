/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/perfetto_packets.h - builds the packets of a Perfetto trace and writes them to a write function.
 *
 * Names and stacks are interned: the first packet that needs one brings it along, and later ones give its number.
 */
#pragma once

#include "base/mem.h"
#include "pprof/gzip.h"
#include "pprof/strings.h"

/* A message under construction. */
struct dp_formats_timeline_message {
    DP_VEC(uint8_t) bytes;
    int err;
};

/* Names that packets refer to by number. */
struct dp_formats_timeline_names {
    struct dp_strings set;
    size_t n_told; /* how many were written, so that readers know them */
};

/* Zero with fn and ctx is one that has written nothing. */
struct dp_formats_timeline_packets {
    dp_pprof_write_fn fn;
    void *ctx;
    int err;                                                     /* the first one; then nothing more is written */
    struct dp_formats_timeline_message packet, inner, innermost; /* each goes into the one before it */
    struct dp_formats_timeline_names event_names, annotation_names, annotation_strings;
};

void dp_formats_timeline_put_number(struct dp_formats_timeline_message *, unsigned field, uint64_t value);
void dp_formats_timeline_put_text(struct dp_formats_timeline_message *, unsigned field, const char *text);
/* Puts `from` into the message and empties it. */
void dp_formats_timeline_put_message(struct dp_formats_timeline_message *, unsigned field,
                                     struct dp_formats_timeline_message *from);

/* The number of a name in one of the three sets, 1 or more; 0 after an error. */
uint32_t dp_formats_timeline_packets_intern(struct dp_formats_timeline_packets *, struct dp_formats_timeline_names *,
                                            const char *text);
/* Puts the names that the reader does not know yet into the packet. `inner` must be empty. */
void dp_formats_timeline_packets_tell(struct dp_formats_timeline_packets *);
/* Ends the packet and writes it. */
void dp_formats_timeline_packets_write(struct dp_formats_timeline_packets *);
void dp_formats_timeline_packets_fini(struct dp_formats_timeline_packets *);
