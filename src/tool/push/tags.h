/* SPDX-License-Identifier: MIT */
/*
 * tool/push/tags.h - the tags of a profile that a receiver gets: service, host, program, process, and the user's tags.
 *
 * Sources, of which later ones override earlier ones: the file's name and comments; OTEL_RESOURCE_ATTRIBUTES;
 * OTEL_SERVICE_NAME; --service; --tag. A tag with an empty value is left out.
 */
#pragma once

#include "tool/push/queue.h"

/* Of a profile, and of those that the user may give: a server of labels takes 30, some of which are not tags. */
#define DP_PUSH_MOST_TAGS  24
#define DP_PUSH_MOST_GIVEN 20

struct dp_push_tag {
    char *key, *value;
};

struct dp_push_tags {
    struct dp_push_tag at[DP_PUSH_MOST_TAGS];
    size_t n;
    size_t n_skipped; /* of the environment, which may have more than fit */
};

/* Sets a tag; text is KEY=VALUE. 0; -EINVAL: not of that form; -E2BIG: too many tags; -ENOMEM. */
int dp_push_tags_set(struct dp_push_tags *, const char *text);
/* Adds the tags in the environment; to be called before the command line is read. 0 or -ENOMEM. */
int dp_push_tags_environment(struct dp_push_tags *);
/* The tags of one file's profile, under OpenTelemetry's names: service.name, host.name, process.pid, ... 0 or -ENOMEM.
 */
int dp_push_tags_of_file(struct dp_push_tags *, const struct dp_push_tags *given, const struct dp_push_file *);
void dp_push_tags_fini(struct dp_push_tags *);

/* A tag's name as Prometheus writes labels: [a-zA-Z_][a-zA-Z0-9_]*; service.name is service_name. */
void dp_push_tags_label(char *to, size_t n_bytes, const char *key);
/* Whether that label begins with __, which is reserved: it is not sent. Keys in other alphabets have such a one. */
bool dp_push_tags_is_reserved(const char *key);
