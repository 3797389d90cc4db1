/* SPDX-License-Identifier: MIT */
/* tool/formats/otlp_writer.h - shared by the files that write OTLP: the state, and the entries of the dictionary. */
#pragma once

#include "tool/formats/bytes.h"
#include "tool/formats/formats.h"
#include "tool/formats/otlp.h"

/* A row and the Sample that it belongs to: rows with the same stack and attributes have the same. */
struct row {
    uint32_t sample, row; /* of w->samples; of the model */
    uint64_t time_ns;     /* of an event */
};

struct writer {
    const struct dp_formats_profile *p;
    struct dp_strings tables[DICTIONARY_N];
    struct dp_strings samples;  /* encoded stack and attributes; a number for each Sample, from 1 on */
    DP_VEC(uint32_t) locations; /* index + 1 by the model's number; 0: not known yet */
    DP_VEC(struct row) rows;
    bool are_events;
    struct dp_formats_bytes scratch[4];
    bool failed;
};

/* A cleared scratch message; users at different depths take different ones. */
static inline struct dp_formats_bytes *scratch(struct writer *w, int number)
{
    dp_vec_clear(&w->scratch[number]);
    return &w->scratch[number];
}

static inline void put_any_int(struct dp_formats_bytes *to, int64_t number)
{
    put_varint(to, dp_wire_tag(ANY_INT, DP_WIRE_VARINT)); /* also for 0: an empty AnyValue has no type */
    put_varint(to, (uint64_t)number);
}

/* Each returns the index of the entry, which it adds if it is new. */
uint32_t dp_formats_otlp_entry(struct writer *, int table, const struct dp_formats_bytes *message);
uint32_t dp_formats_otlp_string(struct writer *, uint32_t number); /* of the model */
uint32_t dp_formats_otlp_mapping(struct writer *, uint32_t number);
uint32_t dp_formats_otlp_stack(struct writer *, uint32_t row);
uint32_t dp_formats_otlp_attribute(struct writer *, const char *key, const struct dp_formats_bytes *value,
                                   uint32_t unit);
uint32_t dp_formats_otlp_string_attribute(struct writer *, const char *key, uint32_t number);

/* Puts a string of the model into an AnyValue, as bytes. */
void dp_formats_otlp_put_string(struct writer *, struct dp_formats_bytes *to, uint32_t number);

/*
 * The attribute of label number `i` of a row. A key that a row has several times is one attribute with an array: keys
 * of a Sample must differ. 0: it is in the array of an earlier label.
 */
uint32_t dp_formats_otlp_label_attribute(struct writer *, const uint32_t *labels, uint32_t n_labels, uint32_t i);
