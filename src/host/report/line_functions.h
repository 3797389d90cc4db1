/* SPDX-License-Identifier: MIT */
/*
 * host/report/line_functions.h - writes the functions of a profile's lines. Most functions are in a profile at several
 * locations; those that host/symbols/symbol.h keeps are found by their number, and no string is read again.
 */
#pragma once

#include "base/mem.h"
#include "base/symbolize.h"
#include "pprof/encode.h"
#include "host/symbols/maps.h"
#include "host/symbols/symbol_functions.h"

/* Zeroed is a valid start. */
struct dp_line_functions {
    struct {
        struct dp_line_function_id {
            uint32_t profile, id; /* the id is of this profile */
        } * at;
        size_t n, cap;
    } ids; /* by number */
    uint32_t profile;
};

/* A new profile has no function yet. */
void dp_line_functions_begin(struct dp_line_functions *);
void dp_line_functions_fini(struct dp_line_functions *);

/* Writes a kept function of which the profile has none. Returns its id; the encoder has any error. */
uint64_t dp_line_functions_add(struct dp_line_functions *, struct dp_encode *, const struct dp_symbols_function *);

/* Whether the profile has a kept function. */
static inline bool dp_line_functions_has(const struct dp_line_functions *f, uint32_t number)
{
    return number < f->ids.n && f->ids.at[number].profile == f->profile;
}

/* The id of a kept function in the profile; a new one is written. */
static inline uint64_t dp_line_functions_id(struct dp_line_functions *f, struct dp_encode *e, uint32_t number)
{
    if (dp_line_functions_has(f, number))
        return f->ids.at[number].id;
    return dp_line_functions_add(f, e, dp_symbols_function(number));
}

/* The same for a function that is not kept. */
uint64_t dp_line_function(struct dp_encode *e, const struct dp_symbol_line *line);

/*
 * A place without a name is written as a function OBJECT+0xPLACE, because readers leave out locations without
 * functions. Its mapping does not have has_functions, so that a reader with symbols still looks the place up.
 */
uint64_t dp_line_function_place(struct dp_encode *e, const struct dp_symbols_mapping *map, uint64_t pc);
