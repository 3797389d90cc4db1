/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waits_page.h - the threads that wait now, as text: for what, for how long, where, and which thread holds
 * it. Context: outside hooks.
 */
#pragma once

#include "pprof/gzip.h"

/* A paragraph for each wait, the longest one first. 0, fn's error, or -ENOMEM. */
int dp_waits_write(dp_pprof_write_fn fn, void *ctx);
