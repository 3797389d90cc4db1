/* SPDX-License-Identifier: MIT */
/*
 * tool/query/frame_names.h - the functions of a location as they are shown: name, file and line if known, and whether
 * they are the user's own code.
 *
 * If the profile has only functions, inlined frames and lines are read from the files on this machine (DWARF).
 */
#pragma once

#include "tool/model/model.h"
#include "tool/query/lookup.h"
#include "profile/kinds.h"

#include <regex.h>
#include <stdbool.h>
#include <string.h>

struct dp_query_naming_frame {
    uint32_t name, file, library; /* in strings; file, library 0: not known */
    int64_t line;
    bool is_passing;     /* only passes an allocation or a lock on: operator new, g_mutex_lock */
    bool is_library;     /* of a language's own library: std::, core::, importlib */
    bool is_unnamed;     /* OBJECT+0xPLACE */
    bool is_foreign;     /* lies in a library of the system, or in the libraries of a runtime */
    bool is_runtime;     /* a runtime named it: a function of Python, Lua, ... */
    bool is_interpreter; /* native code of that runtime */
    bool is_profiler;    /* a hook of deltaprof */
    bool is_looked_up;   /* found here, in the file of its mapping, and not in the profile */
};

/* Zero is a valid start, with the model set. */
struct dp_query_naming_frames {
    const struct dp_model *model;
    bool full;               /* the caller's: names with all their template arguments and parameters */
    const regex_t *folds[2]; /* the caller's: more functions that only pass on; or NULL */

    struct dp_query_naming_lookup places;
    struct dp_strings strings;
    DP_VEC(struct dp_query_naming_frame) at;
    DP_VEC(uint64_t) of_location; /* first frame << 32 | frames; 0: not known yet */
    DP_VEC(uint8_t) passing;      /* by name: 0 not known yet, 1 no, 2 yes */
    DP_VEC(uint32_t) unnamed;     /* by mapping: frames without a name */
};

/*
 * The frames of a location, innermost first, as numbers from *first on; at least one. Number of frames, or -ENOMEM.
 */
int dp_query_naming_frames_of(struct dp_query_naming_frames *, uint32_t location, uint32_t *first);
/* A frame of that name that lies nowhere, as "[no stack]"; DP_STRINGS_NONE: no memory. */
uint32_t dp_query_naming_frames_named(struct dp_query_naming_frames *, const char *name);
void dp_query_naming_frames_fini(struct dp_query_naming_frames *);

static inline const char *dp_query_naming_frames_text(const struct dp_query_naming_frames *f, uint32_t string)
{
    return dp_strings_at(&f->strings, string);
}

/*
 * Whether the frames of a location are to be turned where it stands in a holder's stack. A holder's stack runs from its
 * root to its leaf, and profiles have the lines of its locations in this order; a look-up finds the innermost first.
 */
static inline bool dp_query_naming_turns_in_holder(const struct dp_query_naming_frames *f, uint32_t first)
{
    return f->at.at[first].is_looked_up;
}

/* Whether it is the frame between a waiter's stack and the stack of the holder, in a chain. */
static inline bool dp_query_naming_is_held_by(const struct dp_query_naming_frames *f, uint32_t frame)
{
    const char *name = dp_query_naming_frames_text(f, f->at.at[frame].name);
    return *name == '[' && !strcmp(name, DP_CHAIN_HELD_BY);
}
