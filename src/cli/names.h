/* SPDX-License-Identifier: MIT */
/*
 * cli/names.h - names for the places that a profile names nothing at, from the files that it says they lie in.
 */
#pragma once

#include "base/symbolize.h"
#include "pprof/model.h"

struct dp_cli_object;

/* Zero is a valid start. */
struct dp_cli_names {
    const struct dp_symbolize_ops *ops;
    void *session;
    bool opened;                            /* was tried */
    DP_VEC(struct dp_cli_object *) objects; /* by mapping; NULL: not asked yet */
};

/*
 * The function at a location without lines, demangled; the text is good until the next call. NULL: there is no such
 * file here, it has another build-id, or it does not say.
 */
const char *dp_cli_names_find(struct dp_cli_names *, const struct dp_model *, uint32_t location);
void dp_cli_names_fini(struct dp_cli_names *);
