/* SPDX-License-Identifier: MIT */
/* host/unwind/sibling.h - one walk by rules over the stack of another thread. Context: not a hook. */
#pragma once

#include "host/unwind/unwind.h"

/*
 * Fills frames from the place rootward, at most depth. Returns their number; *cut: some are missing at the root.
 * generation: of objects, not 0.
 */
uint32_t dp_sibling_walk(const struct dp_sibling *, uint32_t generation, dp_frame_id *frames, uintptr_t *sps,
                         uint32_t depth, bool *cut);
