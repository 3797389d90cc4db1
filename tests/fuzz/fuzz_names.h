/* SPDX-License-Identifier: MIT */
/*
 * tests/fuzz/fuzz_names.h - fuzzes a module with any bytes as the file from which it reads names. The input is: two
 * addresses (8 bytes each) to look up in addition to some fixed ones, then the file.
 *
 * A module may find no names; returned names must be complete strings, and not more lines than requested.
 */
#pragma once

#include "base/symbolize.h"
#include "written.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FUZZ_LINES = 8 };

static inline void fuzz_look_up(const struct dp_symbolize_ops *ops, void *session, int handle, uintptr_t pc)
{
    struct dp_symbol_line lines[FUZZ_LINES];
    int n = ops->lookup(session, handle, pc, lines, FUZZ_LINES);
    CHECK(n >= 0 && n <= FUZZ_LINES);
    size_t n_chars = 0; /* reads every string to its end */
    for (int i = 0; i < n; i++) {
        CHECK(lines[i].name);
        n_chars += strlen(lines[i].name);
        n_chars += lines[i].system_name ? strlen(lines[i].system_name) : 0;
        n_chars += lines[i].file ? strlen(lines[i].file) : 0;
    }
    if (ops->variable(session, handle, pc, lines)) {
        CHECK(lines[0].name && lines[0].line >= 0);
        n_chars += strlen(lines[0].name);
    }
    __asm__ volatile("" ::"r"(n_chars));
}

static inline int fuzz_names(const struct dp_symbolize_ops *ops, const uint8_t *data, size_t size)
{
    uintptr_t wanted[2];
    if (size < sizeof wanted)
        return 0;
    memcpy(wanted, data, sizeof wanted);
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        CHECK((fd = memfd_create("names", MFD_CLOEXEC)) >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    size -= sizeof wanted;
    CHECK(!ftruncate(fd, 0) && pwrite(fd, data + sizeof wanted, size, 0) == (ssize_t)size);

    void *session = ops->open();
    CHECK(session);
    int handle = ops->add(session, path, NULL, 0, 0);
    if (handle >= 0) {
        const uintptr_t pcs[] = {wanted[0], wanted[1], 0, 0x1000, 0x401000, UINTPTR_MAX};
        for (size_t i = 0; i < sizeof pcs / sizeof *pcs; i++)
            fuzz_look_up(ops, session, handle, pcs[i]);
    }
    ops->close(session);
    return 0;
}
