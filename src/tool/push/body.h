/* SPDX-License-Identifier: MIT */
/* tool/push/body.h - the body of a request that carries one part of a profile, in the receiver's format. */
#pragma once

#include "tool/push/unit_profile.h"
#include "tool/push/tags.h"

struct dp_push_body {
    struct dp_push_bytes bytes, profile; /* profile: scratch */
    const char *type;                    /* Content-Type */
    bool is_gzipped;                     /* Content-Encoding: gzip */
    char id[37];                         /* of this part, as a UUID: the same whenever it is sent again */
};

/* Data of a body beside the profile. */
struct dp_push_origin {
    const struct dp_push_tags *tags;
    unsigned kind; /* enum dp_kind_id */
};

/* Makes the body for `target`. 0 or a negative errno. */
int dp_push_body_make(struct dp_push_body *, const struct dp_push_target *, struct dp_push_profile *, size_t part,
                      int64_t now_ns, const struct dp_push_origin *);
void dp_push_body_fini(struct dp_push_body *);

/* Text of a reply; it has no NUL at its end. */
struct dp_push_words {
    const char *at;
    size_t n_bytes;
};

/* The number of profiles that the receiver rejected, according to a reply with status 2xx; *why: its words for it. */
int64_t dp_push_body_rejected(const struct dp_push_target *, const void *reply, size_t n_bytes,
                              struct dp_push_words *why);
