/* SPDX-License-Identifier: MIT */
/*
 * report/resident.h - how much memory of the process is resident, so that a profile can be compared with what ps says.
 */
#pragma once

#include <stdint.h>

struct dp_resident {
    int64_t all_bytes, anon_bytes; /* VmRSS and RssAnon of /proc/PID/status */
};

/* 0, or a negative errno, and zeros: the kernel does not say. Context: above the waterline; opens a file. */
int dp_resident_read(struct dp_resident *);
