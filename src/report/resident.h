/* SPDX-License-Identifier: MIT */
/* report/resident.h - reads how much memory of the process is resident, to compare a profile with the output of ps. */
#pragma once

#include <stdint.h>

struct dp_resident {
    int64_t all_bytes, anon_bytes; /* VmRSS and RssAnon of /proc/PID/status */
};

/* Returns 0; or a negative errno and zeros: the kernel gives no answer. Context: above the waterline; opens a file. */
int dp_resident_read(struct dp_resident *);
