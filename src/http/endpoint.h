/* SPDX-License-Identifier: MIT */
/*
 * http/endpoint.h - what the core tells the endpoint; the requests themselves come in by <deltaprof/http.h>.
 */
#pragma once

#include "base/config.h"

#include <stdbool.h>

/* From now on requests are answered; before it, with 503. */
void dp_endpoint_init(const struct dp_config *conf);
/* No thread is made from now on: profiles are answered with 503. */
void dp_endpoint_before_seccomp(void);
/* Replies and cursors of the parent are abandoned. Only stores. */
void dp_endpoint_fork_child(void);
