/* SPDX-License-Identifier: MIT */
/*
 * host/resident/resident.h - reads how much memory of the process is resident, and of which parts it consists, to
 * compare a profile with the output of ps.
 */
#pragma once

#include "base/vma.h"

#include <stddef.h>
#include <stdint.h>

struct dp_resident {
    int64_t all_bytes, anon_bytes; /* VmRSS and RssAnon of /proc/PID/status */
};

/* Returns 0; or a negative errno and zeros: the kernel gives no answer. Context: outside hooks; opens a file. */
int dp_resident_read(struct dp_resident *);

#define DP_RESIDENT_HEAPS 256

/* Resident bytes, and what is in use by heap: estimates, as all that is sampled. */
struct dp_resident_parts {
    int64_t in_use_bytes[DP_RESIDENT_HEAPS]; /* by heap id; 0 is malloc */
    int64_t error_bytes;                     /* standard deviation of their sum */
    int64_t absent_bytes;                    /* allocated in large blocks, but never touched */
    int64_t rounding_bytes;                  /* of blocks in use: between the size asked for and the size given */
    int64_t classes_bytes;                   /* the same, resident or not */
    int64_t held_bytes;                      /* of mappings that hold blocks, beyond what is in use */
    int64_t mapped_bytes;                    /* of mappings that the program made, where they are recorded */
    int64_t stacks_bytes, files_bytes, self_bytes;
};

/*
 * Divides the anon_bytes of `resident`. stack_bytes: the size of threads' stacks by default. Returns 0; or a negative
 * errno: not known. Costs about 10 ms for a gigabyte that is resident, and not more for what is larger: of that, parts
 * are looked at.
 */
int dp_resident_divide(const struct dp_resident *resident, size_t stack_bytes, struct dp_resident_parts *parts);

/*
 * Asks the allocator of the C heap which sizes it gives, once: size_of(n, 0) is that of a block of n bytes. Without it
 * no rounding is known. Context: init.
 */
void dp_resident_classes_learn(size_t (*size_of)(size_t n, int flags));
/* The size of a block for which n_bytes were asked. */
size_t dp_resident_class_of(size_t n_bytes);

/*
 * Mappings of this process that held sampled blocks at the last division become DP_VMA_ARENA. vmas: all, in the order
 * of their addresses. keep: remembers those of that kind. Context of both: as dp_resident_divide.
 */
void dp_resident_known_recall(struct dp_vma *vmas, size_t n);
void dp_resident_known_keep(const struct dp_vma *vmas, size_t n);
void dp_resident_known_fork_child(void); /* Only stores. */
