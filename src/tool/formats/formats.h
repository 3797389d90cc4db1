/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/formats.h - writes profiles as OTLP profiles, folded stacks and speedscope's JSON; reads folded stacks.
 *
 * Writers take rows of a model.
 */
#pragma once

#include "tool/model/write.h"

/* Some rows and types of a model. */
struct dp_formats_profile {
    const struct dp_model *model;
    const struct dp_model_header *header;
    const int64_t *values; /* of all rows and types of the model */
    const uint32_t *rows;  /* of the model, in the order in which they are written */
    size_t n_rows;
    uint32_t first_type, n_types;
};

struct dp_formats_attribute {
    const char *key, *value;
};

/* Data of an OTLP request beside the profile. */
struct dp_formats_origin {
    const struct dp_formats_attribute *attributes; /* of the resource: service.name, ... */
    size_t n_attributes;
    const char *kind;  /* heap, mutex, block, events, which sample types do not tell apart */
    size_t n_kind;     /* 0: not known */
    const uint8_t *id; /* 16 bytes, from which the ids of the Profiles are made; NULL: none */
};

/* Writes ExportProfilesServiceRequest, which is ProfilesData too (opentelemetry-proto 1.11, v1development). 0 or a
 * negative errno. */
int dp_formats_write_otlp(const struct dp_formats_profile *, const struct dp_formats_origin *, dp_pprof_write_fn fn,
                          void *ctx);

/* One line a stack, root first: `main;f;g 17`, of sample type `type`, which counts from first_type. */
int dp_formats_write_folded(const struct dp_formats_profile *, uint32_t type, dp_pprof_write_fn fn, void *ctx);

/* A speedscope file (www.speedscope.app/file-format-schema.json) with a profile for each sample type. */
int dp_formats_write_speedscope(const struct dp_formats_profile *, const char *name, dp_pprof_write_fn fn, void *ctx);

/* Makes a pprof message, uncompressed, which the decoder then checks. 0; -EBADMSG with the reason in *error; or another
 * negative errno. */
int dp_formats_read_folded(const uint8_t *bytes, size_t n_bytes, dp_pprof_write_fn fn, void *ctx,
                           struct dp_decode_error *);
