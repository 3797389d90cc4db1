/* SPDX-License-Identifier: MIT */
/*
 * tool/push/body.c - bodies for Pyroscope (push.v1.PushRequest), Parca (WriteRaw as JSON), and receivers of plain
 * pprof.
 *
 * Sources: api/push/v1/push.proto of grafana/pyroscope; proto/parca/profilestore/v1alpha1 of parca-dev/parca.
 */
#include "tool/push/body.h"

#include "base/text.h"
#include "pprof/encode_json.h"
#include "pprof/encode_utf8.h"
#include "pprof/wire.h"
#include "profile/kinds.h"
#include "tool/push/body_otlp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int append_bytes(struct dp_push_bytes *to, const void *bytes, size_t n_bytes)
{
    return dp_push_bytes_append(to, bytes, n_bytes);
}

static int put_text(struct dp_push_bytes *to, const char *text)
{
    return append_bytes(to, text, strlen(text));
}

static int put_field(struct dp_push_bytes *to, unsigned field, const void *bytes, size_t n_bytes)
{
    uint8_t head[2 * DP_WIRE_VARINT_MAX];
    uint8_t *end = dp_wire_put(dp_wire_put(head, dp_wire_tag(field, DP_WIRE_BYTES)), n_bytes);
    int err = append_bytes(to, head, (size_t)(end - head));
    return err ? err : append_bytes(to, bytes, n_bytes);
}

/* ---- labels: `fn` for each
 * ------------------------------------------------------------------------------------------- */

typedef int (*label_fn)(struct dp_push_bytes *, const char *name, const char *value);

enum { NAME_BYTES = 128, VALUE_BYTES = 2048 }; /* Pyroscope takes values of up to 2048 bytes */

/* Whether tag i becomes a label: names that begin with __ are reserved, and of equal names the last counts. */
static bool is_label(const struct dp_push_tags *tags, size_t i)
{
    char name[NAME_BYTES], other[NAME_BYTES];
    dp_push_tags_label(name, sizeof name, tags->at[i].key);
    bool is = !dp_push_tags_is_reserved(tags->at[i].key);
    for (size_t k = i + 1; k < tags->n && is; k++) {
        dp_push_tags_label(other, sizeof other, tags->at[k].key);
        is = strcmp(name, other);
    }
    return is;
}

/* Whether a tag becomes the label of this name. */
static bool has_label(const struct dp_push_tags *tags, const char *wanted)
{
    bool found = false;
    for (size_t i = 0; i < tags->n && !found; i++) {
        char name[NAME_BYTES];
        dp_push_tags_label(name, sizeof name, tags->at[i].key);
        found = !strcmp(name, wanted) && is_label(tags, i);
    }
    return found;
}

static int put_labels(struct dp_push_bytes *to, const struct dp_push_origin *origin, label_fn fn)
{
    int err = fn(to, "__name__", dp_kind_table[origin->kind].receivers_name);
    for (size_t i = 0; i < origin->tags->n && !err; i++) {
        char name[NAME_BYTES], value[VALUE_BYTES + 1];
        const struct dp_push_tag *tag = &origin->tags->at[i];
        if (!is_label(origin->tags, i))
            continue;
        dp_push_tags_label(name, sizeof name, tag->key);
        size_t n = strnlen(tag->value, VALUE_BYTES);
        n = dp_encode_utf8_prefix(tag->value, n); /* not in the middle of a character */
        memcpy(value, tag->value, n);
        value[n] = 0;
        err = fn(to, name, value);
    }
    return err;
}

/* ---- Pyroscope -----------------------------------------------------------------------------------------------------
 */

static int wire_label(struct dp_push_bytes *to, const char *name, const char *value)
{
    struct dp_push_bytes pair = {0};
    int err = put_field(&pair, 1, name, strlen(name));
    err = err ? err : put_field(&pair, 2, value, strlen(value));
    err = err ? err : put_field(to, 1, pair.at, pair.n);
    dp_vec_fini(&pair);
    return err;
}

