/* SPDX-License-Identifier: MIT */
/*
 * tool/model/moments.h - what was in use at several times, in a profile that was merged from many.
 *
 * The in-use values of a sample are those of one time. Which time that is depends on all profiles that are merged: the
 * peak of a sum over processes cannot be found from the peaks of its parts. So a merged profile also has the in-use
 * values of all times, and merging merged profiles gives what merging their sources gives. They stand in one field of
 * the profile that other readers skip, as protobuf asks them to.
 *
 * The field's bytes are varints; signed numbers are in zigzag:
 *
 *     1, n_locations, n_types, n_rows, rows, n_moments, moments
 *     row:     n_ids, ids of locations, n_labels, labels: key, str (strings of the profile), num (signed), num_unit
 *     moment:  process, seq, time_ns, duration_ns, bytes, own_bytes (these four signed), marks, n_changes, changes
 *     change:  row (signed, to the row before), n_types values (signed, to the moment before of the same process)
 *
 * Moments of a process follow each other. n_types counts the types of the profile that are in-use values, in order.
 * A profile with another number of locations than n_locations was changed by another program; its field is ignored.
 */
#pragma once

#include "tool/model/write.h"

#include <stdbool.h>

enum {
    DP_MOMENTS_FIELD = 1001, /* its number in profile.proto, which has none as high */
    DP_MOMENTS_VERSION = 1,
    DP_MOMENTS_TYPES_MAX = 64,
};
enum { DP_MOMENTS_EXIT = 1, DP_MOMENTS_ENDED = 2, DP_MOMENTS_GONE = 4 }; /* marks */

/* The state of a process when one profile of it was made. */
struct dp_model_moment {
    uint64_t process, seq;        /* seq orders the moments of a process */
    int64_t time_ns, duration_ns; /* the end of the profile's window, and its length */
    int64_t bytes, own_bytes;     /* inuse_space in all, and without memory inherited at a fork */
    bool is_exit;                 /* it was made when the process began to end */
    bool ended;                   /* it is the last of its process, after its destructors */
    bool is_gone;                 /* without such a profile: the process no longer existed when this was read */
};

struct dp_model_moments {
    DP_VEC(struct dp_model_moment) at;
};

/* Whether a field of a profile is this one. */
bool dp_model_moments_is_field(const struct dp_decode *, struct dp_decode_span field);

/* Appends the moments of a profile, without values. 0, also if it has none or a broken field, or -ENOMEM. */
int dp_model_moments_read(const struct dp_decode *, struct dp_model_moments *);

/*
 * Reads the values of the profile that was added to the model last: calls fn for each value that is not 0, of the
 * moments that are wanted, one by one. 0, -EBADMSG, -ENOMEM, or fn's error.
 */
typedef int (*dp_model_moments_fn)(void *ctx, size_t moment, uint32_t row, uint32_t type, int64_t value);
int dp_model_moments_values(const struct dp_decode *, struct dp_model *, const bool *wanted, dp_model_moments_fn fn,
                            void *ctx);

/* A value of a moment; type counts all types of the model. */
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

/* Writes the field after the last row of a profile; sorts the moments. 0 or -ENOMEM. */
int dp_model_moments_write(struct dp_model_write *, struct dp_model_moment_values *moments, size_t n_moments);

/* How many types of a profile are states. */
size_t dp_model_moments_states(const struct dp_decode *);
/* Whether a type of the model is a state, such as inuse_space, and not a count of events. */
bool dp_model_moments_is_state(const struct dp_model *, size_t type);
