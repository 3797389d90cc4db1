/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waits_page.h - writes the waits under way as text: what each thread waits for, how long, with which stack,
 * and which thread holds the lock. Context: outside hooks.
 */
#pragma once

#include "pprof/gzip.h"

/* Their number, then a line for each deadlock, then a paragraph for each wait, longest first. 0, fn's error, -ENOMEM.
 */
int dp_waits_write(dp_pprof_write_fn fn, void *ctx);
