/* SPDX-License-Identifier: MIT */
/*
 * record/unwinder.h - the seam to the unwind module: a walk through libunwind with accessors of ours.
 */
#pragma once

#include "base/module.h"

#include <stddef.h>
#include <stdint.h>

/* A step as libunwind sees it: return address (or interrupted pc) and the CFA reached. */
struct dp_unwinder_step {
    uintptr_t pc, sp, fp;
    int interrupted; /* the frame below is a signal frame: pc is exact, not a return address */
};

struct dp_unwinder_ops {
    struct dp_module_ops base;
    /*
     * Walks from the register context of the caller rootward, at most max steps, into steps. Returns their number.
     * find gives the unwind table of the object at pc (1: found); read copies one word of checked memory (0: readable).
     * Takes no lock, calls neither dl_iterate_phdr nor the host's heap.
     */
    size_t (*walk)(void *ucontext, struct dp_unwinder_step *steps, size_t max,
                   int (*find)(uintptr_t pc, uintptr_t *start, uintptr_t *end, const void **eh_frame_hdr),
                   int (*read)(uintptr_t address, uintptr_t *word));
};
