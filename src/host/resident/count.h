/* SPDX-License-Identifier: MIT */
/* host/resident/count.h - counts the anonymous resident pages of each mapping of this process. */
#pragma once

#include "base/vma.h"
#include "host/resident/pages.h"

/*
 * Sets anonymous_bytes of each mapping, without what the profiler has in it; *own_bytes: that, of all mappings. Sets
 * `step` and `others_share` of the pages. vmas: all, sorted and classified. anon_bytes: RssAnon. 0, or -ENOMEM.
 */
int dp_resident_count(struct dp_resident_pages *, struct dp_vma *vmas, size_t n_vmas, int64_t anon_bytes,
                      int64_t *own_bytes);
