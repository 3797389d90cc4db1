/* SPDX-License-Identifier: MIT */
/* formats/otlp_rows.h - shared by the files that read OTLP: the tables of the message, and the rows made from it. */
#pragma once

#include "formats/fields.h"
#include "formats/formats.h"
#include "formats/otlp.h"

struct value_type {
    uint64_t type, unit; /* strings of the dictionary */
};

/* A Profile of the message. */
struct profile {
    struct span message;
    uint32_t scope;  /* number of the message that it stands in */
    uint32_t order;  /* of its type in the pprof profile that it was made of */
    bool has_order;  /* the scope says so: then two Profiles of it are two types, though their names may be equal */
    uint32_t column; /* of the values */
    struct value_type type, period_type;
    int64_t time_ns, duration_ns, period;
};

struct row {
    uint32_t key;     /* of r->keys */
    uint64_t time_ns; /* 0: none */
};

struct reader {
    struct dp_decode_error *error;
    DP_VEC(struct span) tables[DICTIONARY_N];
    DP_VEC(struct profile) profiles;
    DP_VEC(uint64_t) attributes; /* of the first Profile */
    DP_VEC(uint32_t) orders;
    uint32_t n_scopes;
    struct span default_type;

    struct dp_strings keys; /* of rows: a Sample's stack, attributes and link, and the row's time */
    DP_VEC(struct value_type) types;
    DP_VEC(int64_t) values;     /* of each row, one for each type */
    DP_VEC(uint64_t) locations; /* pprof's id by index; 0: not written */
    DP_VEC(uint64_t) functions; /* likewise */
};

/* The entry of a table of the dictionary; beyond its end an empty one, which is not NULL. */
static inline struct span dictionary_entry(const struct reader *r, int table, uint64_t index)
{
    static const uint8_t empty[1];
    return index < r->tables[table].n ? r->tables[table].at[index] : (struct span){empty, empty};
}

/* Sums the samples of all Profiles by row. 0, -EBADMSG or -ENOMEM. */
int dp_otlp_rows_collect(struct reader *);
/* Writes the rows as pprof. */
int dp_otlp_rows_write(struct reader *, dp_pprof_write_fn fn, void *ctx);
void dp_otlp_rows_fini(struct reader *);
