/* SPDX-License-Identifier: MIT */
/* tool/push/body_otlp.h - shared by the files that make bodies. */
#pragma once

#include "tool/push/body.h"

/* The id of a part: the same whenever it is sent again. */
void dp_push_body_id(uint8_t id[16], const struct dp_push_profile *, size_t part);

int dp_push_body_otlp(struct dp_push_body *, struct dp_push_profile *, size_t part, int64_t now_ns,
                      const struct dp_push_origin *);