/* One series with one sample. __delta__ false: the values are already those of the window. */
static int make_pyroscope(struct dp_push_body *body, const struct dp_push_origin *origin)
{
    struct dp_push_bytes series = {0}, sample = {0};
    int err = put_labels(&series, origin, wire_label);
    err = err ? err : wire_label(&series, "__delta__", "false");
    err = err ? err : put_field(&sample, 1, body->profile.at, body->profile.n);
    err = err ? err : put_field(&sample, 2, body->id, strlen(body->id));
    err = err ? err : put_field(&series, 2, sample.at, sample.n);
    err = err ? err : put_field(&body->bytes, 1, series.at, series.n);
    dp_vec_fini(&series);
    dp_vec_fini(&sample);
    body->type = "application/proto";
    return err;
}

/* ---- Parca ---------------------------------------------------------------------------------------------------------
 */

static int append(void *to, const void *bytes, size_t n_bytes)
{
    return append_bytes(to, bytes, n_bytes);
}

static int json_label(struct dp_push_bytes *to, const char *name, const char *value)
{
    int err = put_text(to, to->at[to->n - 1] == '[' ? "{\"name\":" : ",{\"name\":");
    err = err ? err : dp_encode_json_string(name, append, to);
    err = err ? err : put_text(to, ",\"value\":");
    err = err ? err : dp_encode_json_string(value, append, to);
    return err ? err : put_text(to, "}");
}

static int put_base64(struct dp_push_bytes *to, const uint8_t *bytes, size_t n_bytes)
{
    if (!dp_vec_room(to, n_bytes / 3 * 4 + 4))
        return -ENOMEM;
    to->n += dp_text_base64((char *)to->at + to->n, bytes, n_bytes);
    return 0;
}

static int make_parca(struct dp_push_body *body, const struct dp_push_part *part, const struct dp_push_origin *origin)
{
    struct dp_push_bytes *to = &body->bytes;
    int err = put_text(to, "{\"series\":[{\"labels\":{\"labels\":[");
    err = err ? err : put_labels(to, origin, json_label);
    if (!err && part->lock && !has_label(origin->tags, "lock"))
        err = json_label(to, "lock", part->lock);
    err = err ? err : put_text(to, "]},\"samples\":[{\"rawProfile\":\"");
    err = err ? err : put_base64(to, body->profile.at, body->profile.n);
    err = err ? err : put_text(to, "\"}]}],\"normalized\":false}");
    body->type = "application/json";
    return err;
}

/* ---- all -----------------------------------------------------------------------------------------------------------
 */

void dp_push_body_id(uint8_t id[16], const struct dp_push_profile *p, size_t part)
{
    memcpy(id, p->id, 16);
    for (int i = 0; i < 4; i++)
        id[9 + i] ^= (uint8_t)(part >> 8 * i);
    id[6] = (id[6] & 0x0f) | 0x80; /* a UUID of version 8, which may be made by any rule */
    id[8] = (id[8] & 0x3f) | 0x80;
}

static void make_id(struct dp_push_body *body, const struct dp_push_profile *p, size_t part)
{
    uint8_t id[16];
    char *at = body->id;
    dp_push_body_id(id, p, part);
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
}

int dp_push_body_make(struct dp_push_body *body, const struct dp_push_target *target, struct dp_push_profile *p,
                      size_t part, int64_t now_ns, const struct dp_push_origin *origin)
{
    dp_vec_clear(&body->bytes);
    dp_vec_clear(&body->profile);
    body->is_gzipped = false;
    make_id(body, p, part);
    if (target->protocol == DP_PUSH_OTLP)
        return dp_push_body_otlp(body, p, part, now_ns, origin);
    int err = dp_push_profile_write(p, part, now_ns, &body->profile);
    if (err)
        return err;
    switch (target->protocol) {
    case DP_PUSH_PYROSCOPE:
        return make_pyroscope(body, origin);
    case DP_PUSH_PARCA:
        return make_parca(body, &p->parts.at[part], origin);
    default:
        body->type = "application/octet-stream";
        return append_bytes(&body->bytes, body->profile.at, body->profile.n);
    }
}

void dp_push_body_fini(struct dp_push_body *body)
{
    dp_vec_fini(&body->bytes);
    dp_vec_fini(&body->profile);
}
