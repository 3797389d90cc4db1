/* SPDX-License-Identifier: MIT */
/*
 * tool/query/lookup.h - finds functions, inlined frames and lines of places in a profile, in the files that the profile
 * names.
 */
#pragma once

#include "base/symbolize.h"
#include "tool/model/model.h"

struct dp_query_naming_object;

/* Zero is a valid start. */
struct dp_query_naming_lookup {
    const struct dp_symbolize_ops *ops;
    void *session;
    bool opened;                                     /* was tried */
    DP_VEC(struct dp_query_naming_object *) objects; /* by mapping; NULL: not asked yet */
};

/*
 * The lines of a location by the file that it lies in, innermost first; their text is good until the next call. Number
 * of lines; 0: there is no such file here, it has another build-id, or it does not say.
 */
int dp_query_naming_lookup_find(struct dp_query_naming_lookup *, const struct dp_model *, uint32_t location,
                                struct dp_symbol_line *lines, int max);

/*
 * Opens a file for a mapping: `path`, or, if that is NULL, the one that the profile names. Returns the handle of
 * names->session; -ESTALE: the file has another build-id than the profile, or the profile has none; -ENOENT: it cannot
 * be read; -ENOSYS: the lines module is missing.
 */
int dp_query_lookup_open(struct dp_query_naming_lookup *, const struct dp_model *, uint32_t mapping, const char *path);
/* The address of a place by that file's program headers. False: it lies in no segment. */
bool dp_query_lookup_address(const struct dp_query_naming_lookup *, uint32_t mapping, uint64_t place,
                             uint64_t *address);

void dp_query_naming_lookup_fini(struct dp_query_naming_lookup *);
