/* SPDX-License-Identifier: MIT */
/*
 * host/http/endpoint.h - starts and stops the endpoint, for the core. The functions for requests are declared in
 * <deltaprof/http.h>.
 */
#pragma once

#include "config/config.h"

#include <stdbool.h>

/* Makes the endpoint answer requests; before, the answer is 503. */
void dp_http_endpoint_init(const struct dp_config *conf);
/* In a forked child: abandons replies and cursors of the parent. Only stores. */
void dp_http_endpoint_fork_child(void);
