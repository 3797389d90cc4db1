/* SPDX-License-Identifier: MIT */
/* host/resident/mapping_list.h - reads and classifies the mappings of this process. */
#pragma once

#include "base/vma.h"

/* Zero is empty. */
struct dp_resident_mappings {
    struct {
        struct dp_vma *at; /* in the order of their addresses */
        size_t n, cap;
    } vmas;
    struct {
        char *at;
        size_t n, cap;
    } text; /* of /proc/self/maps, with the names */
};

/* stack_bytes: the size of threads' stacks by default. 0 or a negative errno; fini in both cases. Plain system calls.
 */
int dp_resident_mappings_read(struct dp_resident_mappings *, size_t stack_bytes);
void dp_resident_mappings_fini(struct dp_resident_mappings *);
