/* SPDX-License-Identifier: MIT */
/*
 * tool/push/unit_profile.h - one unit as a profile: its files read and joined, cut into parts that the receiver takes.
 *
 * Parts are the same whenever the same files are read again: a part that was settled before a crash is not sent again
 * in another form.
 */
#pragma once

#include "tool/model/merge.h"
#include "tool/push/fold.h"
#include "tool/push/queue.h"
#include "tool/push/target.h"

/* Rows and types of one part. */
struct dp_push_part {
    uint32_t first_row, n_rows; /* in profile->rows */
    uint32_t first_type, n_types;
    bool is_state;    /* in-use values, which are sent apart: values at the end of the window */
    const char *lock; /* the kind of lock that all its rows wait for, which becomes a label of the series; NULL: none */
};

/* Zero is an empty one; it can be read into again. */
struct dp_push_profile {
    const struct dp_push_fold *fold; /* the caller's; NULL: nothing */
    struct dp_push_limits limits;
    struct dp_model_merge merge;
    DP_VEC(uint32_t) rows; /* of the model, with a value that is not 0 */
    DP_VEC(struct dp_push_part) parts;
    DP_VEC(uint8_t) file; /* the bytes of the only file; empty if there are several */
    uint8_t id[16];       /* the same for the same files */
};

/*
 * Reads the files. Returns 0; -ENOENT: one of them was deleted; -EBADMSG: one of them is no profile, with the reason in
 * *error; -ENOMEM; or another negative errno.
 */
int dp_push_profile_read(struct dp_push_profile *, const struct dp_push_queue *,
                         const struct dp_push_file *const *files, size_t n_files, const struct dp_push_target *,
                         struct dp_decode_error *);
void dp_push_profile_fini(struct dp_push_profile *);

struct dp_push_bytes {
    uint8_t *at;
    size_t n, cap;
};
int dp_push_bytes_append(void *bytes, const void *more,
                         size_t n_more); /* a dp_pprof_write_fn on a struct dp_push_bytes */

/* The window of the profile, after what the receiver takes at this time. True: it was cut or moved. */
bool dp_push_profile_window(const struct dp_push_profile *, int64_t now_ns, int64_t *start_ns, int64_t *duration_ns);

/* Appends a part as gzipped pprof. 0 or a negative errno. */
int dp_push_profile_write(struct dp_push_profile *, size_t part, int64_t now_ns, struct dp_push_bytes *);
