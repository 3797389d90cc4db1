/* SPDX-License-Identifier: MIT */
/*
 * tool/push/tags.c - collects the tags of a profile.
 *
 * OTEL_RESOURCE_ATTRIBUTES is "key=value,key=value" with percent-encoded values (OpenTelemetry's resource SDK).
 */
#include "tool/push/tags.h"

#include "pprof/encode_utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Short names that --tag takes for the known attributes, so that either name sets the same tag. */
static const char *const aliases[][2] = {
    {"service", "service.name"}, {"service_name", "service.name"},       {"host", "host.name"},
    {"pid", "process.pid"},      {"program", "process.executable.name"}, {"version", "service.version"}};

/* A copy in which bytes that are no UTF-8 are replaced: a name of a file may have any, and receivers refuse them. */
static char *copy_text(const char *text, size_t n_bytes)
{
    char *copy = malloc(3 * n_bytes + 1);
    if (copy)
        copy[dp_encode_utf8_replace(copy, text, n_bytes)] = 0;
    return copy;
}

static int set_tag(struct dp_push_tags *tags, const char *key, size_t n_key, const char *value, size_t n_value)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strlen(aliases[i][0]) == n_key && !memcmp(aliases[i][0], key, n_key)) {
            key = aliases[i][1];
            n_key = strlen(key);
        }
    char *new_key = copy_text(key, n_key), *new_value = copy_text(value, n_value);
    size_t at = 0;
    while (new_key && at < tags->n && strcmp(tags->at[at].key, new_key))
        at++;
    int err = !new_key || !new_value ? -ENOMEM : !n_key ? -EINVAL : at == DP_PUSH_MOST_TAGS ? -E2BIG : 0;
    if (err) {
        free(new_key);
        free(new_value);
        return err;
    }
    if (at < tags->n) {
        free(tags->at[at].key);
        free(tags->at[at].value);
    } else {
        tags->n++;
    }
    tags->at[at] = (struct dp_push_tag){new_key, new_value};
    return 0;
}

int dp_push_tags_set(struct dp_push_tags *tags, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return -EINVAL;
    return set_tag(tags, text, (size_t)(equals - text), equals + 1, strlen(equals + 1));
}

/* Decodes %XX in place; returns the new length. */
static size_t decode(char *text, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char hex[3] = {0};
        if (text[i] == '%' && i + 2 < n_bytes && isxdigit((uint8_t)text[i + 1]) && isxdigit((uint8_t)text[i + 2])) {
            memcpy(hex, text + i + 1, 2);
            text[n++] = (char)strtol(hex, NULL, 16);
            i += 2;
        } else {
            text[n++] = text[i];
        }
    }
    return n;
}

int dp_push_tags_environment(struct dp_push_tags *tags)
{
    const char *attributes = getenv("OTEL_RESOURCE_ATTRIBUTES"), *service = getenv("OTEL_SERVICE_NAME");
    char *copy = attributes ? strdup(attributes) : NULL;
    int err = attributes && !copy ? -ENOMEM : 0;
    char *rest = copy, *pair;
    while (!err && (pair = strsep(&rest, ","))) {
        pair += strspn(pair, " \t");
        char *equals = strchr(pair, '=');
        if (!equals)
            continue;
        size_t n_key = strcspn(pair, " \t=");
        char *value = equals + 1 + strspn(equals + 1, " \t");
        size_t n_value = strlen(value);
        while (n_value && isblank((uint8_t)value[n_value - 1]))
            n_value--;
        n_value = decode(value, n_value);
        bool fits = tags->n < DP_PUSH_MOST_GIVEN - 1; /* one is left for the service's name */
        err = n_key && fits ? set_tag(tags, pair, n_key, value, n_value) : 0;
        tags->n_skipped += n_key && !fits;
    }
    free(copy);
    if (!err && service && *service)
        err = set_tag(tags, "service.name", 12, service, strlen(service));
    return err;
}

int dp_push_tags_of_file(struct dp_push_tags *tags, const struct dp_push_tags *given, const struct dp_push_file *file)
{
    char host[256] = "";
    const char *pid = file->name + file->n_program + 1;
    *tags = (struct dp_push_tags){.n = 0};
    gethostname(host, sizeof host - 1);
    int err = set_tag(tags, "service.name", 12, file->name, file->n_program);
    err = err ? err : set_tag(tags, "process.executable.name", 23, file->name, file->n_program);
    err = err ? err : set_tag(tags, "process.pid", 11, pid, file->n_process - file->n_program - 1);
    err = err ? err : set_tag(tags, "host.name", 9, host, strlen(host));
    for (size_t i = 0; i < given->n && !err; i++)
        if (*given->at[i].value || strcmp(given->at[i].key, "service.name")) /* an empty name of a service is none */
            err = set_tag(tags, given->at[i].key, strlen(given->at[i].key), given->at[i].value,
                          strlen(given->at[i].value));
    size_t n = 0;
    for (size_t i = 0; i < tags->n; i++) { /* an empty value removes the tag */
        struct dp_push_tag tag = tags->at[i];
        if (*tag.value) {
            tags->at[n++] = tag;
        } else {
            free(tag.key);
            free(tag.value);
        }
    }
    tags->n = n;
    return err;
}

void dp_push_tags_fini(struct dp_push_tags *tags)
{
    for (size_t i = 0; i < tags->n; i++) {
        free(tags->at[i].key);
        free(tags->at[i].value);
    }
    tags->n = 0;
}

void dp_push_tags_label(char *to, size_t n_bytes, const char *key)
{
    static const char *const names[][2] = {
        {"host.name", "host"}, {"process.pid", "pid"}, {"process.executable.name", "program"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(key, names[i][0]))
            key = names[i][1];
    size_t n = 0;
    if (isdigit((uint8_t)*key) && n_bytes > 1)
        to[n++] = '_';
    for (; *key && n + 1 < n_bytes; key++)
        to[n++] = isalnum((uint8_t)*key) ? *key : '_';
    to[n] = 0;
}

bool dp_push_tags_is_reserved(const char *key)
{
    char begin[4];
    dp_push_tags_label(begin, sizeof begin, key);
    return !strncmp(begin, "__", 2);
}
