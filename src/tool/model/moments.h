/* SPDX-License-Identifier: MIT */
/*
 * tool/model/moments.h - reads and writes the moments of a merged profile. A moment is the state of one process when
 * one of the merged profiles was made: the in-use values of each row.
 *
 * A sample's own in-use values are those of one time, for example of the peak. The peak of a sum over processes cannot
 * be computed from the peaks of the processes. So a merged profile keeps all moments, and merging merged profiles gives
 * the same as merging their sources. The moments are one field of the profile, which other readers skip, as protobuf
 * demands of unknown fields.
 *
 * The field is a list of varints; signed numbers are in zigzag:
 *
 *     1, n_locations, n_types, n_rows, rows, n_moments, moments
 *     row:     n_ids, ids of locations, n_labels, labels: key, str (strings of the profile), num (signed), num_unit
 *     moment:  process, seq, time_ns, duration_ns, bytes, own_bytes (these four signed), marks, n_changes, changes
 *     change:  row (signed, minus the previous row), n_types values (signed, minus those of the previous moment)
 *
 * The moments of a process stand together; before its first one all values are 0. n_types counts the types of
 * the profile that are states (see below), in their order. If n_locations is not the profile's number of locations,
 * another program has changed the profile, and the field is ignored.
 */
#pragma once

#include "tool/model/write.h"

#include <stdbool.h>

enum {
    DP_MOMENTS_FIELD = 1001, /* its number; those of profile.proto are lower */
    DP_MOMENTS_VERSION = 1,
    DP_MOMENTS_TYPES_MAX = 64,
};
enum { DP_MOMENTS_EXIT = 1, DP_MOMENTS_ENDED = 2, DP_MOMENTS_GONE = 4 }; /* marks */

/* A moment, without its values. */
struct dp_model_moment {
    uint64_t process, seq;        /* seq orders the moments of a process */
    int64_t time_ns, duration_ns; /* the end of the profile's window, and its length */
    int64_t bytes, own_bytes;     /* sum of inuse_space, and the sum without memory inherited at a fork */
    bool is_exit;                 /* made when the process began to end */
    bool ended;                   /* made after the destructors of the process: its last one */
    bool is_gone;                 /* there is no such last one, but the process no longer existed when this was read */
};

struct dp_model_moments {
    DP_VEC(struct dp_model_moment) at;
};

/* Whether a field of a profile is the field of moments. */
bool dp_model_moments_is_field(const struct dp_decode *, struct dp_decode_span field);

/* Appends the moments of a profile, without values; none if their field is missing or broken. 0 or -ENOMEM. */
int dp_model_moments_read(const struct dp_decode *, struct dp_model_moments *);

/*
 * Reads the values of the moments of the profile that was added to the model last. Calls fn for each value that is not
 * 0, moment after moment. wanted: by moment, whether fn is called. 0, -EBADMSG, -ENOMEM, or fn's error.
 */
typedef int (*dp_model_moments_fn)(void *ctx, size_t moment, uint32_t row, uint32_t type, int64_t value);
int dp_model_moments_values(const struct dp_decode *, struct dp_model *, const bool *wanted, dp_model_moments_fn fn,
                            void *ctx);

/* A value of a moment, by row and type of the model. */
struct dp_model_moment_value {
    uint32_t row, type;
    int64_t value;
};

/* A moment to write, with its values. */
struct dp_model_moment_values {
    struct dp_model_moment moment;
    const struct dp_model_moment_value *values;
    size_t n_values;
};

/* Sorts the moments and writes their field, after the last row of a profile. 0 or -ENOMEM. */
int dp_model_moments_write(struct dp_model_write *, struct dp_model_moment_values *moments, size_t n_moments);

/* Whether a type of the model is a state: a level such as inuse_space, not a count of events. */
bool dp_model_moments_is_state(const struct dp_model *, size_t type);
/* How many types of a profile are states. */
size_t dp_model_moments_count_states(const struct dp_decode *);
