/* SPDX-License-Identifier: MIT */
/*
 * cli/binary.h - what `run` must know of an ELF file before it starts it.
 */
#pragma once

#include <stdbool.h>

struct dp_binary {
    bool is_elf;
    bool is_ours;        /* the class, byte order and machine that this program has */
    char interp[256];    /* PT_INTERP; "" for a static program */
    char sanitizer[64];  /* the library or symbol that shows one; "" none */
    char own_malloc[64]; /* a name of malloc that no preload sees; "" none */
    bool own_exported;   /* own_malloc is "malloc" itself, exported: libraries get it too */
};

/* 0 and elf filled (is_elf false for anything else), or -errno of opening or reading the file. */
int dp_binary_read(const char *path, struct dp_binary *elf);
