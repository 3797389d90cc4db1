/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/unwinder.h - interface of the unwind module: walks through libunwind, with memory accessors that the
 * profiler gives it.
 */
#pragma once

#include "base/module.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Registers by DWARF number; the last one is the pc. */
#if defined(__x86_64__)
enum { DP_UNWINDER_REGS = 17 };
#elif defined(__aarch64__)
enum { DP_UNWINDER_REGS = 33 };
#endif

/* A frame as libunwind sees it: return address (or interrupted pc), and the stack pointer there. */
struct dp_unwinder_step {
    uintptr_t pc, sp;
    bool interrupted; /* pc is exact, not a return address */
};

/* How the module reads the process. read copies an aligned word; false: it cannot be read. */
struct dp_unwinder_process {
    bool (*find)(void *ctx, uintptr_t pc, uintptr_t *eh_frame_hdr, uintptr_t *fdes, size_t *n_fdes);
    bool (*read)(void *ctx, uintptr_t address, uintptr_t *word);
    void *ctx;
};

struct dp_unwinder_ops {
    struct dp_module_ops base;
    int (*open)(void); /* 0 or -ENOMEM. Context: outside hooks, once */
    /*
     * Walks from registers rootward and writes frames, from the first one with sp >= from_sp on, at most max. Returns
     * their number; *whole: the last one is the outermost. Holds no lock during calls to `read` and the like; calls
     * neither dl_iterate_phdr nor the host's heap.
     */
    size_t (*walk)(const uintptr_t *registers, uintptr_t from_sp, struct dp_unwinder_step *steps, size_t max,
                   bool *whole, const struct dp_unwinder_process *process);
};
