/* SPDX-License-Identifier: MIT */
/* tool/push/body_otlp.c - the body for an OTLP receiver: one part as OTLP profiles, gzipped. */
#include "tool/push/body_otlp.h"

#include "profile/kinds.h"

#include "tool/formats/formats.h"
#include "pprof/gzip.h"

#include <errno.h>
#include <string.h>

int dp_push_body_otlp(struct dp_push_body *body, struct dp_push_profile *p, size_t number, int64_t now_ns,
                      const struct dp_push_origin *origin)
{
    const struct dp_push_part *part = &p->parts.at[number];
    struct dp_model_header header = p->merge.header; /* a view of it */
    struct dp_formats_attribute attributes[DP_PUSH_MOST_TAGS];
    uint8_t id[16];
    dp_push_profile_window(p, now_ns, &header.time_ns, &header.duration_ns);
    dp_push_body_id(id, p, number);
    for (size_t i = 0; i < origin->tags->n; i++)
        attributes[i] = (struct dp_formats_attribute){origin->tags->at[i].key, origin->tags->at[i].value};
    struct dp_formats_origin from = {.attributes = attributes,
                                     .n_attributes = origin->tags->n,
                                     .kind = dp_kind_table[origin->kind].name,
                                     .n_kind = strlen(dp_kind_table[origin->kind].name),
                                     .id = id};
    struct dp_formats_profile profile = {.model = &p->merge.model,
                                         .header = &header,
                                         .values = p->merge.values.at,
                                         .rows = p->rows.at + part->first_row,
                                         .n_rows = part->n_rows,
                                         .first_type = part->first_type,
                                         .n_types = part->n_types};
    struct dp_gzip *gzip = dp_gzip_new(dp_push_bytes_append, &body->bytes);
    if (!gzip)
        return -ENOMEM;
    int err = dp_formats_write_otlp(&profile, &from, dp_gzip_write, gzip);
    err = err ? err : dp_gzip_finish(gzip);
    dp_gzip_free(gzip);
    body->type = "application/x-protobuf";
    body->is_gzipped = true;
    return err;
}
