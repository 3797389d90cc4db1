/* SPDX-License-Identifier: MIT */
/* binary/binary.h - reads the facts about an ELF file that `run` needs before it starts it. */
#pragma once

#include <stdbool.h>

/* Programs whose memory is, for the most part, not that of malloc. */
enum dp_binary_runtime {
    DP_BINARY_RUNTIME_NONE,
    DP_BINARY_RUNTIME_GO,
    DP_BINARY_RUNTIME_JAVA,
    DP_BINARY_RUNTIME_V8,
    DP_BINARY_RUNTIME_PARTITION_ALLOC
};

struct dp_binary {
    bool is_elf;
    bool is_cut;         /* the file ends before its headers or segments do */
    bool is_ours;        /* same class, byte order and machine as this program */
    char interp[256];    /* PT_INTERP; "" for a static program */
    char sanitizer[64];  /* the library or symbol that shows a sanitizer; "" none */
    char own_malloc[64]; /* the malloc that a preload cannot hook, by its symbol or its allocator; "" none */
    enum dp_binary_runtime runtime;
    bool own_exported; /* own_malloc is "malloc" itself, exported: libraries get it too */
    bool is_python;    /* CPython, which has a mimalloc for its objects only */
    bool own_hooked;   /* its allocator has hooks, and a symbol table tells where: jemalloc's or tcmalloc's */
};

/* 0 and elf filled (is_elf false for anything else), or -errno of opening or reading the file. */
int dp_binary_read(const char *path, struct dp_binary *elf);
